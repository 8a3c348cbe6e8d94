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
  const item = (text, className = "") => {
    const element = document.createElement("li");
    element.className = className;
    element.textContent = text;
    return element;
  };
  source.addEventListener("verdict", (message) => {
    const verdict = JSON.parse(message.data);
    const readiness = document.getElementById("live-readiness");
    readiness.textContent = verdict.readiness;
    readiness.className = `badge ${verdict.readiness}`;
    const said = document.getElementById("live-said");
    if (said.textContent !== verdict.said) said.textContent = verdict.said;
    const findings = verdict.findings.map((finding) =>
      item(`${finding.severity}: ${finding.title}${finding.session ? ` (${finding.session})` : ""}`, "said"));
    document.getElementById("live-findings").replaceChildren(...findings, ...(verdict.more ? [item(verdict.more)] : []));
    document.getElementById("live-limits").replaceChildren(...verdict.limits.map((text) => item(text, "bad")));
    document.getElementById("live-sessions").replaceChildren(...verdict.sessions.map((session) => {
      const row = document.createElement("tr");
      row.append(cell(session.session), cell(session.readiness), cell(session.trust, "right"), cell(session.state, "quiet"),
        cell(session.cost, "right"), cell(session.calls, "right"), cell(session.words, "wide said"));
      return row;
    }));
    document.getElementById("live-verdict").hidden = false;
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
