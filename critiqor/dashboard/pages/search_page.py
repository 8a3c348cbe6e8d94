"""The search in the content of all runs."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from critiqor.dashboard.data.run_catalog import RunRow
from critiqor.dashboard.pages.run_addresses import RunAddresses
from critiqor.dashboard.pages.site import Site
from critiqor.errors import CritiqorError
from critiqor.model import Event
from critiqor.search.index import RunHits, SearchIndex
from critiqor.search.terms import Search, matching_excerpt

MAX_RUNS = 50
"""Maximum number of runs that are shown."""
INDEXED_AT_ONCE = 20
"""Number of new runs that one request adds to the index."""


class FoundText(NamedTuple):
    """A text with a match."""

    address: str
    """Its place in the run."""
    text: str
    event: Event | None = None
    """The event that it comes from."""
    kind: str = ""
    """What it is, if no event is known."""


class FoundRun(NamedTuple):
    """A run with matches."""

    name: str
    address: str
    readiness: str | None
    created_at: str
    about: str
    """What the run is about."""
    matches: int
    texts: list[FoundText]


class SearchPage:
    """`/search?q=…`, for the user only."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._index = SearchIndex(site.store)

    def page(self, request: Request) -> Response:
        """Show the runs of the viewer that contain all words of a search."""
        viewer = self._site.user(request)
        text = request.query_params.get("q", "").strip()
        rows = {row.run_id: row for row in self._site.catalog.rows(viewer)}
        missing, problem = 0, None
        try:
            missing = self._index.update(INDEXED_AT_ONCE)
        except CritiqorError as error:
            problem = error  # what is indexed already is found
        found = [_found(hits, rows[hits.run_id], text) for hits in self._index.find(text, rows.keys())]
        found.sort(key=lambda each: each.created_at, reverse=True)
        return self._site.page(
            request,
            "search.html",
            is_fleet=False,
            action="/search",
            label="Words of a message, a command or a result",
            text=text,
            found=found[:MAX_RUNS],
            total=len(found),
            missing=missing,
            problem=problem,
            search=Search(text).pattern,
        )


def _found(hits: RunHits, row: RunRow, text: str) -> FoundRun:
    addresses = RunAddresses(row.run_id)
    texts = [
        FoundText(addresses.session(event.session_key, event.event_id), matching_excerpt(event, text), event)
        for event in hits.events
    ]
    return FoundRun(row.run_id, addresses.page(), row.readiness, row.created_at, row.task, hits.matches, texts)
