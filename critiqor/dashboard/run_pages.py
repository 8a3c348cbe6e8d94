"""Pages about one run: what it came to, why, and the proof."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from critiqor.dashboard.event_index import EventFilter
from critiqor.dashboard.paging import Pages, page_number
from critiqor.dashboard.showing import PAGE, Showing
from critiqor.dashboard.site import Site
from critiqor.dashboard.wording import segment, visible
from critiqor.errors import BrokenRecordError
from critiqor.model import Diagnosis, Finding
from critiqor.model.event import place_of

FINDINGS = 20
"""Findings on one page."""
MOST_CITED = 12
"""Events of one finding that are shown with what they say."""
MOST_NODES = 150
"""Nodes of a causal graph that is drawn."""
FILTERS = {"type": "event_type", "layer": "source_layer", "tool": "tool_name", "status": "status"}
"""Filters of the evidence, by their names in the address."""


class RunPages:
    """The pages of a run, except those that have a module of their own."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def overview(self, request: Request) -> Response:
        """Can it be trusted, what was the problem, what now."""
        showing = self._site.showing(request)
        # Whoever comes here looks at events next.
        showing.index()
        return self._page(request, showing, "overview.html", "", notes=_notes(showing))

    def diagnosis(self, request: Request) -> Response:
        """Findings with their chains and the very events, and the causal graph."""
        showing = self._site.showing(request)
        found = showing.diagnosis.failure_analysis.findings if showing.diagnosis else []
        asked = page_number(request.query_params.get("page"))
        pages = Pages(asked, FINDINGS, len(found), f"/runs/{showing.run_id}/diagnosis", "")
        shown = found[pages.offset : pages.offset + FINDINGS]
        cited = {event_id: event for finding in shown for event_id, event in _cited(showing, finding).items()}
        graph = _graph(showing.run_id, showing.diagnosis) if showing.diagnosis else None
        return self._page(
            request, showing, "diagnosis.html", "diagnosis", findings=shown, pages=pages, cited=cited, graph=graph
        )

    def evidence(self, request: Request) -> Response:
        """Every event, filtered and searched, a page at a time."""
        showing = self._site.showing(request)
        asked = request.query_params
        text = asked.get("q", "").strip()
        if place_of(text) is not None and showing.event(text) is not None:
            return RedirectResponse(f"/runs/{showing.run_id}/events/{segment(text)}", status_code=303)
        names = {field: asked.get(name, "") for name, field in FILTERS.items()}
        wanted = EventFilter(**names, text=text)
        page = page_number(asked.get("page"))
        found = showing.events(wanted, page)
        query = {name: asked[name] for name in (*FILTERS, "q") if asked.get(name)}
        return self._page(
            request,
            showing,
            "evidence.html",
            "evidence",
            found=found,
            wanted=wanted,
            pages=Pages(page, PAGE, found.total, f"/runs/{showing.run_id}/evidence", urlencode(query)),
            choices={name: _choices(showing, field) for name, field in FILTERS.items()},
            chosen={name: names[field] for name, field in FILTERS.items()},
            is_indexed=not showing.is_sealed or showing.index() is not None,
            coverage=showing.coverage(),
        )

    def event(self, request: Request) -> Response:
        """One event, whole."""
        showing = self._site.showing(request)
        event_id = request.path_params["event_id"]
        found = showing.event(event_id)
        line = None if found else showing.timeline_line(event_id)
        if found is None and line is None:
            raise HTTPException(404, "The evidence holds no such event.")
        findings = showing.diagnosis.failure_analysis.findings if showing.diagnosis else []
        citing = [finding for finding in findings if event_id in _events_of(finding)]
        content = msgspec.to_builtins(found.event) if found else line
        return self._page(
            request,
            showing,
            "event.html",
            "evidence",
            found=found,
            event_id=event_id,
            content=content,
            citing=citing,
            page=1 if found is None else (found.number - 1) // PAGE + 1,
        )

    def raw_event(self, request: Request) -> Response:
        """One event as JSON."""
        found = self._site.showing(request).event(request.path_params["event_id"])
        if found is None:
            raise HTTPException(404, "The evidence holds no such event.")
        return Response(msgspec.json.encode(found.event), media_type="application/json")

    def cost(self, request: Request) -> Response:
        """Tokens and money by model, tool and turn."""
        return self._page(request, self._site.showing(request), "cost.html", "cost")

    def context(self, request: Request) -> Response:
        """How memory was used, and the size of requests against the budget."""
        showing = self._site.showing(request)
        requests = showing.diagnosis.context_analysis.requests if showing.diagnosis else []
        series = {
            "call": list(range(1, len(requests) + 1)),
            "input": [each.input_tokens for each in requests],
            "budget": [each.budget_tokens for each in requests],
        }
        return self._page(request, showing, "context.html", "context", series=series)

    def playbook(self, request: Request) -> Response:
        """What to change, and how to see that it worked."""
        return self._page(request, self._site.showing(request), "playbook.html", "playbook")

    def _page(self, request: Request, showing: Showing, template: str, name: str, **told: Any) -> Response:
        return self._site.page(request, template, showing=showing, current=name, diagnosis=showing.diagnosis, **told)


def _choices(showing: Showing, field: str) -> dict[str, int]:
    """Names to filter by. One with signs that cannot be shown as they are would come back as another."""
    return {name: times for name, times in showing.names(field).items() if visible(name) == name}


def _notes(showing: Showing) -> list[str]:
    try:
        coverage = showing.coverage()
    except BrokenRecordError as error:
        # What was concluded can still be read.
        return ["The evidence cannot be read."] if showing.is_anonymous else [f"{error.message}: {error.fix}"]
    return coverage.notes if coverage is not None else []


def _events_of(finding: Finding) -> set[str]:
    return {*finding.evidence, *(step.event_id for step in finding.causal_chain)}


def _cited(showing: Showing, finding: Finding) -> dict[str, Any]:
    """The first events of a finding, where they can be had at once."""
    index = showing.index()
    if index is None:
        return {}
    names = dict.fromkeys([*(step.event_id for step in finding.causal_chain), *finding.evidence])
    found = {name: showing.event(name) for name in list(names)[:MOST_CITED]}
    return {name: numbered.event for name, numbered in found.items() if numbered is not None}


def _graph(run_id: str, diagnosis: Diagnosis) -> dict[str, Any] | None:
    """The causal graph as the picture takes it; None where there is nothing to draw."""
    nodes = diagnosis.causal_graph.nodes[:MOST_NODES]
    drawn = {node.id for node in nodes}
    if not nodes:
        return None
    severities = {finding.id: finding.severity for finding in diagnosis.failure_analysis.findings}
    return {
        "nodes": [
            {
                "id": node.id,
                "kind": node.kind,
                "label": node.label[:120],
                "severity": severities.get(node.id, ""),
                "href": f"#{node.id}" if node.kind == "finding" else f"/runs/{run_id}/events/{segment(node.id)}",
            }
            for node in nodes
        ],
        "edges": [
            {"source": edge.source, "target": edge.target, "relation": edge.relation}
            for edge in diagnosis.causal_graph.edges
            if edge.source in drawn and edge.target in drawn
        ],
        "left_out": len(diagnosis.causal_graph.nodes) - len(nodes),
    }
