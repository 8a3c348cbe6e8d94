"""Pages about one run: what it came to, why, and the proof."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from critiqor.dashboard.data import view_models as contents
from critiqor.dashboard.data.event_index import EventFilter
from critiqor.dashboard.data.run_view import PAGE, Showing
from critiqor.dashboard.data.search_terms import Search
from critiqor.dashboard.pages.paging import Pages, page_number
from critiqor.dashboard.pages.run_addresses import FINDINGS
from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.render.formatting import visible
from critiqor.exporters.findings import cited_by
from critiqor.model.event import place_of

FILTERS = {"type": "event_type", "layer": "source_layer", "tool": "tool_name", "status": "status"}
"""Filters of the evidence, by their names in the address."""


class RunPages:
    """The pages of a run, except those that have a module of their own."""

    def __init__(self, site: Site, findings: int = FINDINGS) -> None:
        self._site = site
        self._findings = findings
        """On one page."""

    def overview(self, request: Request) -> Response:
        """Can it be trusted, what was the problem, what now."""
        showing = self._site.showing(request)
        return self._page(request, showing, "overview.html", "", **contents.overview(showing))

    def diagnosis(self, request: Request) -> Response:
        """Findings with their chains and the very events, and the causal graph."""
        showing = self._site.showing(request)
        told = contents.diagnosis(showing, page_number(request.query_params.get("page")), self._findings)
        return self._page(request, showing, "diagnosis.html", "diagnosis", **told)

    def evidence(self, request: Request) -> Response:
        """Every event, filtered and searched, a page at a time."""
        showing = self._site.showing(request)
        asked = request.query_params
        text = asked.get("q", "").strip()
        if place_of(text) is not None and showing.event(text) is not None and (event := showing.at.event(text)):
            return RedirectResponse(event, status_code=303)
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
            search=Search(text).pattern,
            query=query,
            pages=Pages(page, PAGE, found.total, showing.at.page("evidence"), urlencode(query)),
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
        return self._page(
            request,
            showing,
            "event.html",
            "evidence",
            found=found,
            event_id=event_id,
            content=msgspec.to_builtins(found.event) if found else line,
            citing=[finding for finding in showing.findings if event_id in cited_by(finding)],
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
        showing = self._site.showing(request)
        return self._page(request, showing, "cost.html", "cost", **contents.cost(showing))

    def context(self, request: Request) -> Response:
        """How memory was used, and the size of requests against the budget."""
        showing = self._site.showing(request)
        return self._page(request, showing, "context.html", "context", **contents.context(showing))

    def playbook(self, request: Request) -> Response:
        """What to change, and how to see that it worked."""
        return self._page(request, self._site.showing(request), "playbook.html", "playbook")

    def _page(self, request: Request, showing: Showing, template: str, name: str, **told: Any) -> Response:
        return self._site.page(request, template, showing=showing, current=name, diagnosis=showing.diagnosis, **told)


def _choices(showing: Showing, field: str) -> dict[str, int]:
    """Names to filter by. One with signs that cannot be shown as they are would come back as another."""
    return {name: times for name, times in showing.names(field).items() if visible(name) == name}
