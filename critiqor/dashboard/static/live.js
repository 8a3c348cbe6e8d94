// Shows events while they are recorded, newest first. All values are inserted as text.
(() => {
  "use strict";
  const MAX_ROWS = 500;
  const state = document.getElementById("live-state");
  const rows = document.getElementById("live-rows");
  const source = new EventSource(state.dataset.stream);
  const cell = (text, className = "") => {
    const element = document.createElement("td");
    element.className = className;
    element.textContent = text ?? "";
    return element;
  };
  source.addEventListener("record", (message) => {
    const event = JSON.parse(message.data);
    const failed = event.status === "error";
    const row = document.createElement("tr");
    if (failed) row.className = "failed";
    row.append(cell(event.at.replace("T", " ").replace("Z", ""), "figure-cell"), cell(event.type), cell(event.tool),
      cell(event.status, failed ? "bad" : "quiet"), cell(event.took, "right"), cell(event.said, "wide said"));
    rows.prepend(row);
    while (rows.children.length > MAX_ROWS) rows.lastElementChild.remove();
  });
  const badge = document.getElementById("live-badge");
  const next = document.getElementById("live-next");
  source.addEventListener("state", (message) => {
    const update = JSON.parse(message.data);
    state.classList.toggle("going", update.going);
    if (state.textContent !== update.said) state.textContent = update.said;
    if (badge.textContent !== update.badge) badge.textContent = update.badge;
    badge.classList.toggle("ready", update.going);
    next.hidden = !update.next;
    next.querySelector("code").textContent = update.next ?? "";
    document.getElementById("live-orders").hidden = !update.going;
  });
  source.addEventListener("ended", (message) => {
    source.close();
    document.getElementById("live-concluded").hidden = !JSON.parse(message.data).concluded;
  });
  source.addEventListener("error", () => {
    state.classList.remove("going");
    state.textContent = "The dashboard does not respond. Trying again.";
  });
  addEventListener("pagehide", () => source.close());
})();
