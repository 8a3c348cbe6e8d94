// The causal graph. Labels are drawn on a canvas: nothing in them can become part of the page.
(() => {
  "use strict";
  const place = document.getElementById("graph");
  const data = JSON.parse(document.getElementById("graph-data").textContent);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const short = (text) => (text.length > 90 ? `${text.slice(0, 89)}…` : text);
  const style = () => [
    { selector: "node", style: {
      label: "data(label)", "text-wrap": "wrap", "text-max-width": 170, "text-overflow-wrap": "anywhere", "font-size": 11, color: colour("--text"),
      "text-valign": "center", shape: "round-rectangle", width: 190, height: 76, "background-color": colour("--back"),
      "border-width": 1, "border-color": colour("--quiet") } },
    { selector: 'node[kind = "finding"]', style: { "border-width": 3, "border-color": colour("--high"), "font-weight": "bold" } },
    ...["critical", "high", "medium", "low", "info"].map((severity) => (
      { selector: `node[severity = "${severity}"]`, style: { "border-color": colour(`--${severity}`) } })),
    { selector: "edge", style: {
      width: 2, "line-color": colour("--quiet"), "target-arrow-color": colour("--quiet"), "target-arrow-shape": "triangle",
      "curve-style": "bezier", label: "data(relation)", "font-size": 10, color: colour("--quiet"),
      "text-background-color": colour("--panel"), "text-background-opacity": 1 } },
  ];
  const graph = cytoscape({
    container: place,
    elements: [
      ...data.nodes.map((node) => ({ group: "nodes", data: { ...node, label: short(node.label) } })),
      ...data.edges.map((edge, number) => ({ group: "edges", data: { id: `edge ${number}`, ...edge } })),
    ],
    style: style(),
    layout: { name: "dagre", rankDir: innerWidth < 640 ? "TB" : "LR", nodeSep: 20, rankSep: 60, padding: 10 },
    minZoom: 0.2, maxZoom: 3, userZoomingEnabled: true,
  });
  graph.on("tap", "node", (event) => { location.assign(event.target.data("href")); });
  graph.on("mouseover", "node", () => { place.classList.add("pointing"); });
  graph.on("mouseout", "node", () => { place.classList.remove("pointing"); });
  document.addEventListener("themechange", () => { graph.style(style()); });
})();
