// The colours of the page for what is drawn on a canvas, as they are now: light or dark.
const colour = (() => {
  "use strict";
  const probe = document.createElement("span");
  probe.hidden = true;
  document.body.append(probe);
  return (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
})();
