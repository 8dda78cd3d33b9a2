// Loads the pieces of pages on demand. Scripts, since a page from a file may not fetch.
"use strict";
window.report = (() => {
  const KEPT = 60;
  const loaded = new Map();
  const waiting = new Map();

  async function unpack(data) {
    const bytes = Uint8Array.from(atob(data), (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  function script(source) {
    return new Promise((resolve, reject) => {
      const element = document.createElement("script");
      element.src = source;
      element.onload = () => resolve(element.remove());
      element.onerror = () => reject(new Error(`${source} is not there`));
      document.head.append(element);
    });
  }

  // The HTML of a piece; rejects where its file is missing.
  function load(name) {
    if (!loaded.has(name)) {
      const data = new Promise((resolve, reject) => {
        waiting.set(name, resolve);
        script(`data/${name}.js`).catch((error) => {
          loaded.delete(name);
          reject(error);
        });
      });
      loaded.set(name, data.then(unpack));
      if (loaded.size > KEPT) loaded.delete(loaded.keys().next().value);
    }
    return loaded.get(name);
  }

  function take(name, data) {
    waiting.get(name)?.(data);
    waiting.delete(name);
  }

  const index = JSON.parse(document.getElementById("index").textContent);
  index.byId = new Map(index.tasks.map((task) => [task.id, task]));

  function address(id, ref, ...rest) {
    const parts = [id, ref, ...rest].filter((part) => part !== undefined && part !== "");
    return "#task/" + parts.map((part) => encodeURIComponent(part).replace("%40", "@")).join("/");
  }

  return { load, take, script, index, address };
})();
