// Copies the text of an element and shows the result beside the button.
(() => {
  "use strict";
  for (const button of document.querySelectorAll("[data-copies]")) {
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copies);
      const status = button.parentElement.querySelector("[role=status]");
      try {
        await navigator.clipboard.writeText(source.textContent);
        status.textContent = "Copied.";
      } catch {
        source.hidden = false;
        getSelection().selectAllChildren(source);
        // The older API, which is allowed in more contexts.
        status.textContent = document.execCommand("copy") ? "Copied." : "Press Ctrl+C to copy the selected text.";
      }
    });
  }
})();
