"""The routes of the fleet's pages. They have threads of their own: other pages do not wait for a store that is away."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from critiqor.dashboard.fleet.comparison_page import FleetComparisonPage
from critiqor.dashboard.fleet.list_page import FleetListPage
from critiqor.dashboard.fleet.overview_page import FleetOverviewPage
from critiqor.dashboard.fleet.search_page import FleetSearchPage
from critiqor.dashboard.fleet.source import Fleet
from critiqor.dashboard.fleet.structure_page import show_structure
from critiqor.dashboard.pages.site import Site
from critiqor.fleet.errors import FleetUnavailableError

THREADS = 8
Page = Callable[[Request], Response]


def fleet_routes(site: Site, fleet: Fleet, run_pages: Mapping[str, Page]) -> list[Route]:
    """Return the routes: the fleet, its runs, a search, and the pages of each run by the ends of their addresses."""
    threads = _Threads()
    pages: dict[str, Page] = {
        "/fleet": FleetOverviewPage(site, fleet).page,
        "/fleet/runs": FleetListPage(site, fleet).page,
        "/fleet/search": FleetSearchPage(site, fleet).page,
        "/fleet/compare": FleetComparisonPage(site, fleet).page,
    }
    for end, page in run_pages.items():
        pages[f"/fleet/runs/{{host}}/{{run}}{end}"] = partial(_show_stored, site, fleet, page)
    return [Route(path, threads.serve(page)) for path, page in pages.items()]


def _show_stored(site: Site, fleet: Fleet, page: Page, request: Request) -> Response:
    """Show a page of a run in the store, which stays unpacked until the page is made."""
    host, run = request.path_params["host"], request.path_params["run"]
    viewer = site.user(request)
    row = fleet.find(viewer, host, run)
    if row.content == "structure":
        return show_structure(site, fleet.index(viewer), row, request)
    with fleet.opened(row) as opened:
        request.state.stored_run = opened
        return page(request)


class _Threads:
    """The threads in which pages of the fleet wait for index and store."""

    def __init__(self) -> None:
        self._limiter: CapacityLimiter | None = None

    def serve(self, page: Page) -> Callable[[Request], object]:
        """Return an endpoint that makes a page in one of these threads."""

        async def endpoint(request: Request) -> Response:
            if self._limiter is None:
                self._limiter = CapacityLimiter(THREADS)
            return await to_thread.run_sync(_with_next_command, page, request, limiter=self._limiter)

        return endpoint


def _with_next_command(page: Page, request: Request) -> Response:
    try:
        return page(request)
    except FleetUnavailableError as error:
        # What the error suggests is for those who push.
        raise FleetUnavailableError(error.message, fix="critiqor fleet status") from error
