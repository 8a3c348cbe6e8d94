// Events as they are recorded, the newest first. Everything is put in as text.
(() => {
  "use strict";
  const MOST = 500;
  const state = document.getElementById("live-state");
  const rows = document.getElementById("live-rows");
  const source = new EventSource(state.dataset.stream);
  const cell = (text, look = "") => {
    const element = document.createElement("td");
    element.className = look;
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
    while (rows.children.length > MOST) rows.lastElementChild.remove();
  });
  const badge = document.getElementById("live-badge");
  const next = document.getElementById("live-next");
  source.addEventListener("state", (message) => {
    const told = JSON.parse(message.data);
    state.classList.toggle("going", told.going);
    if (state.textContent !== told.said) state.textContent = told.said;
    if (badge.textContent !== told.badge) badge.textContent = told.badge;
    badge.classList.toggle("ready", told.going);
    next.hidden = !told.next;
    next.querySelector("code").textContent = told.next ?? "";
    document.getElementById("live-orders").hidden = !told.going;
  });
  source.addEventListener("ended", (message) => {
    source.close();
    document.getElementById("live-concluded").hidden = !JSON.parse(message.data).concluded;
  });
  source.addEventListener("error", () => {
    state.classList.remove("going");
    state.textContent = "The dashboard does not answer; trying again.";
  });
  addEventListener("pagehide", () => source.close());
})();
