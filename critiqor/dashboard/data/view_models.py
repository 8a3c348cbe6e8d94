"""View models: the values that the templates of the run pages show, built from `RunPageData` and events."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import Any, NamedTuple

from critiqor.dashboard.data.conversations import Conversations, ShownEntry
from critiqor.dashboard.data.event_index import EventFilter
from critiqor.dashboard.data.run_page_data import RunPageData
from critiqor.dashboard.pages.paging import Pages
from critiqor.dashboard.render.causal_drawing import CausalPicture, draw_causal_graph
from critiqor.dashboard.render.chart_drawing import draw_requests
from critiqor.dashboard.render.lane_drawing import SMALL, Drawing, draw
from critiqor.diagnosis.signals.text import canonical_json, plain_text
from critiqor.errors import BrokenRecordError
from critiqor.model import Diagnosis, Event, Finding, GraphNode
from critiqor.model.diagnosis import SEVERITIES
from critiqor.model.sanitize import excerpt, remove_escape_sequences
from critiqor.model.verdict import SessionTable, session_table
from critiqor.search.terms import searchable_text

MAX_CITED = 12
"""Maximum number of events of one finding that are shown with their values."""
MAX_TEXTS = 20
"""Maximum number of arguments of a call that are shown as texts."""
_MAX_EXCERPT = 240
"""Maximum length of one value of an event in characters."""
_MAX_SEARCHED = 50_000
"""Maximum number of characters of an event in which the match of a search is located."""


def overview_values(data: RunPageData) -> dict[str, Any]:
    """Return the view model of the overview: verdict, main problem, next action."""
    primary = _primary(data)
    begin = primary.first_event if primary else ""
    return {
        "primary": primary,
        "first_bad": begin,
        "first_bad_event": _indexed_events(data, [begin]).get(begin),
        "drawing": _small_drawing(data),
        "notes": _notes(data),
        "doubt": None if data.diagnosis is None or data.view.integrity.is_intact else data.view.integrity.explanation,
        "severities": _severities([finding for finding in data.findings if finding.extension is None]),
        "sessions": _sessions(data),
        "exchange": _exchange(data),
    }


def diagnosis_values(data: RunPageData, page: int, size: int) -> dict[str, Any]:
    """Return the view model of the diagnosis page: findings with causal chains and events, and the causal graph."""
    found = data.findings
    pages = Pages(page, size, len(found), data.addresses.page("diagnosis"), "").within()
    shown = found[pages.offset : pages.offset + size]
    return {
        "findings": shown,
        "pages": pages,
        "cited": {event_id: event for finding in shown for event_id, event in _cited(data, finding).items()},
        "graph": _graph(data, data.diagnosis) if data.diagnosis and pages.page == 1 else None,
        "severities": _severities(found),
    }


def cost_values(data: RunPageData) -> dict[str, Any]:
    """Return the view model of the cost page: the start of each turn, by agent run id; the diagnosis has the costs."""
    timeline = data.diagnosis.timeline if data.diagnosis else None
    turns = timeline.turns if timeline is not None else []
    return {"began": {turn.agent_run_id: turn.started_at for turn in turns if turn.agent_run_id}}


def context_values(data: RunPageData) -> dict[str, Any]:
    """Return the view model of the context page: request sizes and budgets, with the compactions between them."""
    requests = data.diagnosis.context_analysis.requests if data.diagnosis else []
    ids = [each.event_id for each in requests]
    # Ids sort in the order of events, so the position among the ids says after which request a compaction happened.
    behind = [bisect_left(ids, event_id) for event_id in _compactions(data)] if ids else []
    return {
        "compacted_behind": {place: behind.count(place) for place in behind},
        "chart": draw_requests(requests, behind, data.addresses.event),
    }


def informative_values(event: Event, search: re.Pattern[str] | None = None) -> list[tuple[str, str]]:
    """Return the values of an event that pages show, one line each; the match of a search is always among them."""
    payload = event.payload
    lines = []
    if payload.get("arguments") is not None:
        lines.append(("arguments", excerpt(canonical_json(payload["arguments"]), _MAX_EXCERPT)))
    if event.error:
        lines.append(("error", excerpt(event.error, _MAX_EXCERPT)))
    for name in ("result", "text"):
        if payload.get(name):
            lines.append((name, excerpt(plain_text(payload[name]), _MAX_EXCERPT)))
    usage = payload.get("usage")
    if isinstance(usage, dict):
        counted = ((usage.get(name), way) for name, way in (("input", "in"), ("output", "out")))
        parts = [f"{count} tokens {way}" for count, way in counted if isinstance(count, int | float)]
        lines += [("usage", ", ".join(parts))] if parts else []
    if search is not None:
        lines += _found(event, search, lines)
    return lines


def readable_texts(event: Event) -> list[tuple[str, str]]:
    """Return the texts of an event as people read them: with line breaks, without the terminal's escape sequences."""
    payload = event.payload
    texts = []
    arguments = payload.get("arguments")
    if isinstance(arguments, dict):
        # A text is shown as text, everything else as JSON.
        texts += [(f"argument {name}", _readable(value)) for name, value in list(arguments.items())[:MAX_TEXTS]]
    elif arguments is not None:
        texts.append(("arguments", _readable(arguments)))
    texts += [(name, _readable(payload[name])) for name in ("result", "output", "text") if payload.get(name)]
    return [(name, text) for name, text in texts if text]


