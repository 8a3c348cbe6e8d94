"""The search in the texts of the fleet: requests, answers, claims and titles of findings."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from critiqor.dashboard.fleet.source import Fleet
from critiqor.dashboard.fleet.stored_runs import stored_address
from critiqor.dashboard.pages.run_addresses import RunAddresses
from critiqor.dashboard.pages.search_page import MAX_RUNS, FoundRun, FoundText
from critiqor.dashboard.pages.site import Site
from critiqor.fleet.index.rows import IndexedText, TextHits
from critiqor.fleet.views.run_names import run_names
from critiqor.search.terms import Search, excerpt_around


class FleetSearchPage:
    """`/fleet/search?q=…`, for the user only."""

    def __init__(self, site: Site, fleet: Fleet) -> None:
        self._site = site
        self._fleet = fleet

    def page(self, request: Request) -> Response:
        """Show the newest runs of all hosts that contain all words of a search."""
        index = self._fleet.index(self._site.user(request))
        text = request.query_params.get("q", "").strip()
        hits = index.search(text)
        names = run_names([each.run for each in hits])
        return self._site.page(
            request,
            "search.html",
            is_fleet=True,
            action="/fleet/search",
            label="Words of a first request, a last answer, a claim or a finding",
            text=text,
            found=[_found(each, names[each.run.id], text) for each in hits[:MAX_RUNS]],
            total=len(hits),
            missing=0,
            problem=None,
            search=Search(text).pattern,
        )


def _found(hits: TextHits, name: str, words: str) -> FoundRun:
    run = hits.run
    addresses = RunAddresses(run.run, overview=stored_address(run))
    texts = [
        FoundText(_address(text, addresses), excerpt_around(text.text, words), kind=text.kind) for text in hits.texts
    ]
    return FoundRun(name, addresses.page(), run.verdict, run.created_at, run.headline, hits.matches, texts)


def _address(text: IndexedText, addresses: RunAddresses) -> str:
    if text.kind == "finding":
        return addresses.finding(text.source)
    # Of a claim, the index knows the session only.
    return addresses.session(text.session_key, "" if text.kind == "claim" else text.source)
