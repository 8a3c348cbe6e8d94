"""The pages of one run: overview, diagnosis, evidence, cost, context and playbook."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from critiqor.dashboard.data import page_values
from critiqor.dashboard.data.conversations import Conversations
from critiqor.dashboard.data.event_index import EventFilter
from critiqor.dashboard.data.run_page_data import PAGE, EventNeighbours, RunPageData
from critiqor.dashboard.pages.paging import Pages, page_number
from critiqor.dashboard.pages.run_addresses import FINDINGS, session_key_of
from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.render.event_content import event_contents
from critiqor.model.event import place_of
from critiqor.search.terms import Search

FILTERS = page_values.EVENT_FILTERS


class RunPages:
    """The pages of a run that are not in a separate module."""

    def __init__(self, site: Site, findings: int = FINDINGS) -> None:
        self._site = site
        self._findings = findings
        """Findings per page."""

    def overview(self, request: Request) -> Response:
        """Show the overview: verdict, main problem, next action."""
        data = self._site.run_data(request)
        return self._page(request, data, "overview.html", "", **page_values.overview_values(data))

    def diagnosis(self, request: Request) -> Response:
        """Show the findings with their causal chains and events, and the causal graph."""
        data = self._site.run_data(request)
        values = page_values.diagnosis_values(data, page_number(request.query_params.get("page")), self._findings)
        return self._page(request, data, "diagnosis.html", "diagnosis", **values)

    def evidence(self, request: Request) -> Response:
        """Show the events that match filters and search, a page at a time."""
        data = self._site.run_data(request)
        query_params = request.query_params
        text = query_params.get("q", "").strip()
        if place_of(text) is not None and data.event(text) is not None and (event := data.addresses.event(text)):
            return RedirectResponse(event, status_code=303)
        names = {field: query_params.get(name, "") for name, field in FILTERS.items()}
        session = self._session(request, data)
        is_indexed = data.index() is not None
        min_ms = 1000 * seconds_of(query_params.get("slow"))
        # A search or a type asks for certain events, and without an index the list is the evidence as it is.
        folds = is_indexed and not (text or names["event_type"] or min_ms or query_params.get("all"))
        wanted = EventFilter(**names, text=text, session=session, min_ms=min_ms, folds=folds)
        page = page_number(query_params.get("page"))
        found = data.events(wanted, page)
        kept = (*FILTERS, "q", "session", *(["slow"] if min_ms else []), "all")
        query = {name: query_params[name] for name in kept if query_params.get(name)}
        return self._page(
            request,
            data,
            "evidence.html",
            "evidence",
            found=found,
            wanted=wanted,
            search=Search(text).pattern,
            query=query,
            pages=Pages(page, PAGE, found.total, data.addresses.page("evidence"), urlencode(query)),
            chosen={name: names[field] for name, field in FILTERS.items()},
            is_indexed=not data.is_sealed or is_indexed,
            coverage=data.coverage(),
            citing=page_values.citing_findings(data, [each.event.event_id for each in found.events]),
            **page_values.evidence_choices(data, wanted),
        )

    def event(self, request: Request) -> Response:
        """Show one event with all its values."""
        data = self._site.run_data(request)
        event_id = request.path_params["event_id"]
        found = data.event(event_id)
        line = None if found else data.timeline_line(event_id)
        if found is None and line is None:
            raise HTTPException(404, "There is no such event in the evidence.")
        around = EventNeighbours() if found is None else data.around(found.number)
        other = data.event(around.counterpart) if around.counterpart is not None else None
        shown = [each for each in (found, other) if each is not None]
        return self._page(
            request,
            data,
            "event.html",
            "evidence",
            found=found,
            around=around,
            contents=[content for each in sorted(shown) for content in event_contents(each.event)],
            event_id=event_id,
            content=msgspec.to_builtins(found.event) if found else line,
            citing=[finding for finding in data.findings if event_id in finding.cited_events],
            page=1 if found is None else (found.number - 1) // PAGE + 1,
            session=None if found is None else data.session_of(found.number),
        )

    def raw_event(self, request: Request) -> Response:
        """Return one event as JSON."""
        found = self._site.run_data(request).event(request.path_params["event_id"])
        if found is None:
            raise HTTPException(404, "There is no such event in the evidence.")
        return Response(msgspec.json.encode(found.event), media_type="application/json")

    def cost(self, request: Request) -> Response:
        """Show tokens and money by model, tool and turn."""
        data = self._site.run_data(request)
        return self._page(request, data, "cost.html", "cost", **page_values.cost_values(data))

    def context(self, request: Request) -> Response:
        """Show the use of memory, and sizes of requests against the budget."""
        data = self._site.run_data(request)
        session = self._session(request, data)
        values = page_values.context_values(data, session)
        return self._page(request, data, "context.html", "context", **values, shown_session=session)

    def playbook(self, request: Request) -> Response:
        """Show what to change, and how to verify it."""
        return self._page(request, self._site.run_data(request), "playbook.html", "playbook")

    @staticmethod
    def _session(request: Request, data: RunPageData) -> int | None:
        """Return the number of the session that the address names; None if it names none."""
        segment = request.query_params.get("session")
        if not segment:
            return None
        session = Conversations(data).find(session_key_of(segment))
        if session is None:
            raise HTTPException(404, "There is no such session in this run.")
        return session.number

    def _page(self, request: Request, data: RunPageData, template: str, name: str, **values: Any) -> Response:
        return self._site.page(request, template, run_data=data, current=name, diagnosis=data.diagnosis, **values)


def seconds_of(text: str | None) -> float:
    """Return a number of seconds that a request names; 0 if there is none or it is invalid."""
    try:
        value = float(text or 0)
    except ValueError:
        return 0.0
    return value if 0 < value < 1e9 else 0.0
