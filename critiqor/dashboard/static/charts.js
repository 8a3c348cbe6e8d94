// Reading values off a chart with the pointer, a finger or the arrow keys. The server has drawn it, and tables have every number.
(() => {
  "use strict";
  for (const figure of document.querySelectorAll("figure.chart")) {
    const plot = figure.querySelector(".chart-plot");
    if (!plot) continue;
    const points = JSON.parse(figure.querySelector(".chart-points").textContent);
    const last = points.x.length - 1;
    const reader = plot.querySelector(".reader");
    const [line, dot] = reader.children;
    const readOut = figure.querySelector(".read-out");
    const range = readOut.textContent;
    const top = Number(line.getAttribute("y1"));
    let at = null;

    // A slider is what assistive technology calls a place that arrow keys move, with a value that is a text.
    plot.setAttribute("role", "slider");
    plot.setAttribute("tabindex", "0");
    plot.setAttribute("aria-valuemin", "1");
    plot.setAttribute("aria-valuemax", last + 1);
    plot.setAttribute("aria-valuenow", last + 1);
    plot.setAttribute("aria-valuetext", points.text[last]);
    const show = (number) => {
      at = number;
      const isShown = number !== null;
      reader.toggleAttribute("hidden", !isShown);
      readOut.textContent = isShown ? points.text[number] : range;
      readOut.classList.toggle("read", isShown);
      plot.classList.toggle("has-link", isShown && points.href[number] !== null);
      if (!isShown) return;
      for (const [element, name] of [[line, "x1"], [line, "x2"], [dot, "cx"]]) element.setAttribute(name, `${points.x[number]}%`);
      dot.setAttribute("cy", top + points.y[number]);
      plot.setAttribute("aria-valuenow", number + 1);
      plot.setAttribute("aria-valuetext", points.text[number]);
    };
    const nearest = ({ clientX }) => {
      const { left, width } = plot.getBoundingClientRect();
      const x = (clientX - left) / width * 100;
      let low = 0;
      let high = last;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (points.x[middle] < x) low = middle + 1;
        else high = middle;
      }
      return low > 0 && x - points.x[low - 1] < points.x[low] - x ? low - 1 : low;
    };
    const open = () => { if (at !== null && points.href[at]) location.assign(points.href[at]); };

    plot.addEventListener("pointerdown", (event) => show(nearest(event)));
    plot.addEventListener("pointermove", (event) => show(nearest(event)));
    // The value that a finger has chosen stays.
    plot.addEventListener("pointerleave", ({ pointerType }) => { if (pointerType !== "touch" && document.activeElement !== plot) show(null); });
    let touched = false;
    plot.addEventListener("pointerup", ({ pointerType }) => { touched = pointerType === "touch"; });
    plot.addEventListener("click", () => { if (!touched) open(); });
    plot.addEventListener("focus", () => { if (at === null) show(last); });
    plot.addEventListener("blur", () => show(null));
    plot.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const page = Math.max(1, Math.round(last / 10));
      const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: page, PageDown: -page, Home: -Infinity, End: Infinity }[event.key];
      if (event.key === "Enter") open();
      else if (by === undefined) return;
      else show(Math.min(Math.max((at ?? last) + by, 0), last));
      event.preventDefault();
    });
  }
})();
