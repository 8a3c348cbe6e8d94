// Copies the text of an element.
(() => {
  "use strict";
  for (const button of document.querySelectorAll("[data-copies]")) {
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copies);
      const told = document.getElementById("copied");
      try {
        await navigator.clipboard.writeText(source.textContent);
        told.textContent = "Copied.";
      } catch {
        getSelection().selectAllChildren(source);
        // Older than the other way, and allowed in more places.
        told.textContent = document.execCommand("copy") ? "Copied." : "Press Ctrl+C to copy what is marked.";
      }
    });
  }
})();
