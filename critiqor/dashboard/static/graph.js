// The causal graph. Labels are drawn on a canvas, so text in them cannot become markup.
(() => {
  "use strict";
  const WIDTH = 220;
  const LINES = 4;
  const FONT = "12px ui-sans-serif, system-ui, sans-serif";
  const place = document.getElementById("graph");
  const data = JSON.parse(document.getElementById("graph-data").textContent);

  // Wraps text between words; only a word longer than a line is broken.
  const pen = document.createElement("canvas").getContext("2d");
  const wrap = (text, isBold) => {
    pen.font = isBold ? `bold ${FONT}` : FONT;
    const fits = (line) => pen.measureText(line).width <= WIDTH;
    const lines = [""];
    for (const word of text.split(/\s+/)) {
      let rest = [...word];
      while (rest.length) {
        const last = lines[lines.length - 1];
        const joined = last ? `${last} ${rest.join("")}` : rest.join("");
        if (fits(joined)) {
          lines[lines.length - 1] = joined;
          break;
        }
        if (last) {
          lines.push("");
          continue;
        }
        let count = rest.length;
        while (count > 1 && !fits(rest.slice(0, count).join(""))) count -= 1;
        lines[lines.length - 1] = rest.slice(0, count).join("");
        rest = rest.slice(count);
        lines.push("");
      }
    }
    const wrappedLines = lines.filter(Boolean);
    return wrappedLines.length > LINES ? [...wrappedLines.slice(0, LINES - 1), `${wrappedLines[LINES - 1].slice(0, -2)}…`] : wrappedLines;
  };

  const isNarrow = innerWidth < 640;
  const style = () => [
    { selector: "node", style: {
      label: "data(label)", "text-wrap": "wrap", "text-max-width": 4 * WIDTH, "font-size": 12, "line-height": 1.3, color: color("--text"),
      "font-family": "ui-sans-serif, system-ui, sans-serif", "text-valign": "center", shape: "round-rectangle", width: WIDTH + 24, height: "data(height)",
      "background-color": color("--panel"), "border-width": 1, "border-color": color("--edge") } },
    { selector: 'node[kind = "finding"]', style: { "border-width": 2, "font-weight": "bold" } },
    ...["critical", "high", "medium", "low", "info"].map((severity) => (
      { selector: `node[severity = "${severity}"]`, style: { "border-color": color(`--${severity}`), "background-color": color(`--${severity}-soft`) } })),
    { selector: "node:active", style: { "overlay-opacity": 0 } },
    { selector: "node.pointed", style: { "border-color": color("--accent"), "border-width": 2 } },
    { selector: "edge", style: {
      width: 1.5, "line-color": color("--edge"), "target-arrow-color": color("--edge"), "target-arrow-shape": "triangle",
      "curve-style": "bezier", "source-endpoint": isNarrow ? "180deg" : "90deg", "target-endpoint": isNarrow ? "0deg" : "270deg", label: "data(relation)", "font-size": 11, color: color("--quiet"), "font-family": "ui-sans-serif, system-ui, sans-serif",
      "text-background-color": color("--sunken"), "text-background-opacity": 1, "text-background-padding": 3 } },
  ];

  place.hidden = false;
  document.getElementById("graph-zoom").hidden = false;
  document.getElementById("graph-words").open = false;
  const graph = cytoscape({
    container: place,
    elements: [
      ...data.nodes.map((node) => {
        const lines = wrap(node.label, node.kind === "finding");
        return { group: "nodes", data: { ...node, label: lines.join("\n"), height: 24 + 16 * lines.length } };
      }),
      ...data.edges.map((edge, number) => ({ group: "edges", data: { id: `edge ${number}`, ...edge } })),
    ],
    style: style(),
    layout: { name: "preset" },
    minZoom: 0.15, maxZoom: 2.5, userZoomingEnabled: false, autoungrabify: true, boxSelectionEnabled: false,
  });
  graph.layout({ name: "dagre", rankDir: isNarrow ? "TB" : "LR", nodeSep: 18, rankSep: isNarrow ? 44 : 110, fit: false }).run();

  // At its natural size, or smaller if it would not fit.
  const fit = () => {
    const box = graph.elements().boundingBox();
    const zoom = Math.min(1, (place.clientWidth - 24) / box.w);
    place.style.height = `${Math.min(Math.max(box.h * zoom + 40, 120), innerHeight * 0.6)}px`;
    graph.resize();
    graph.zoom(Math.max(zoom, 0.5));
    graph.center();
    if (box.w * graph.zoom() > place.clientWidth) graph.pan({ x: 12 - box.x1 * graph.zoom(), y: graph.pan().y });
  };
  fit();
  // The graph has moved the target of the address down.
  document.querySelector(":target")?.scrollIntoView();
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => {
      const by = Number(button.dataset.zoom);
      if (by) graph.zoom({ level: graph.zoom() * by, renderedPosition: { x: place.clientWidth / 2, y: place.clientHeight / 2 } });
      else graph.fit(undefined, 12);
    });
  }
  graph.on("tap", "node", (event) => { if (event.target.data("href")) location.assign(event.target.data("href")); });
  graph.on("mouseover", "node", (event) => { event.target.addClass("pointed"); place.classList.add("pointing"); });
  graph.on("mouseout", "node", (event) => { event.target.removeClass("pointed"); place.classList.remove("pointing"); });
  const restyle = () => { graph.style(style()); };
  document.addEventListener("themechange", restyle);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", restyle);
})();
