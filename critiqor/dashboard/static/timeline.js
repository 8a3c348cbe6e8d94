// Says what a bar is, and zooms into what is dragged across. Without it, links do both.
(() => {
  "use strict";
  const lanes = document.getElementById("lanes");
  const detail = document.getElementById("bar-detail");
  const said = (event) => {
    const title = event.target.closest("a, rect")?.querySelector("title");
    if (title) detail.textContent = title.textContent;
  };
  lanes.addEventListener("mouseover", said);
  lanes.addEventListener("focusin", said);

  const { from, to, gutter, width } = Object.fromEntries(
    Object.entries(lanes.dataset).map(([name, value]) => [name, Number(value)]));
  const at = (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(lanes.getScreenCTM().inverse());
    return Math.min(Math.max(point.x, gutter), gutter + width);
  };
  const moment = (x) => from + (to - from) * (x - gutter) / width;
  let began = null;
  let chosen = null;
  lanes.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button === 0) began = at(event);
  });
  lanes.addEventListener("dragstart", (event) => event.preventDefault());
  addEventListener("pointermove", (event) => {
    if (began === null) return;
    const x = at(event);
    if (!chosen && Math.abs(x - began) < 6) return;
    if (!chosen) {
      chosen = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      chosen.setAttribute("class", "chosen");
      chosen.setAttribute("y", "0");
      chosen.setAttribute("height", "100%");
      lanes.append(chosen);
    }
    chosen.setAttribute("x", Math.min(x, began));
    chosen.setAttribute("width", Math.abs(x - began));
  });
  addEventListener("pointerup", (event) => {
    const start = began;
    began = null;
    if (!chosen) return;
    const ends = [moment(start), moment(at(event))].sort((a, b) => a - b);
    location.search = `?from=${ends[0]}&to=${ends[1]}`;
  });
  lanes.addEventListener("click", (event) => { if (chosen) event.preventDefault(); }, true);
})();
