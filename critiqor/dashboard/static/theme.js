// Light or dark theme: that of the system until the user switches. Loaded before the page is drawn.
(() => {
  "use strict";
  const stored = () => { try { return localStorage.getItem("critiqor-theme"); } catch { return null; } };
  const root = document.documentElement;
  const chosen = stored();
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme-switch");
    if (!button) return;
    const isDark = () => root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
    label();
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try { localStorage.setItem("critiqor-theme", root.dataset.theme); } catch { /* not remembered */ }
      label();
    });
  });
})();
