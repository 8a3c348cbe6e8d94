// Some browsers report a language that their own formatter refuses, and the chart library asks no further.
(() => {
  "use strict";
  try {
    new Intl.NumberFormat(navigator.language);
  } catch {
    Object.defineProperty(navigator, "language", { value: "en-US", configurable: true });
  }
})();
