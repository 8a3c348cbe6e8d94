// Keyboard shortcuts. They can be disabled, because speech input can trigger single-letter shortcuts.
(() => {
  "use strict";
  const STORAGE_KEY = "critiqor-keys";
  const dialog = document.getElementById("keys");
  const opener = document.getElementById("keys-open");
  const isOn = document.getElementById("keys-on");
  try { isOn.checked = localStorage.getItem(STORAGE_KEY) !== "off"; } catch { /* enabled by default */ }
  isOn.addEventListener("change", () => {
    try { localStorage.setItem(STORAGE_KEY, isOn.checked ? "on" : "off"); } catch { /* not remembered */ }
  });
  opener.hidden = false;
  opener.addEventListener("click", () => dialog.showModal());

  const rows = () => [...document.querySelectorAll("[data-row]")];
  const move = (by) => {
    const all = rows();
    const now = all.findIndex((row) => row.classList.contains("chosen") || row === document.activeElement || row.contains(document.activeElement));
    const next = all[now < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(now + by, 0), all.length - 1)];
    if (!next) return;
    for (const row of all) row.classList.toggle("chosen", row === next);
    // Focus the link of the row, so that Enter opens it, or what unfolds it.
    const target = next.querySelector("[data-focus]") ?? (next.matches("tr") ? next.querySelector("a") : next);
    target.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };
  const open = (number) => document.querySelectorAll("#run-nav li a")[number - 1]?.click();

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (event.target.closest("input, select, textarea, [contenteditable]") || !isOn.checked) return;
    const search = document.querySelector("[data-search]");
    if (event.key === "/" && search) search.focus();
    else if (event.key === "?") dialog.showModal();
    else if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "n") document.querySelector("a[rel=next]")?.click();
    else if (event.key === "p") document.querySelector("a[rel=prev]")?.click();
    else if (/^[1-9]$/.test(event.key)) open(Number(event.key));
    else return;
    event.preventDefault();
  });
})();
