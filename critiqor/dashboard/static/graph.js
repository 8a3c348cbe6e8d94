// Moving around in the causal graph, which the server has drawn. Without scripts it scrolls, and its links work.
(() => {
  "use strict";
  const SMALLEST = 0.05;
  const LARGEST = 2.5;
  /** Labels are readable down to this size. */
  const READABLE = 0.8;
  const frame = document.getElementById("graph");
  const drawings = [...frame.querySelectorAll("svg.causes")];
  const shown = () => drawings.find((svg) => svg.getClientRects().length) ?? drawings[0];
  let scale = 1;

  // The frame scrolls by itself: by touch, by wheel and by arrow keys. What is at a point of the window stays there.
  const zoom = (to, x, y) => {
    const place = frame.getBoundingClientRect();
    const at = { x: x ?? place.left + place.width / 2, y: y ?? place.top + place.height / 2 };
    const before = shown().getBoundingClientRect();
    const part = { x: (at.x - before.left) / before.width, y: (at.y - before.top) / before.height };
    scale = Math.min(Math.max(to, SMALLEST), LARGEST);
    for (const svg of drawings) {
      svg.setAttribute("width", svg.viewBox.baseVal.width * scale);
      svg.setAttribute("height", svg.viewBox.baseVal.height * scale);
    }
    const after = shown().getBoundingClientRect();
    frame.scrollLeft += after.left + part.x * after.width - at.x;
    frame.scrollTop += after.top + part.y * after.height - at.y;
  };
  const fit = () => {
    const { width, height } = shown().viewBox.baseVal;
    zoom(Math.min(1, (frame.clientWidth - 1) / width, (frame.clientHeight - 1) / height));
  };
  const begin = () => {
    frame.style.minHeight = "";
    zoom(Math.min(1, Math.max(READABLE, frame.clientWidth / shown().viewBox.baseVal.width)));
    // What is below does not move when the graph gets smaller.
    frame.style.minHeight = `${frame.offsetHeight}px`;
    frame.scrollTo(0, 0);
  };
  begin();
  let width = frame.clientWidth;
  addEventListener("resize", () => {
    if (frame.clientWidth !== width) begin();
    width = frame.clientWidth;
  });

  const buttons = document.getElementById("graph-zoom");
  buttons.hidden = false;
  buttons.addEventListener("click", ({ target }) => {
    const by = target.closest("[data-zoom]")?.dataset.zoom;
    if (by === "0") fit();
    else if (by) zoom(scale * Number(by));
  });
  // A pinch on a touchpad is a wheel event with the control key.
  frame.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(scale * Math.exp(-event.deltaY / 200), event.clientX, event.clientY);
  }, { passive: false });

  let pinch = null;
  const fingers = ({ touches: [one, other] }) => ({
    x: (one.clientX + other.clientX) / 2,
    y: (one.clientY + other.clientY) / 2,
    apart: Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY),
  });
  frame.addEventListener("touchstart", (event) => {
    if (event.touches.length !== 2) return;
    if (event.cancelable) event.preventDefault();
    pinch = fingers(event);
  }, { passive: false });
  frame.addEventListener("touchmove", (event) => {
    if (!pinch || event.touches.length !== 2) return;
    if (event.cancelable) event.preventDefault();
    const now = fingers(event);
    frame.scrollBy({ left: pinch.x - now.x, top: pinch.y - now.y, behavior: "instant" });
    zoom(scale * now.apart / pinch.apart, now.x, now.y);
    pinch = now;
  }, { passive: false });
  for (const end of ["touchend", "touchcancel"]) frame.addEventListener(end, () => { pinch = null; });

  let held = null;
  frame.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "touch" && event.button === 0) held = { x: event.clientX, y: event.clientY, isMoved: false };
  });
  frame.addEventListener("pointermove", (event) => {
    if (!held) return;
    const [x, y] = [held.x - event.clientX, held.y - event.clientY];
    if (!held.isMoved && Math.hypot(x, y) < 5) return;
    if (!held.isMoved) frame.setPointerCapture(event.pointerId);
    frame.scrollBy({ left: x, top: y, behavior: "instant" });
    frame.classList.add("held");
    held = { x: event.clientX, y: event.clientY, isMoved: true };
  });
  for (const end of ["pointerup", "pointercancel"]) {
    frame.addEventListener(end, () => { held = null; frame.classList.remove("held"); });
  }
  frame.addEventListener("dragstart", (event) => event.preventDefault());

  // Neighbours of the box under the pointer or with the focus.
  const boxOf = (target) => target.closest?.("[data-box]");
  const mark = (box) => {
    for (const each of frame.querySelectorAll(".near")) each.classList.remove("near");
    for (const svg of drawings) svg.classList.toggle("marked", svg.contains(box));
    if (!box) return;
    const svg = box.ownerSVGElement;
    const near = new Set([box.dataset.box]);
    for (const arrow of svg.querySelectorAll("[data-ends]")) {
      const ends = arrow.dataset.ends.split(" ");
      if (!ends.includes(box.dataset.box)) continue;
      arrow.classList.add("near");
      ends.forEach((end) => near.add(end));
    }
    for (const each of svg.querySelectorAll("[data-box]")) each.classList.toggle("near", near.has(each.dataset.box));
  };
  const focused = () => boxOf(document.activeElement);
  frame.addEventListener("pointerover", ({ target, pointerType }) => { if (pointerType !== "touch") mark(boxOf(target) ?? focused()); });
  frame.addEventListener("pointerleave", () => mark(focused()));
  frame.addEventListener("focusin", ({ target }) => mark(boxOf(target)));
  frame.addEventListener("focusout", () => mark(null));

  // One tab stop for all boxes; from there the arrow keys lead to the nearest box in their direction.
  const links = (svg) => [...svg.querySelectorAll("a[data-box]")];
  const stop = (link) => {
    for (const each of links(link.ownerSVGElement)) each.setAttribute("tabindex", each === link ? "0" : "-1");
  };
  for (const svg of drawings) if (links(svg).length) stop(links(svg)[0]);
  const center = (link) => {
    const box = link.getBoundingClientRect();
    return { x: box.left + box.width / 2, y: box.top + box.height / 2 };
  };
  const beside = (link, key) => {
    const from = center(link);
    const ahead = (to) => ({ ArrowRight: to.x - from.x, ArrowLeft: from.x - to.x, ArrowDown: to.y - from.y, ArrowUp: from.y - to.y })[key];
    const aside = (to) => (key === "ArrowUp" || key === "ArrowDown" ? Math.abs(to.x - from.x) : Math.abs(to.y - from.y));
    let nearest = null;
    for (const other of links(link.ownerSVGElement)) {
      const to = center(other);
      if (ahead(to) <= 2) continue;
      const distance = ahead(to) + 3 * aside(to);
      if (!nearest || distance < nearest.distance) nearest = { link: other, distance };
    }
    return nearest?.link;
  };
  frame.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const link = focused();
    if (event.key === "+" || event.key === "=") zoom(scale * 1.25);
    else if (event.key === "-") zoom(scale * 0.8);
    else if (event.key === "0") fit();
    else if (link?.matches("a") && event.key.startsWith("Arrow")) {
      const next = beside(link, event.key);
      if (next) {
        stop(next);
        next.focus();
      }
    } else return;
    event.preventDefault();
  });
  // The size of the graph may have moved the target of the address.
  document.querySelector(":target")?.scrollIntoView();
})();
