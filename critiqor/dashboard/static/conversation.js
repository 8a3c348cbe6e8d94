// Unfolds the tool calls of a page, and the one that the address names.
(() => {
  "use strict";
  const button = document.getElementById("unfold");
  const calls = () => document.querySelectorAll("#chat details");
  const unfold = (open) => {
    for (const each of calls()) each.open = open;
    button.textContent = open ? "Fold all" : "Unfold all";
    button.setAttribute("aria-pressed", String(open));
  };
  button.hidden = calls().length === 0;
  button.addEventListener("click", () => unfold(button.getAttribute("aria-pressed") !== "true"));

  const show = () => {
    let target = null;
    try { target = document.getElementById(decodeURIComponent(location.hash.slice(1))); } catch { /* not an id */ }
    const entry = target?.closest(".entry");
    if (!entry) return;
    entry.querySelector("details")?.setAttribute("open", "");
    entry.classList.add("chosen");
    target.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", show);
  show();
})();
