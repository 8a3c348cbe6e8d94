"""View models: the values for the templates of the run pages, built from `RunPageData`."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from critiqor.dashboard.data.event_index import EventFilter
from critiqor.dashboard.data.run_page_data import RunPageData
from critiqor.dashboard.pages.paging import Pages
from critiqor.dashboard.render.causal_drawing import visible_graph
from critiqor.dashboard.render.lane_drawing import SMALL, Drawing, draw, whole_run
from critiqor.errors import BrokenRecordError
from critiqor.model import Diagnosis, Event, Finding
from critiqor.model.diagnosis import SEVERITIES

MAX_CITED = 12
"""Maximum number of events of one finding that are shown with their values."""


def overview(data: RunPageData) -> dict[str, Any]:
    """Return the values of the overview: verdict, main problem, next action."""
    primary = _primary(data)
    begin = primary.first_event if primary else ""
    return {
        "primary": primary,
        "first_bad": begin,
        "first_bad_event": _indexed_events(data, [begin]).get(begin),
        "drawing": _small_drawing(data),
        "notes": _notes(data),
        "doubt": None if data.diagnosis is None or data.view.integrity.is_intact else data.view.integrity.explanation,
        "severities": _severities(data.findings),
    }


def diagnosis(data: RunPageData, page: int, size: int) -> dict[str, Any]:
    """Return the findings of one page with their causal chains and events, and the causal graph."""
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


def cost(data: RunPageData) -> dict[str, Any]:
    """Return the values of the cost page: the start of each turn, by agent run id. Costs are in the diagnosis."""
    timeline = data.diagnosis.timeline if data.diagnosis else None
    turns = timeline.turns if timeline is not None else []
    return {"began": {turn.agent_run_id: turn.started_at for turn in turns if turn.agent_run_id}}


def context(data: RunPageData) -> dict[str, Any]:
    """Return the values of the context page: request sizes and budgets, with the compactions between them."""
    requests = data.diagnosis.context_analysis.requests if data.diagnosis else []
    ids = [each.event_id for each in requests]
    # Ids sort in the order of events, so the position among the ids says after which request a compaction happened.
    behind = [bisect_left(ids, event_id) for event_id in _compactions(data)] if ids else []
    return {
        "compacted_behind": {place: behind.count(place) for place in behind},
        "series": {
            "call": list(range(1, len(requests) + 1)),
            "input": [each.input_tokens for each in requests],
            "budget": [each.budget_tokens for each in requests],
            "compactions": behind,
        },
    }


def _severities(findings: list[Finding]) -> dict[str, int]:
    """Return the number of findings of each severity, the worst first."""
    found = [finding.severity for finding in findings]
    return {severity: found.count(severity) for severity in SEVERITIES if severity in found}


def _primary(data: RunPageData) -> Finding | None:
    primary = data.diagnosis.primary_diagnosis if data.diagnosis else None
    return next((finding for finding in data.findings if primary and finding.id == primary.finding_id), None)


def _small_drawing(data: RunPageData) -> Drawing | None:
    window = whole_run(data)
    return None if window is None else draw(data, window, SMALL)


def _notes(data: RunPageData) -> list[str]:
    try:
        coverage = data.coverage()
    except BrokenRecordError as error:
        # The diagnosis can still be read.
        return [data.why_unreadable(error)]
    return coverage.notes if coverage is not None else []


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


def _graph(data: RunPageData, diagnosis: Diagnosis) -> dict[str, Any] | None:
    """Return the causal graph for the script of the page; None if there is nothing to draw."""
    graph = visible_graph(diagnosis)
    if graph is None:
        return None
    return {
        "nodes": [
            {
                "id": node.id,
                "kind": node.kind,
                "label": node.label[:120],
                "severity": graph.severities.get(node.id, ""),
                "href": data.addresses.finding(node.id) if node.kind == "finding" else data.addresses.event(node.id),
            }
            for node in graph.nodes
        ],
        "edges": [{"source": edge.source, "target": edge.target, "relation": edge.relation} for edge in graph.edges],
        "left_out": graph.left_out,
    }
