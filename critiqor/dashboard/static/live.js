// Shows events while they are recorded, newest first, errors above them. All values are inserted as text.
(() => {
  "use strict";
  const MAX_ROWS = 500;
  const MAX_ERRORS = 50;
  const MAX_WAITING = 2000;
  const by = (id) => document.getElementById(id);
  const state = by("live-state");
  const rows = by("live-rows");
  const source = new EventSource(state.dataset.stream);
  const make = (name, text, className = "") => {
    const element = document.createElement(name);
    element.className = className;
    element.textContent = text ?? "";
    return element;
  };
  const cell = (text, className) => make("td", text, className);

  const filter = by("live-filter");
  const all = by("live-all");
  const apply = (row) => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word)) || (row.dataset.plumbing === "1" && !all.checked && !words.length);
  };
  const applyAll = () => { for (const row of document.querySelectorAll("#live-rows tr, #live-errors tr")) apply(row); };
  filter.addEventListener("input", applyAll);
  all.addEventListener("change", applyAll);
  by("live-tools").hidden = false;

  const add = (event) => {
    const failed = event.status === "error";
    const row = document.createElement("tr");
    if (failed) row.className = "failed";
    if (event.plumbing && !failed) row.dataset.plumbing = "1";
    row.append(cell(event.at.replace("T", " ").replace("Z", ""), "figure-cell"), cell(event.type), cell(event.tool),
      cell(event.status, failed ? "bad" : "quiet"), cell(event.took, "right"), cell(event.said, "wide said"));
    apply(row);
    if (failed) {
      by("live-errors").prepend(row.cloneNode(true));
      by("live-errors-part").hidden = false;
      if (by("live-errors").children.length > MAX_ERRORS) by("live-errors").lastElementChild.remove();
    }
    rows.prepend(row);
    while (rows.children.length > MAX_ROWS) rows.lastElementChild.remove();
  };

  const pause = by("live-pause");
  let waiting = [];
  let isPaused = false;
  let drawnSessions = "";
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    pause.textContent = isPaused ? "Continue" : "Pause";
    if (isPaused) return;
    waiting.forEach(add);
    waiting = [];
    by("live-waiting").textContent = "";
    if (concluded) handOver();
  });
  source.addEventListener("record", (message) => {
    const event = JSON.parse(message.data);
    if (!isPaused) { add(event); return; }
    waiting.push(event);
    if (waiting.length > MAX_WAITING) waiting.shift();
    by("live-waiting").textContent = `${waiting.length} new ${waiting.length === 1 ? "event" : "events"}`;
  });

  const badge = by("live-badge");
  const next = by("live-next");
  source.addEventListener("state", (message) => {
    const update = JSON.parse(message.data);
    state.classList.toggle("going", update.going);
    if (state.textContent !== update.said) state.textContent = update.said;
    if (badge.textContent !== update.badge) badge.textContent = update.badge;
    badge.classList.toggle("ready", update.going);
    next.hidden = !update.next;
    next.querySelector("code").textContent = update.next ?? "";
    if (by("live-orders")) by("live-orders").hidden = !update.going;
  });

  const sessionRow = (session) => {
    const row = document.createElement("tr");
    const name = document.createElement("td");
    const link = make("a", session.session);
    link.href = session.address;
    name.append(link);
    row.append(name, cell(session.readiness), cell(session.trust, "right"), cell(session.state, "quiet"),
      cell(session.cost, "right"), cell(session.calls, "right"), cell(session.words, "wide said"));
    return row;
  };
  source.addEventListener("verdict", (message) => {
    const verdict = JSON.parse(message.data);
    const readiness = by("live-readiness");
    readiness.textContent = verdict.readiness;
    readiness.className = `badge ${verdict.readiness}`;
    const said = by("live-said");
    if (said.textContent !== verdict.said) said.textContent = verdict.said;
    const findings = verdict.findings.map((finding) =>
      make("li", `${finding.severity}: ${finding.title}${finding.session ? ` (${finding.session})` : ""}`, "said"));
    by("live-findings").replaceChildren(...findings, ...(verdict.more ? [make("li", verdict.more)] : []));
    by("live-limits").replaceChildren(...verdict.limits.map((text) => make("li", text, "bad")));
    // Rows that say the same stay, and so does the one with the focus: a new row would lose a click or the focus.
    const sessions = JSON.stringify(verdict.sessions);
    if (sessions !== drawnSessions && !by("live-sessions").contains(document.activeElement)) {
      by("live-sessions").replaceChildren(...verdict.sessions.map(sessionRow));
      drawnSessions = sessions;
    }
    by("live-verdict").hidden = false;
  });

  // Not while somebody reads a page that stands still.
  let concluded = false;
  const handOver = () => { if (!isPaused) location.replace(state.dataset.next); };
  source.addEventListener("ended", (message) => {
    source.close();
    concluded = JSON.parse(message.data).concluded;
    by("live-concluded").hidden = !concluded;
    if (concluded) handOver();
  });
  source.addEventListener("error", () => {
    state.classList.remove("going");
    state.textContent = "The dashboard does not respond. Trying again.";
  });
  addEventListener("pagehide", () => source.close());
})();
