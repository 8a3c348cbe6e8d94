// Some browsers report a language that their own number formatter rejects, which breaks the chart library.
(() => {
  "use strict";
  try {
    new Intl.NumberFormat(navigator.language);
  } catch {
    Object.defineProperty(navigator, "language", { value: "en-US", configurable: true });
  }
})();
