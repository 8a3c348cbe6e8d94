// Draws the figures that stand in the page as data. Each is in a table as well.
(() => {
  "use strict";
  const read = (id) => {
    const element = document.getElementById(id);
    return element ? JSON.parse(element.textContent) : null;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const drawn = [];

  const draw = (place, data, series, isTime) => {
    const axis = () => ({ stroke: colour("--text"), grid: { stroke: colour("--line") }, ticks: { stroke: colour("--line") } });
    const options = {
      width: Math.max(260, place.clientWidth),
      height: 180,
      scales: { x: { time: isTime } },
      axes: [isTime ? axis() : { ...axis(), incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] }, { ...axis(), size: 80 }],
      series: [{ label: isTime ? "time" : "request" }, ...series.map((one) => ({
        label: one.label, stroke: colour(one.colour), width: 2, spanGaps: true, points: { show: true, size: 5 },
        ...(one.dash ? { dash: one.dash } : {}),
      }))],
    };
    place.replaceChildren();
    drawn.push([place, new uPlot(options, data, place)]);
  };

  const all = () => {
    drawn.length = 0;
    const trend = read("trend-data");
    const context = read("context-data");
    for (const place of document.querySelectorAll("[data-plot]")) {
      const name = place.dataset.plot;
      if (name === "context" && context) {
        draw(place, [context.call, context.input, context.budget],
          [{ label: "tokens", colour: "--link" }, { label: "budget", colour: "--critical", dash: [6, 4] }], false);
      } else if (trend && trend[name]) {
        draw(place, [trend.at, trend[name]], [{ label: name, colour: "--link" }], true);
      }
    }
  };
  all();
  document.addEventListener("themechange", all);
  addEventListener("resize", () => {
    for (const [place, plot] of drawn) plot.setSize({ width: Math.max(260, place.clientWidth), height: 180 });
  });
})();
