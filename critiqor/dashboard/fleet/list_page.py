"""The list of the fleet's runs, filtered, sorted and paged in the index."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from critiqor.dashboard.fleet.requests import SORTS, filters_of, query_of, shown_tenants
from critiqor.dashboard.fleet.source import Fleet
from critiqor.dashboard.fleet.stored_runs import stored_address
from critiqor.dashboard.pages.paging import Pages, page_number
from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.pages.sorting import Sorting
from critiqor.fleet.views.run_names import exact_name, run_names
from critiqor.model.diagnosis import READINESSES

ROWS = 50
PATH = "/fleet/runs"


class FleetListPage:
    """`/fleet/runs?host=…&agent=…&verdict=…&sort=…&page=…`, for the user only."""

    def __init__(self, site: Site, fleet: Fleet) -> None:
        self._site = site
        self._fleet = fleet

    def page(self, request: Request) -> Response:
        """Show the runs of all hosts, newest first."""
        viewer = self._site.user(request)
        index = self._fleet.index(viewer)
        filters = filters_of(request.query_params)
        number = page_number(request.query_params.get("page"))
        total = index.count(query_of(filters, ROWS))
        pages = Pages(number, ROWS, total, PATH, urlencode(filters)).within()
        rows = index.runs(query_of(filters, ROWS, pages.offset))
        return self._site.page(
            request,
            "fleet_runs.html",
            current_part="runs",
            filters=filters,
            rows=rows,
            names=run_names(rows),
            exact_names={row.id: exact_name(row) for row in rows},
            addresses={row.id: stored_address(row) for row in rows},
            pages=pages,
            sorting=Sorting(PATH, filters, SORTS),
            verdict_names=READINESSES,
            versions=list(index.versions()),
            tenants=shown_tenants(viewer),
        )
