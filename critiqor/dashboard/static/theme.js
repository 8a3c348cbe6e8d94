// Light or dark: as the system says, until somebody switches. Loaded before anything is drawn.
(() => {
  "use strict";
  const kept = () => { try { return localStorage.getItem("critiqor-theme"); } catch { return null; } };
  const root = document.documentElement;
  const chosen = kept();
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
      try { localStorage.setItem("critiqor-theme", root.dataset.theme); } catch { /* only not remembered */ }
      label();
      document.dispatchEvent(new Event("themechange"));
    });
  });
})();
