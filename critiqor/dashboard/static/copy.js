// Copies the text of an element. What it came to stands beside the button.
(() => {
  "use strict";
  for (const button of document.querySelectorAll("[data-copies]")) {
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copies);
      const told = button.parentElement.querySelector("[role=status]");
      try {
        await navigator.clipboard.writeText(source.textContent);
        told.textContent = "Copied.";
      } catch {
        source.hidden = false;
        getSelection().selectAllChildren(source);
        // Older than the other way, and allowed in more places.
        told.textContent = document.execCommand("copy") ? "Copied." : "Press Ctrl+C to copy what is marked.";
      }
    });
  }
})();
