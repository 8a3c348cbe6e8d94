"""Values of the run pages: what their templates show, built from `RunPageData` and events."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote

from critiqor.conversation.checked_text import worst_first
from critiqor.conversation.entries import tool_arguments
from critiqor.conversation.entry_text import call_title
from critiqor.dashboard.data.conversations import Conversations, ShownEntry
from critiqor.dashboard.data.event_index import EventFilter
from critiqor.dashboard.data.event_kinds import is_plumbing
from critiqor.dashboard.data.run_page_data import RunPageData, ShownRun
from critiqor.dashboard.pages.paging import Pages
from critiqor.dashboard.pages.run_addresses import session_segment
from critiqor.dashboard.render.causal_drawing import CausalPicture, draw_causal_graph
from critiqor.dashboard.render.chart_drawing import draw_requests
from critiqor.dashboard.render.lane_drawing import SMALL, Drawing, draw
from critiqor.errors import BrokenRecordError
from critiqor.model import Diagnosis, Event, EventType, Finding, GraphNode, SlowCall
from critiqor.model.diagnosis import SEVERITIES, RequestSize
from critiqor.model.sanitize import sanitize_for_page
from critiqor.model.usage import TurnUsage
from critiqor.model.verdict import VerdictTable, verdict_table
from critiqor.privacy.replacements import anonymous_name

EVENT_FILTERS = {"type": "event_type", "layer": "source_layer", "tool": "tool_name", "status": "status"}
"""Filters of the evidence, by their names in the address."""
MAX_NAME, MAX_NAMES = 200, 200
"""Maximum length in characters, and maximum number, of names that are offered as a filter."""
MAX_CITED = 12
"""Maximum number of events of one finding that are shown with their values."""
MAX_CLAIMS = 200
"""Maximum number of claims that are listed, the worst ones."""
MAX_COMPACTIONS = 100
"""Maximum number of compactions in the chart of requests."""
DOMINANT, MIN_DOMINANT_MS = 0.5, 1000
"""Share of its agent run, and duration in milliseconds, from which one call is what took the time."""


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
        "asked": _asked(data),
        "exchange": _exchange(data),
        "dominant": _dominant_call(data),
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
        "claims": worst_first(data.diagnosis.claims)[:MAX_CLAIMS] if data.diagnosis and pages.page == 1 else [],
        "claims_left_out": max(0, len(data.diagnosis.claims) - MAX_CLAIMS) if data.diagnosis else 0,
    }


class SlowCallRow(NamedTuple):
    """One of the slowest calls, with what it did."""

    call: SlowCall
    name: str
    command: str
    """What a tool call does, on one line, or which model was called; empty if it is not known."""
    process_ms: float | None
    """Time of the processes that the tool started; None if they are not known."""
    share: float | None
    """Its share of its agent run; None if that is not known."""


def slow_calls(data: RunPageData, limit: int | None = None) -> list[SlowCallRow]:
    """Return the slowest calls of a run, the slowest first."""
    diagnosis, index = data.diagnosis, data.index()
    if diagnosis is None:
        return []
    turns = diagnosis.timeline.turns if diagnosis.timeline is not None else []
    times = {turn.agent_run_id: turn.duration_ms for turn in turns if turn.agent_run_id}
    rows = []
    for call in diagnosis.latency_analysis.slowest[:limit]:
        found = data.event(call.event_id) if index is not None else None
        if index is None or found is None:
            rows.append(SlowCallRow(call, call.name, "", None, None))
            continue
        around = data.around(found.number)
        start = data.event(around.counterpart) if around.counterpart is not None else found
        called = start.event if start is not None else found.event
        bounds = index.call_bounds(called.event_id) if called.event_type == EventType.TOOL_CALL else None
        whole = times.get(found.event.agent_run_id or "")
        rows.append(
            SlowCallRow(
                call,
                call.name,
                _model_name(found.event) or call_title(tool_arguments(called)),
                None if bounds is None else index.child_time(*bounds),
                call.duration_ms / whole if whole else None,
            )
        )
    return rows


def _model_name(event: Event) -> str:
    """Return provider and model of a model call; empty for other events, and if they were not recorded."""
    if event.event_type != EventType.TOKEN_USAGE:
        return ""
    names = (event.payload.get("provider"), event.payload.get("model"))
    return "/".join(name for name in names if isinstance(name, str))


def _dominant_call(data: RunPageData) -> SlowCallRow | None:
    """Return the call that took most of the time of its agent run; None if there is none."""
    found = next(iter(slow_calls(data, 1)), None)
    is_dominant = found is not None and found.share is not None and DOMINANT <= found.share <= 1
    return found if is_dominant and found is not None and found.call.duration_ms >= MIN_DOMINANT_MS else None


class CostRow(NamedTuple):
    """The cost of one agent run."""

    usage: TurnUsage
    run: ShownRun | None
    """When it began and what it answers; None if that is not known."""


def cost_values(data: RunPageData) -> dict[str, Any]:
    """Return the view model of the cost page: the agent runs in order of time; the diagnosis has all other costs."""
    usages = data.diagnosis.cost_analysis.per_turn if data.diagnosis else []
    known = data.agent_runs(each.scope.agent_run_id for each in usages if each.scope.agent_run_id)
    rows = [CostRow(each, known.get(each.scope.agent_run_id or "")) for each in usages]
    return {"turns": sorted(rows, key=lambda row: (row.run is None, row.run.place if row.run else 0))}


class SessionContext(NamedTuple):
    """The sizes of the requests of one session."""

    number: int
    name: str | None
    requests: int
    peak_tokens: int | None
    peak_saturation: float | None


def context_values(data: RunPageData, session: int | None = None) -> dict[str, Any]:
    """Return the view model of the context page: request sizes and budgets, with the compactions between them.

    With a session, only its requests are shown.
    """
    every = data.diagnosis.context_analysis.requests if data.diagnosis else []
    index = data.index()
    sessions = index.sessions_of(each.event_id for each in every) if index is not None else {}
    requests = [each for each in every if session is None or sessions.get(each.event_id) == session]
    ids = [each.event_id for each in requests]
    # Ids sort in the order of events, so the position among the ids says after which request a compaction happened.
    behind = [bisect_left(ids, event_id) for event_id in _compactions(data, session)] if ids else []
    names = data.session_choices()
    return {
        "requests": requests,
        "request_sessions": {event_id: names.get(number) for event_id, number in sessions.items()},
        "session_contexts": _session_contexts(every, sessions, names),
        "compacted_behind": {place: behind.count(place) for place in behind},
        "chart": draw_requests(requests, behind, data.addresses.event),
    }


def _session_contexts(
    requests: list[RequestSize], sessions: dict[str, int], names: dict[int, str | None]
) -> list[SessionContext]:
    """Return the sizes of the requests of each session, the fullest first; empty if there are not several."""
    found: dict[int, list[RequestSize]] = {}
    for each in requests:
        if each.event_id in sessions:
            found.setdefault(sessions[each.event_id], []).append(each)
    rows = [
        SessionContext(
            number,
            names.get(number),
            len(own),
            max((each.input_tokens for each in own if each.input_tokens is not None), default=None),
            max((each.saturation for each in own if each.saturation is not None), default=None),
        )
        for number, own in found.items()
    ]
    return sorted(rows, key=lambda row: (-(row.peak_saturation or 0), row.number)) if len(rows) > 1 else []


class SessionChoice(NamedTuple):
    """A session that events can be filtered by."""

    segment: str
    """As the address names it."""
    name: str | None
    times: int


def evidence_choices(data: RunPageData, wanted: EventFilter) -> dict[str, Any]:
    """Return what events can be filtered by, with the number of matching events for each choice."""
    index = data.index()
    # An anonymous viewer cannot search: the number of matches would reveal that a word occurs.
    facets = index.facets("" if data.is_anonymous else wanted.text, wanted.min_ms) if index is not None else []
    counts: dict[str, dict[str, int]] = {name: {} for name in EVENT_FILTERS}
    sessions: dict[int, int] = {}
    folded = 0
    for facet in facets:
        is_of_session = wanted.session in (None, facet.session)
        differing = [field for field, value in wanted.names.items() if facet.values[field] != value]
        for name, field in EVENT_FILTERS.items():
            value = facet.values[field]
            if value is not None and is_of_session and set(differing) <= {field}:
                counts[name][value] = counts[name].get(value, 0) + facet.times
        if not differing and facet.session is not None:
            sessions[facet.session] = sessions.get(facet.session, 0) + facet.times
        if not differing and is_of_session and wanted.folds and facet.values["status"] != "error":
            folded += facet.times if is_plumbing(facet.values["event_type"] or "") else 0
    names = data.session_choices() if len(sessions) > 1 or wanted.session is not None else {}
    return {
        "choices": {name: _known_names(data, EVENT_FILTERS[name], found) for name, found in counts.items()},
        "sessions": [
            SessionChoice(unquote(session_segment(names[number])), names[number], times)
            for number, times in sorted(sessions.items())
            if number in names
        ],
        "folded": folded,
    }


def _known_names(data: RunPageData, field: str, found: dict[str, int]) -> dict[str, int]:
    """Return names to filter by, the most frequent first, without those that the viewer may not see.

    A name with invisible characters would come back changed, so it is left out.
    """
    shown = {
        name: times
        for name, times in found.items()
        if len(name) <= MAX_NAME
        and sanitize_for_page(name) == name
        and (not data.is_anonymous or anonymous_name(field, name) == name)
    }
    return dict(sorted(shown.items(), key=lambda item: (-item[1], item[0]))[:MAX_NAMES])


def citing_findings(data: RunPageData, event_ids: Iterable[str]) -> dict[str, list[Finding]]:
    """Return the findings that cite events, by the ids of the events."""
    shown = set(event_ids)
    citing: dict[str, list[Finding]] = {}
    for finding in data.findings:
        for event_id in shown.intersection(finding.cited_events):
            citing.setdefault(event_id, []).append(finding)
    return citing


def _severities(findings: list[Finding]) -> dict[str, int]:
    """Return the number of findings of each severity, the worst first."""
    found = [finding.severity for finding in findings]
    return {severity: found.count(severity) for severity in SEVERITIES if severity in found}


def _primary(data: RunPageData) -> Finding | None:
    primary = data.diagnosis.primary_diagnosis if data.diagnosis else None
    return next((finding for finding in data.findings if primary and finding.id == primary.finding_id), None)


def _sessions(data: RunPageData) -> VerdictTable | None:
    """Return the verdict on each session; None if there are not several."""
    if data.diagnosis is None or data.verdict is None or not data.diagnosis.has_several_sessions:
        return None
    return verdict_table(data.diagnosis, data.verdict)


def _asked(data: RunPageData) -> dict[str | None, str]:
    """Return what users asked first, by the names of sessions; empty without an index or for an anonymous viewer."""
    if data.index() is None or data.diagnosis is None or not data.diagnosis.has_several_sessions:
        return {}
    try:
        sessions = data.conversations.sessions()
        texts = data.message_texts(each.request for each in sessions if each.request is not None)
    except BrokenRecordError:
        return {}  # the diagnosis can still be read
    return {each.key: texts[each.request] for each in sessions if each.request in texts}


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
    pieces = answer.pieces if answer else ()
    supported = sum(claim.status == "supported" for piece in pieces for claim in piece.claims)
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


def _compactions(data: RunPageData, session: int | None) -> list[str]:
    index = data.index()
    if index is None:
        return []
    found = index.find(EventFilter(event_type="compaction_end", session=session), 0, MAX_COMPACTIONS)
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
