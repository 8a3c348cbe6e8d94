// Tooltips, keyboard navigation and drag-to-zoom for the lane chart. Without scripts, links do the same.
(() => {
  "use strict";
  const lanes = document.getElementById("lanes");
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  tip.setAttribute("role", "status");
  document.body.append(tip);

  const texts = new Map();
  for (const title of lanes.querySelectorAll("title")) {
    // The browser would show a second tooltip.
    texts.set(title.parentElement, title.textContent);
    title.remove();
  }
  const tooltip = (element) => texts.get(element) ?? texts.get(element?.closest("g")) ?? texts.get(element?.querySelector("rect, g"));
  const show = (element, x, y) => {
    const text = tooltip(element);
    tip.hidden = !text;
    if (!text) return;
    tip.textContent = text;
    tip.style.left = `${Math.max(8, Math.min(x + 12, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${y + 18 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 12 : y + 18}px`;
  };
  lanes.addEventListener("pointermove", (event) => show(event.target, event.clientX, event.clientY));
  lanes.addEventListener("pointerleave", () => { tip.hidden = true; });
  lanes.addEventListener("focusin", (event) => {
    const box = event.target.getBoundingClientRect();
    show(event.target, box.left, box.bottom - 14);
  });
  lanes.addEventListener("focusout", () => { tip.hidden = true; });

  // One tab stop; from there the arrow keys move in order of time.
  const bars = [...lanes.querySelectorAll("a:not(.row-link)")]
    .map((link) => ({ link, box: link.querySelector("rect, path").getBBox() }))
    .sort((one, other) => one.box.x - other.box.x || one.box.y - other.box.y);
  bars.forEach(({ link }, number) => link.setAttribute("tabindex", number ? "-1" : "0"));
  const go = (number) => {
    if (!bars[number]) return;
    for (const { link } of bars) link.setAttribute("tabindex", "-1");
    bars[number].link.setAttribute("tabindex", "0");
    bars[number].link.focus();
  };
  lanes.addEventListener("keydown", (event) => {
    const number = bars.findIndex(({ link }) => link === document.activeElement);
    const to = { ArrowRight: number + 1, ArrowLeft: number - 1, Home: 0, End: bars.length - 1 }[event.key]
      ?? (event.key === "ArrowDown" || event.key === "ArrowUp" ? beside(number, event.key === "ArrowDown") : undefined);
    if (number < 0 || to === undefined) return;
    event.preventDefault();
    go(to);
  });
  // The nearest bar of the next non-empty lane.
  const beside = (number, isBelow) => {
    const from = bars[number].box;
    const others = bars.filter(({ box }) => (isBelow ? box.y > from.y : box.y < from.y));
    const lane = others.reduce((found, { box }) => (isBelow ? Math.min(found, box.y) : Math.max(found, box.y)), isBelow ? Infinity : -Infinity);
    const inLane = others.filter(({ box }) => box.y === lane);
    inLane.sort((one, other) => Math.abs(one.box.x - from.x) - Math.abs(other.box.x - from.x));
    return inLane.length ? bars.indexOf(inLane[0]) : undefined;
  };

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
    const query = new URLSearchParams(location.search);
    query.set("from", ends[0]);
    query.set("to", ends[1]);
    location.search = `?${query}`;
  });
  lanes.addEventListener("click", (event) => { if (chosen) event.preventDefault(); }, true);
})();
