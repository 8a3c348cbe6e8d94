// Print with the light theme, whatever is chosen for the screen.
(() => {
  "use strict";
  const root = document.documentElement;
  let chosen;
  addEventListener("beforeprint", () => {
    chosen = root.dataset.theme;
    root.dataset.theme = "light";
  });
  addEventListener("afterprint", () => {
    if (chosen) root.dataset.theme = chosen;
    else delete root.dataset.theme;
  });
})();
