"""The page of a run of which only structure was pushed: what the index knows, because the store has no evidence."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from critiqor.dashboard.pages.site import Site
from critiqor.fleet.index.fleet_index import FleetIndex
from critiqor.fleet.index.rows import IndexedRun

_OVERVIEW_PARTS = 4
"""Number of parts of the address of an overview: fleet, runs, host, run."""


def show_structure(site: Site, index: FleetIndex, run: IndexedRun, request: Request) -> Response:
    """Show the overview of a run. Its other pages do not exist."""
    if len(request.url.path.strip("/").split("/")) > _OVERVIEW_PARTS:
        message = "Only structure and numbers of this run were pushed: its evidence is on its own machine."
        raise HTTPException(404, message)
    return site.page(
        request,
        "fleet_structure.html",
        current_part="",
        run=run,
        sessions=index.sessions(run),
        findings=index.findings(run),
    )
