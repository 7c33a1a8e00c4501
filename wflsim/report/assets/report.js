"use strict";
(() => {
  const root = document.documentElement;
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const chosen = {};
  const COLOURS = new Set(["color", "fillcolor", "fgcolor", "bgcolor", "colorscale"]);

  const css = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();

  // "@c0/16" is the theme's colour c0 at 16 % opacity
  function colour(token) {
    if (token === "@sequential") return ["low", "middle", "high"].map((name, i) => [i / 2, css("scale-" + name)]);
    const [name, opacity] = token.slice(1).split("/");
    const hex = css(name);
    return opacity ? hex + Math.round(Number(opacity) * 2.55).toString(16).padStart(2, "0") : hex;
  }

  function themed(value, key) {
    if (typeof value === "string") return COLOURS.has(key) && value[0] === "@" ? colour(value) : value;
    if (Array.isArray(value)) return typeof value[0] === "object" ? value.map((entry) => themed(entry, key)) : value;
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, entry]) => [name, themed(entry, name)]));
    }
    return value;
  }

  function merged(base, over) {
    const result = { ...base };
    for (const [key, value] of Object.entries(over)) {
      const both = value && base[key] && typeof value === "object" && !Array.isArray(value);
      result[key] = both ? merged(base[key], value) : value;
    }
    return result;
  }

  function layout(chart, view, width) {
    const narrow = width < 560;
    const axis = {
      gridcolor: css("grid"), linecolor: css("rule"), zerolinecolor: css("grid"), automargin: true,
      ticks: "", nticks: narrow ? 6 : 0, title: { standoff: 10, font: { size: narrow ? 12 : 13, color: css("muted") } },
      tickfont: { size: narrow ? 11 : 12, color: css("muted") }, fixedrange: narrow && !chart.zoom,
    };
    const base = {
      height: chart.height, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: css("ink") },
      margin: { l: narrow ? 40 : 56, r: narrow ? 8 : 16, t: 12, b: 44 },
      legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", font: { size: narrow ? 11 : 12 }, bgcolor: "rgba(0,0,0,0)" },
      hoverlabel: { bgcolor: css("card"), bordercolor: css("rule"), font: { color: css("ink"), size: 12 }, align: "left" },
      dragmode: narrow && !chart.zoom ? false : "zoom", xaxis: axis, yaxis: axis, showlegend: view.data.filter((trace) => trace.name).length > 1,
    };
    return merged(base, themed(view.layout));
  }

  function draw(chart, width) {
    const box = document.getElementById("chart-" + chart.id);
    const view = chart.views[chosen[chart.id].join("|")];
    document.getElementById("none-" + chart.id).hidden = Boolean(view);
    box.hidden = !view;
    if (!view) return;
    const looks = layout(chart, view, width || box.clientWidth);
    if (width) looks.width = width;
    const config = { responsive: true, displaylogo: false, displayModeBar: false, doubleClick: "reset" };
    Plotly.react(box, themed(view.data), looks, config);
  }

  const drawAll = (width) => window.Plotly && charts.forEach((chart) => draw(chart, width));

  function choose(group, key) {
    const chart = charts.find((each) => each.id === group.dataset.chart);
    chosen[chart.id][Number(group.dataset.control)] = key;
    group.querySelectorAll("button").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.key === key)));
    draw(chart);
  }

  charts.forEach((chart) => { chosen[chart.id] = chart.controls.map(([, keys]) => keys[0]); });
  document.querySelectorAll(".control").forEach((group) => {
    group.addEventListener("click", (event) => { if (event.target.dataset.key !== undefined) choose(group, event.target.dataset.key); });
    group.addEventListener("change", (event) => choose(group, event.target.value));
  });

  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("wflsim-theme", root.dataset.theme); } catch (error) { /* not kept, then */ }
    drawAll();
  });
  document.addEventListener("theme", () => drawAll());

  // Paper is white and narrower than the screen.
  let before = null;
  window.addEventListener("beforeprint", () => { before = root.dataset.theme; root.dataset.theme = "light"; drawAll(660); });
  window.addEventListener("afterprint", () => { root.dataset.theme = before; drawAll(); });

  function sort(table, column, header) {
    const down = header.getAttribute("aria-sort") === "ascending";
    const body = table.tBodies[0];
    const key = (row) => row.cells[column].dataset.value;
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [Number(key(a)), Number(key(b))];
      // what is not a number (a missed cost) goes last, in either order
      if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
      const order = Number.isNaN(x) ? key(a).localeCompare(key(b), undefined, { numeric: true }) : x - y;
      return down ? -order : order;
    });
    // the other parts of a table that is shown in parts keep the same order of rows
    table.closest("figure").querySelectorAll("table").forEach((part) => {
      part.querySelectorAll("th[aria-sort]").forEach((each) => each.setAttribute("aria-sort", "none"));
      const own = Object.fromEntries([...part.tBodies[0].rows].map((row) => [row.dataset.row, row]));
      part.tBodies[0].append(...rows.map((row) => own[row.dataset.row]));
    });
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
  }
  document.querySelectorAll("table[data-sortable]").forEach((table) => {
    table.querySelectorAll("thead th").forEach((header, column) => {
      header.querySelector("button").addEventListener("click", () => sort(table, column, header));
    });
  });

  // A table wider than its card shows a shadow where it goes on.
  const hint = () => document.querySelectorAll(".scroll").forEach((box) => {
    box.classList.toggle("more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
  });
  document.querySelectorAll(".scroll").forEach((box) => box.addEventListener("scroll", hint, { passive: true }));
  window.addEventListener("resize", hint);
  hint();

  // The plotting library lies packed in the page; a browser older than 2023 cannot unpack it and shows words and tables.
  async function unpackPlotly() {
    const bytes = Uint8Array.from(atob(document.getElementById("plotly").textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(stream).text();
    document.head.append(script);
  }

  unpackPlotly().then(() => {
    drawAll();
    root.dataset.ready = "yes";
  }, () => {
    document.querySelectorAll(".chart").forEach((box) => { box.textContent = "This chart needs a current browser."; });
  });
})();
