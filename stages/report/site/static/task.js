// The page of one trial: its parts, and its trace, which is loaded when it is first looked at.
"use strict";
report.task = (() => {
  const root = document.getElementById("view-task");
  const TABS = ["verdict", "changes", "trace", "queries", "date", "key"];
  let shown = null;
  let from = "#matrix";

  const article = () => root.querySelector("article");
  const steps = () => [...root.querySelectorAll("li.step")].filter((step) => !step.hidden);

  function message(text) {
    const line = document.createElement("p");
    line.className = "notice";
    line.textContent = text;
    root.replaceChildren(line);
  }

  // Show the page of a task's trial; `rest` is what the address says beyond it.
  async function open(id, ref, tab, step) {
    const task = report.index.byId.get(id);
    if (!task) return message(`There is no task ${id} in this report.`);
    const wanted = ref || task.first || Object.keys(task.pages)[0];
    const piece = task.pages[wanted];
    if (!piece) return message(`There is no trial ${wanted} of ${id} in this report.`);
    if (shown?.piece !== piece) {
      shown = { id, ref: wanted, piece };
      let html;
      try {
        html = await report.load(piece);
      } catch (error) {
        shown = null;
        return message(error.message);
      }
      if (shown?.piece !== piece) return; // Another one was opened meanwhile.
      root.innerHTML = html;
      scrollTo(0, 0);
      neighbours(id);
    }
    await turn(TABS.includes(tab) ? tab : "verdict", step);
  }

  function neighbours(id) {
    const all = report.index.tasks;
    const here = all.findIndex((task) => task.id === id);
    root.querySelector(".up").href = from;
    for (const [name, task] of [
      ["previous", all[here - 1]],
      ["next", all[here + 1]],
    ]) {
      const link = root.querySelector(`.${name}`);
      if (task) {
        link.href = report.address(task.id, task.first);
        link.title = `${task.id} (${name === "next" ? "]" : "["})`;
      }
    }
    for (const link of root.querySelectorAll(".tabs a")) {
      link.href = report.address(id, shown.ref, link.dataset.tab);
    }
  }

  async function turn(tab, step) {
    for (const link of root.querySelectorAll(".tabs a")) {
      link.setAttribute("aria-selected", String(link.dataset.tab === tab));
    }
    for (const part of root.querySelectorAll(".part")) part.hidden = part.id !== `part-${tab}`;
    shown.tab = tab;
    if (tab === "trace") await openTrace(step);
  }

  async function openTrace(step) {
    const part = root.querySelector("#part-trace");
    const piece = article().dataset.trace;
    if (piece && part.querySelector(".waiting")) {
      try {
        const html = await report.load(piece);
        if (!part.isConnected) return;
        part.innerHTML = html;
      } catch (error) {
        part.querySelector(".waiting").textContent = error.message;
        return;
      }
      report.searchAgain?.();
    }
    if (step !== undefined) {
      // A result's own number stands for the tool's use that it belongs to.
      const all = [...part.querySelectorAll("li.step")];
      const wanted = all.findLast((each) => Number(each.dataset.n) <= Number(step));
      if (wanted) {
        select(wanted, true);
        wanted.scrollIntoView({ block: "center" });
      }
    }
  }

  function select(step, unfold) {
    for (const each of root.querySelectorAll("li.selected")) each.classList.remove("selected");
    step.classList.add("selected");
    const details = step.querySelector("details");
    if (unfold && details) details.open = true;
    step.scrollIntoView({ block: "nearest" });
    const address = report.address(shown.id, shown.ref, "trace", step.dataset.n);
    history.replaceState(null, "", address);
  }

  // Next or previous step of the trace; false where the trace is not what is shown.
  function move(by) {
    if (shown?.tab !== "trace") return false;
    const all = steps();
    const now = all.findIndex((step) => step.classList.contains("selected"));
    if (all.length) select(all[Math.min(Math.max(now + by, 0), all.length - 1)], false);
    return true;
  }

  function toggle() {
    const details = root.querySelector("li.selected details");
    if (details) details.open = !details.open;
  }

  // Show the steps with these words, of the chosen people and kinds.
  function search(text) {
    const part = root.querySelector("#part-trace");
    if (!part.querySelector(".steps")) return;
    const words = text.trim().toLowerCase();
    const pressed = (selector) => part.querySelector(selector).getAttribute("aria-pressed") === "true";
    const off = (name, key) =>
      new Set(
        [...part.querySelectorAll(`button.${name}[aria-pressed="false"]`)].map((b) => b.dataset[key]),
      );
    const [people, kinds] = [off("who", "who"), off("kind", "kind")];
    const errors = pressed(".only-errors");
    let count = 0;
    const all = part.querySelectorAll("li.step");
    for (const step of all) {
      step.hidden =
        people.has(step.dataset.who) ||
        kinds.has(step.dataset.kind) ||
        (errors && !step.classList.contains("error")) ||
        (words !== "" && !step.textContent.toLowerCase().includes(words));
      count += !step.hidden;
    }
    part.querySelector(".matches").textContent =
      count === all.length ? `${count} steps` : `${count} of ${all.length} steps`;
  }

  root.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.matches(".who, .kind, .only-errors")) {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      report.searchAgain();
    } else if (button?.matches(".unfold, .fold-all")) {
      const all = [...button.closest(".part").querySelectorAll("details")];
      const open = !all.some((details) => details.open);
      for (const details of all) details.open = open;
      button.textContent = open ? "Fold all" : "Unfold all";
    }
    const place = event.target.closest(".strip a");
    if (place) {
      const step = root.querySelector(`li.step[data-n="${Number(place.dataset.to)}"]`);
      if (step && !step.hidden) {
        select(step, true);
        step.scrollIntoView({ block: "center" });
      }
    }
    const at = event.target.closest("li.step .at");
    if (at) select(at.closest("li"), false);
  });

  return {
    open,
    move,
    toggle,
    search,
    tabs: TABS,
    get shown() {
      return shown;
    },
    set from(hash) {
      from = hash;
    },
    get from() {
      return from;
    },
  };
})();
