// The matrix, the table of tasks and the failures: what they show, filters, the selected row.
"use strict";
report.lists = (() => {
  const matrix = document.getElementById("matrix");
  const rows = [...matrix.tBodies[0].rows];
  let filter = "all";
  let words = "";
  let table = null;

  function press(group, button) {
    for (const each of group.querySelectorAll("button")) {
      each.setAttribute("aria-pressed", String(each === button));
    }
  }

  function show(key) {
    for (const cell of matrix.querySelectorAll(".cell[data-texts]")) {
      const link = cell.querySelector("a") || cell;
      link.textContent = JSON.parse(cell.dataset.texts)[key] ?? "";
      const heat = JSON.parse(cell.dataset.heat)[key];
      cell.classList.toggle("heat", heat !== undefined);
      cell.style.setProperty("--heat", heat === undefined ? "" : `${Math.round(heat * 100)}%`);
    }
    matrix.dataset.shows = key;
  }

  function kept(row) {
    const states = row.dataset.states.split(" ");
    const known = states.filter((state) => state !== "absent");
    if (filter === "failing") return states.includes("fail") || states.includes("flaky");
    if (filter === "differ") return new Set(known).size > 1;
    if (filter === "flaky") return states.includes("flaky");
    if (filter === "unscored") return states.includes("unscored") || states.includes("none");
    return true;
  }

  function found(row, text) {
    const task = report.index.byId.get(row.dataset.task);
    const haystack = `${row.dataset.task} ${row.dataset.states} ${row.textContent} ${task?.text ?? ""}`;
    return text.split(/\s+/).every((word) => haystack.toLowerCase().includes(word));
  }

  function sift() {
    let count = 0;
    for (const row of rows) {
      row.hidden = !(kept(row) && found(row, words));
      count += !row.hidden;
    }
    document.getElementById("matrix-count").textContent =
      count === rows.length ? `${count} tasks` : `${count} of ${rows.length} tasks`;
  }

  function openTasks() {
    if (table) return;
    table = new DataTable("#tasks", {
      paging: false,
      info: false,
      autoWidth: false,
      order: [],
      layout: { topStart: null, topEnd: null, bottomStart: null, bottomEnd: null },
    });
    table.on("draw", countTasks);
    countTasks();
  }

  function countTasks() {
    const all = table.rows().count();
    const count = table.rows({ search: "applied" }).count();
    document.getElementById("tasks-count").textContent =
      count === all ? `${all} tasks` : `${count} of ${all} tasks`;
  }

  function siftFailures(text) {
    let count = 0;
    for (const cause of document.querySelectorAll(".cause")) {
      const whole = cause.dataset.cause.includes(text);
      let some = false;
      for (const item of cause.querySelectorAll(".item")) {
        item.hidden = !(whole || item.textContent.toLowerCase().includes(text));
        some ||= !item.hidden;
        count += !item.hidden;
      }
      cause.hidden = !some;
    }
    document.getElementById("failures-count").textContent = `${count} failed`;
  }

  // Filter the rows of a view by words.
  function search(view, text) {
    const wanted = text.trim().toLowerCase();
    if (view === "matrix") {
      words = wanted;
      sift();
    } else if (view === "tasks") {
      table.search(wanted).draw();
    } else if (view === "failures") {
      siftFailures(wanted);
    }
  }

  function visible(view) {
    const root = document.getElementById(`view-${view}`);
    const found = root.querySelectorAll(view === "failures" ? ".item" : "tbody tr");
    return [...found].filter((row) => !row.hidden && row.offsetParent !== null);
  }

  // Move the selected row of a view by `step`.
  function move(view, step) {
    const all = visible(view);
    if (!all.length) return;
    const now = all.findIndex((row) => row.classList.contains("selected"));
    const next = all[Math.min(Math.max(now + step, 0), all.length - 1)];
    for (const row of document.querySelectorAll(`#view-${view} .selected`)) {
      row.classList.remove("selected");
    }
    next.classList.add("selected");
    next.scrollIntoView({ block: "nearest" });
  }

  // The link of the selected row of a view, or of its first.
  function chosen(view) {
    const all = visible(view);
    const row = all.find((each) => each.classList.contains("selected")) || all[0];
    return row?.querySelector("a")?.getAttribute("href");
  }

  document.getElementById("matrix-shows").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    press(event.currentTarget, button);
    show(button.dataset.shows);
  });
  document.getElementById("matrix-filter").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    press(event.currentTarget, button);
    filter = button.dataset.filter;
    sift();
  });
  show("verdict");
  sift();
  siftFailures("");

  return { search, move, chosen, openTasks, press };
})();
