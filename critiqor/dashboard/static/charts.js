// Draws charts from JSON in the page. Every number is in a table too.
(() => {
  "use strict";
  const HEIGHT = 190;
  const FONT = "11px ui-sans-serif, system-ui, sans-serif";
  const read = (id) => {
    const element = document.getElementById(id);
    return element ? JSON.parse(element.textContent) : null;
  };
  const faded = (name) => color(name).replace(/^rgb\((.*)\)$/, "rgba($1, 0.14)");
  const plots = [];

  // Plugin: a dashed line between the two requests around each compaction.
  const compactions = (places) => ({ hooks: { draw: [(plot) => {
    const { ctx: pen, bbox: box } = plot;
    pen.save();
    pen.strokeStyle = color("--compaction");
    pen.lineWidth = 2 * devicePixelRatio;
    pen.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
    for (const place of places) {
      const x = Math.round(plot.valToPos(place + 0.5, "x", true));
      pen.beginPath();
      pen.moveTo(x, box.top);
      pen.lineTo(x, box.top + box.height);
      pen.stroke();
    }
    pen.restore();
  }] } });

  const draw = (place, data, series, { isTime = false, range = null, plugins = [] } = {}) => {
    const axis = { stroke: color("--quiet"), font: FONT, grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
    const options = {
      width: Math.max(220, place.clientWidth),
      height: HEIGHT,
      scales: { x: { time: isTime, ...(isTime ? {} : { range: (_, min, max) => [min - 0.5, max + 0.5] }) }, y: { range: range ?? ((_, __, max) => [0, (max || 1) * 1.1]) } },
      axes: [isTime ? { ...axis, space: 70 } : { ...axis, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] }, { ...axis, size: 58 }],
      series: [{ label: isTime ? "time (UTC)" : "request" }, ...series],
      padding: [8, 12, 0, 0],
      cursor: { points: { size: 7 } },
      plugins,
      ...(isTime ? { tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") } : {}),
    };
    place.replaceChildren();
    plots.push([place, new uPlot(options, data, place)]);
  };
  const line = (label, name) => (
    { label, stroke: color(name), fill: faded(name), width: 2, spanGaps: true, points: { show: true, size: 5, fill: color(name) } });

  const drawAll = () => {
    plots.length = 0;
    const trend = read("trend-data");
    const context = read("context-data");
    for (const place of document.querySelectorAll("[data-plot]")) {
      const name = place.dataset.plot;
      if (name === "context" && context) {
        draw(place, [context.call, context.input, context.budget], [
          { label: "tokens", stroke: color("--model"), fill: faded("--model"), width: 1, paths: uPlot.paths.bars({ size: [0.7, 60] }), points: { show: false } },
          { label: "budget", stroke: color("--critical"), width: 2, dash: [6, 4], spanGaps: true, points: { show: false } },
        ], { plugins: [compactions(context.compactions)] });
      } else if (trend?.[name]) {
        const range = name === "trust" ? [0, 105] : null;
        draw(place, [trend.at, trend[name]], [line(name, { trust: "--good", cost: "--model", seconds: "--memory" }[name])], { isTime: true, range });
      }
    }
  };
  drawAll();
  document.addEventListener("themechange", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  addEventListener("resize", () => {
    for (const [place, plot] of plots) plot.setSize({ width: Math.max(220, place.clientWidth), height: HEIGHT });
  });
})();
