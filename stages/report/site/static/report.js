// Addresses, search and keys.
"use strict";
(() => {
  const VIEWS = ["overview", "matrix", "tasks", "failures"];
  const box = document.getElementById("find");
  const list = document.getElementById("found");
  const help = document.getElementById("help");
  const title = document.title;
  const places = new Map();
  let view = "";

  function parts() {
    return location.hash
      .slice(1)
      .split("/")
      .map((part) => {
        try {
          return decodeURIComponent(part);
        } catch {
          return part;
        }
      });
  }

  const inTrace = () => view === "task" && report.task.shown?.tab === "trace";
  const inList = () => ["matrix", "tasks", "failures"].includes(view);

  async function route() {
    const asked = location.hash || "#overview";
    const [name, ...rest] = parts();
    if (name === "main") return;
    const next = name === "task" && rest[0] ? "task" : VIEWS.includes(name) ? name : "overview";
    if (view !== next) {
      if (view && view !== "task") {
        places.set(view, { scroll: scrollY, words: box.value });
        report.task.from = `#${view}`;
      }
      view = next;
      box.value = places.get(view)?.words ?? "";
      close();
    }
    for (const each of document.querySelectorAll(".view")) each.hidden = each.id !== `view-${view}`;
    for (const link of document.querySelectorAll("nav a")) {
      if (link.dataset.view === view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (view === "tasks") report.lists.openTasks();
    if (view === "task") {
      document.title = `${rest[0]} · ${title}`;
      await report.task.open(...rest);
    } else {
      document.title = title;
      if (inList()) report.lists.search(view, box.value);
      scrollTo(0, places.get(view)?.scroll ?? 0);
    }
    const what = inTrace() ? "Filter the trace" : inList() ? "Filter" : "Find a task";
    box.placeholder = `${what}  ( / )`;
    if (!document.documentElement.dataset.ready) performance.mark("usable");
    document.documentElement.dataset.ready = asked;
  }

  // ---- search ----

  function close() {
    list.hidden = true;
    list.replaceChildren();
    box.setAttribute("aria-expanded", "false");
  }

  function offer(text) {
    const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
    close();
    if (!words.length) return;
    const found = report.index.tasks.filter((task) =>
      words.every((word) => `${task.id} ${task.text}`.toLowerCase().includes(word)),
    );
    const first = (task) => (task.id.toLowerCase().includes(words[0]) ? 0 : 1);
    found.sort((a, b) => first(a) - first(b));
    for (const task of found.slice(0, 12)) {
      const item = document.createElement("li");
      item.role = "option";
      const link = document.createElement("a");
      link.href = report.address(task.id, task.first);
      link.tabIndex = -1;
      const name = document.createElement("b");
      name.textContent = task.id;
      const what = document.createElement("span");
      what.textContent = task.text.slice(0, 140);
      link.append(name, " ", what);
      item.append(link);
      list.append(item);
    }
    if (!found.length) {
      const item = document.createElement("li");
      item.className = "dim";
      item.textContent = "No task has these words.";
      list.append(item);
    }
    list.hidden = false;
    list.querySelector("a")?.parentElement.setAttribute("aria-selected", "true");
    box.setAttribute("aria-expanded", "true");
  }

  function pick(by) {
    const items = [...list.querySelectorAll("li:has(a)")];
    const now = items.findIndex((item) => item.getAttribute("aria-selected") === "true");
    items[now]?.removeAttribute("aria-selected");
    const next = items[Math.min(Math.max(now + by, 0), items.length - 1)];
    next?.setAttribute("aria-selected", "true");
    next?.scrollIntoView({ block: "nearest" });
  }

  function search() {
    if (inTrace()) report.task.search(box.value);
    else if (inList()) report.lists.search(view, box.value);
    else offer(box.value);
  }
  report.searchAgain = search;

  box.addEventListener("input", search);
  box.addEventListener("blur", () => setTimeout(() => list.matches(":hover") || close(), 150));
  box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (!list.hidden) pick(event.key === "ArrowDown" ? 1 : -1);
      event.preventDefault();
    } else if (event.key === "Enter") {
      const chosen = list.hidden
        ? inList() && report.lists.chosen(view)
        : list.querySelector('[aria-selected="true"] a')?.getAttribute("href");
      if (chosen) {
        if (!list.hidden) box.value = "";
        close();
        box.blur();
        location.hash = chosen;
      } else box.blur();
    } else if (event.key === "Escape") {
      if (box.value) {
        box.value = "";
        search();
      } else box.blur();
      event.stopPropagation();
    }
  });

  // ---- keys ----

  let going = false;
  const go = { o: "overview", m: "matrix", t: "tasks", f: "failures" };

  function follow(selector) {
    const address = document.querySelector(`#view-task ${selector}`)?.getAttribute("href");
    if (address) location.hash = address;
  }

  const keys = {
    "/": () => box.focus() ?? box.select(),
    "?": () => help.showModal(),
    j: () => (view === "task" ? report.task.move(1) || follow(".next") : report.lists.move(view, 1)),
    k: () => (view === "task" ? report.task.move(-1) || follow(".previous") : report.lists.move(view, -1)),
    o: () => (view === "task" ? report.task.toggle() : open()),
    Enter: () => (view === "task" ? report.task.toggle() : open()),
    "]": () => follow(".next"),
    "[": () => follow(".previous"),
    u: () => view === "task" && (location.hash = report.task.from),
    t: () => theme(),
    g: () => {
      going = true;
      setTimeout(() => (going = false), 1200);
    },
  };

  function open() {
    const address = inList() && report.lists.chosen(view);
    if (address) location.hash = address;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.closest?.("input, textarea, select")) return;
    if (event.key === "Enter" && event.target.closest?.("a, button, summary")) return;
    if (going && go[event.key]) {
      going = false;
      location.hash = go[event.key];
      event.preventDefault();
    } else if (view === "task" && report.task.tabs[event.key - 1]) {
      const { id, ref } = report.task.shown ?? {};
      if (id) location.hash = report.address(id, ref, report.task.tabs[event.key - 1]);
    } else if (Object.hasOwn(keys, event.key)) {
      keys[event.key]();
      event.preventDefault();
    }
  });

  // ---- theme and help ----

  const button = document.getElementById("theme");
  const SIGNS = { auto: "◐", dark: "☾", light: "☀" };
  const sign = () => (button.textContent = SIGNS[document.documentElement.dataset.theme]);
  function theme() {
    window.nextTheme();
    sign();
  }
  sign();
  button.addEventListener("click", theme);
  document.getElementById("help-button").addEventListener("click", () => help.showModal());

  addEventListener("hashchange", route);
  route();
})();
