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
      cell(event.status, failed ? "bad" : "quiet"), cell(event.ms === null ? "" : `${Math.round(event.ms)} ms`, "right"), cell(event.said, "wide said"));
    rows.prepend(row);
    while (rows.children.length > MOST) rows.lastElementChild.remove();
  });
  source.addEventListener("state", (message) => {
    const { status, events, errors, tokens, cost_usd: cost } = JSON.parse(message.data);
    const money = cost === null || (cost === 0 && tokens) ? "no price known" : `$${cost.toFixed(4)}`;
    const said = `${status === "MONITORING" ? "Recording" : status.toLowerCase()}: ${events} events, ${errors} errors, ${tokens} tokens, ${money}`;
    state.classList.toggle("going", status === "MONITORING");
    if (state.textContent !== said) state.textContent = said;
  });
  source.addEventListener("ended", (message) => {
    source.close();
    state.classList.remove("going");
    state.textContent += `. Over: ${JSON.parse(message.data).why}. Reload the page for what was concluded.`;
  });
  source.addEventListener("error", () => {
    state.classList.remove("going");
    state.textContent = "The dashboard does not answer; trying again.";
  });
  addEventListener("pagehide", () => source.close());
})();
