// The plots of the overview. Plotly is large: it is loaded when the plots come into sight.
"use strict";
report.plots = (() => {
  const data = report.index.plots;
  const host = document.getElementById("plots");
  let metric = "cost";
  let drawn = false;

  // Plotly takes some markup in labels; these are plain.
  const plain = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;");

  function color(name) {
    const probe = document.createElement("span");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  }

  function layout(extra) {
    const axis = { gridcolor: color("line"), zerolinecolor: color("line"), automargin: true, fixedrange: true };
    const { xaxis, yaxis, ...rest } = extra;
    return {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: color("text") },
      margin: { l: 8, r: 12, t: 6, b: 8 },
      showlegend: false,
      hoverlabel: { bgcolor: color("raised"), font: { color: color("text") } },
      dragmode: false,
      xaxis: { ...axis, ...xaxis },
      yaxis: { ...axis, ...yaxis },
      ...rest,
    };
  }

  const config = { displayModeBar: false, responsive: true };
  const runColors = () => [1, 2, 3, 4, 5, 6].map((number) => color(`series-${number}`));
  const several = data.runs.length > 1;

  function causes() {
    const labels = data.causes.map((row) => plain(row.cause)).reverse();
    const colors = runColors();
    const traces = data.runs.map((run, number) => ({
      type: "bar",
      orientation: "h",
      name: plain(run.label),
      y: labels,
      x: data.causes.map((row) => row.tasks[number]).reverse(),
      marker: { color: several ? colors[number % colors.length] : color("fail"), opacity: 0.85 },
      hovertemplate: `%{y}: %{x}<extra>${several ? plain(run.label) : ""}</extra>`,
    }));
    const legend = { orientation: "h", y: -0.12, traceorder: "normal" };
    Plotly.react(
      "plot-causes",
      traces,
      layout({ barmode: "stack", showlegend: several, legend, xaxis: { tickformat: "d", nticks: 6 }, bargap: 0.45 }),
      config,
    );
  }

  const UNITS = { cost: ["$", ""], time: ["", " s"], turns: ["", ""], tokens: ["", ""] };

  function tasks() {
    const rows = [...data.tasks].sort((a, b) => b[metric] - a[metric]);
    const [prefix, suffix] = UNITS[metric];
    const trace = {
      type: "bar",
      x: rows.map((row) => plain(row.id)),
      y: rows.map((row) => row[metric]),
      customdata: rows.map((row) => [row.id, row.ref]),
      marker: { color: rows.map((row) => color({ pass: "pass", resolved: "pass", fail: "fail", flaky: "warn" }[row.state] || "faint")), opacity: 0.85 },
      hovertemplate: `%{x}: ${prefix}%{y:.4~g}${suffix}<extra></extra>`,
    };
    const many = rows.length > 30;
    const axis = { tickangle: many ? -90 : -60, tickfont: { size: many ? 9 : 10 }, nticks: 80 };
    Plotly.react("plot-tasks", [trace], layout({ xaxis: axis, yaxis: { tickprefix: prefix, ticksuffix: suffix }, bargap: 0.25 }), config);
    const plot = document.getElementById("plot-tasks");
    plot.removeAllListeners("plotly_click");
    plot.on("plotly_click", (event) => {
      location.hash = report.address(...event.points[0].customdata);
    });
  }

  function runs() {
    if (!several) return;
    const known = data.runs.filter((run) => run.rate !== null);
    const names = known.map((run) => plain(run.label));
    const error = {
      type: "data",
      symmetric: false,
      array: known.map((run) => run.high - run.rate),
      arrayminus: known.map((run) => run.rate - run.low),
      color: color("dim"),
    };
    const marker = { size: 9, color: color("accent") };
    const percent = { tickformat: ".0%", range: [0, 1.02] };
    Plotly.react(
      "plot-runs",
      [{ type: "scatter", mode: "markers", y: names, x: known.map((run) => run.rate), error_x: error, marker, hovertemplate: "%{y}: %{x:.1%}<extra></extra>" }],
      layout({ xaxis: percent, yaxis: { autorange: "reversed" } }),
      config,
    );
    Plotly.react(
      "plot-money",
      [{ type: "scatter", mode: "markers+text", text: names, textposition: "top center", x: known.map((run) => run.cost), y: known.map((run) => run.rate), error_y: error, marker, cliponaxis: false, hovertemplate: "%{text}: %{y:.1%} for $%{x:.4~g}<extra></extra>" }],
      layout({ xaxis: { tickprefix: "$", rangemode: "tozero" }, yaxis: percent }),
      config,
    );
  }

  function draw() {
    if (!window.Plotly) return;
    if (data.causes.length) causes();
    else document.getElementById("plot-causes").textContent = "No trial failed.";
    tasks();
    runs();
    drawn = true;
    host.dataset.drawn = "true";
  }

  host.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-metric]");
    if (!button) return;
    report.lists.press(button.parentElement, button);
    metric = button.dataset.metric;
    if (drawn) tasks();
  });
  document.addEventListener("theme", () => drawn && draw());

  new IntersectionObserver((entries, observer) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    const later = window.requestIdleCallback || setTimeout;
    later(() => report.script("assets/plotly.js").then(draw, () => (host.hidden = true)));
  }).observe(host);

  return { draw };
})();