def _readable(value: object) -> str:
    return remove_escape_sequences(plain_text(value))


def _severities(findings: list[Finding]) -> dict[str, int]:
    """Return the number of findings of each severity, the worst first."""
    found = [finding.severity for finding in findings]
    return {severity: found.count(severity) for severity in SEVERITIES if severity in found}


def _primary(data: RunPageData) -> Finding | None:
    primary = data.diagnosis.primary_diagnosis if data.diagnosis else None
    return next((finding for finding in data.findings if primary and finding.id == primary.finding_id), None)


def _sessions(data: RunPageData) -> SessionTable | None:
    """Return the verdict on each session; None if there are not several."""
    if data.diagnosis is None or data.verdict is None or not data.diagnosis.has_several_sessions:
        return None
    return session_table(data.diagnosis, data.verdict)


class Exchange(NamedTuple):
    """What the user asked first, and what the agent answered last, in the session to look at first."""

    name: str | None
    """The name of the session."""
    request: ShownEntry | None
    answer: ShownEntry | None
    supported: int
    """Number of claims of the answer that the recording supports."""


def _exchange(data: RunPageData) -> Exchange | None:
    """Return request and answer; None without an index, and if neither was recorded."""
    if data.diagnosis is None or data.index() is None:
        return None
    conversations = Conversations(data)
    try:
        session = conversations.main()
        if session is None:
            return None
        request, answer = conversations.message(session.request), conversations.message(session.answer)
    except BrokenRecordError:
        return None  # the diagnosis can still be read
    supported = sum(
        claim.status == "supported" for piece in (answer.pieces if answer else ()) for claim in piece.claims
    )
    return Exchange(conversations.name(session), request, answer, supported) if request or answer else None


def _small_drawing(data: RunPageData) -> Drawing | None:
    window = data.whole_window()
    return None if window is None else draw(data, window, SMALL)


def _notes(data: RunPageData) -> list[str]:
    try:
        coverage = data.coverage()
    except BrokenRecordError as error:
        # The diagnosis can still be read.
        return [data.why_unreadable(error)]
    unread = data.diagnosis.coverage.notes if data.diagnosis is not None else []
    return [*coverage.notes, *unread] if coverage is not None else []


def _compactions(data: RunPageData) -> list[str]:
    if data.index() is None:
        return []
    found = data.events(EventFilter(event_type="compaction_end"), 1)
    return [each.event.event_id for each in found.events]


def _cited(data: RunPageData, finding: Finding) -> dict[str, Event]:
    """Return the first cited events of a finding."""
    return _indexed_events(data, finding.cited_events[:MAX_CITED])


def _indexed_events(data: RunPageData, names: list[str]) -> dict[str, Event]:
    """Return events by their ids, if the index is built."""
    if data.index() is None:
        return {}
    found = {name: data.event(name) for name in names}
    return {name: numbered.event for name, numbered in found.items() if numbered is not None}


def _graph(data: RunPageData, diagnosis: Diagnosis) -> CausalPicture | None:
    def address(node: GraphNode) -> str | None:
        return data.addresses.finding(node.id) if node.kind == "finding" else data.addresses.event(node.id)

    return draw_causal_graph(diagnosis, address)


def _found(event: Event, search: re.Pattern[str], lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the first match of a search that the lines do not show, as one more line."""
    shown = {match[0].lower() for _, text in lines for match in search.finditer(text)}
    text = searchable_text(event)[:_MAX_SEARCHED]
    for match in search.finditer(text, len(event.event_type)):
        if match[0].lower() not in shown:
            return [("found", excerpt(text[max(0, match.start() - 80) : match.end() + _MAX_EXCERPT], _MAX_EXCERPT))]
    return []
