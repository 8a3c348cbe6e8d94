"""What the pages of a run tell, gathered from one showing, whoever draws them."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from critiqor.dashboard.data.event_index import EventFilter
from critiqor.dashboard.data.run_view import Showing
from critiqor.dashboard.pages.paging import Pages
from critiqor.dashboard.render.causal_drawing import visible_graph
from critiqor.dashboard.render.lane_drawing import SMALL, Drawing, draw, whole_run
from critiqor.errors import BrokenRecordError
from critiqor.exporters.findings import cited_by, first_step
from critiqor.model import Diagnosis, Event, Finding
from critiqor.model.diagnosis import SEVERITIES

MOST_CITED = 12
"""Events of one finding that are shown with what they say."""


def overview(showing: Showing) -> dict[str, Any]:
    """Can it be trusted, what was the problem, what now."""
    primary = _primary(showing)
    begin = first_step(primary) if primary else ""
    return {
        "primary": primary,
        "first_bad": begin,
        "first_bad_event": _at_once(showing, [begin]).get(begin),
        "drawing": _small_drawing(showing),
        "notes": _notes(showing),
        "doubt": showing.doubt(),
        "severities": _severities(showing.findings),
    }


def diagnosis(showing: Showing, page: int, size: int) -> dict[str, Any]:
    """Findings with their chains and the very events, so many on a page, and the causal graph."""
    found = showing.findings
    pages = Pages(page, size, len(found), showing.at.page("diagnosis"), "").within()
    shown = found[pages.offset : pages.offset + size]
    return {
        "findings": shown,
        "pages": pages,
        "cited": {event_id: event for finding in shown for event_id, event in _cited(showing, finding).items()},
        "graph": _graph(showing, showing.diagnosis) if showing.diagnosis and pages.page == 1 else None,
        "severities": _severities(found),
    }


def cost(showing: Showing) -> dict[str, Any]:
    """When each turn began, by the id of its agent run; what it cost stands in the diagnosis."""
    timeline = showing.diagnosis.timeline if showing.diagnosis else None
    turns = timeline.turns if timeline is not None else []
    return {"began": {turn.agent_run_id: turn.started_at for turn in turns if turn.agent_run_id}}


def context(showing: Showing) -> dict[str, Any]:
    """The size of requests against the budget, with the compactions between them."""
    requests = showing.diagnosis.context_analysis.requests if showing.diagnosis else []
    ids = [each.event_id for each in requests]
    # Ids sort in the order of events, so that each says behind which request it was.
    behind = [bisect_left(ids, event_id) for event_id in _compactions(showing)] if ids else []
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
    """How many findings there are of each severity, the worst first."""
    found = [finding.severity for finding in findings]
    return {severity: found.count(severity) for severity in SEVERITIES if severity in found}


def _primary(showing: Showing) -> Finding | None:
    told = showing.diagnosis.primary_diagnosis if showing.diagnosis else None
    return next((finding for finding in showing.findings if told and finding.id == told.finding_id), None)


def _small_drawing(showing: Showing) -> Drawing | None:
    window = whole_run(showing)
    return None if window is None else draw(showing, window, SMALL)


def _notes(showing: Showing) -> list[str]:
    try:
        coverage = showing.coverage()
    except BrokenRecordError as error:
        # What was concluded can still be read.
        return [showing.why_unreadable(error)]
    return coverage.notes if coverage is not None else []


def _compactions(showing: Showing) -> list[str]:
    if showing.index() is None:
        return []
    found = showing.events(EventFilter(event_type="compaction_end"), 1)
    return [each.event.event_id for each in found.events]


def _cited(showing: Showing, finding: Finding) -> dict[str, Event]:
    """The first events of a finding."""
    return _at_once(showing, cited_by(finding)[:MOST_CITED])


def _at_once(showing: Showing, names: list[str]) -> dict[str, Event]:
    """Events by their ids, where they can be had without reading everything."""
    if showing.index() is None:
        return {}
    found = {name: showing.event(name) for name in names}
    return {name: numbered.event for name, numbered in found.items() if numbered is not None}


def _graph(showing: Showing, concluded: Diagnosis) -> dict[str, Any] | None:
    """The causal graph as the script of the page takes it; None where there is nothing to draw."""
    graph = visible_graph(concluded)
    if graph is None:
        return None
    return {
        "nodes": [
            {
                "id": node.id,
                "kind": node.kind,
                "label": node.label[:120],
                "severity": graph.severities.get(node.id, ""),
                "href": showing.at.finding(node.id) if node.kind == "finding" else showing.at.event(node.id),
            }
            for node in graph.nodes
        ],
        "edges": [{"source": edge.source, "target": edge.target, "relation": edge.relation} for edge in graph.edges],
        "left_out": graph.left_out,
    }
