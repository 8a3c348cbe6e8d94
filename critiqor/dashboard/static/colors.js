// Current colors of the page, light or dark, for drawing on a canvas.
const color = (() => {
  "use strict";
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  return (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
})();
