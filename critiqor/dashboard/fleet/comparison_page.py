"""The comparison of two runs of the fleet, which are opened from the store."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from critiqor.dashboard.fleet.source import Fleet
from critiqor.dashboard.pages.comparison_page import picked_runs, show_comparison
from critiqor.dashboard.pages.site import Site
from critiqor.fleet.views.run_names import find_indexed


class FleetComparisonPage:
    """`/fleet/compare?run=HOST/RUN&run=HOST/RUN&calls=all&page=N`, for the user only."""

    def __init__(self, site: Site, fleet: Fleet) -> None:
        self._site = site
        self._fleet = fleet

    def page(self, request: Request) -> Response:
        """Return the page that compares two runs, the older one first."""
        viewer = self._site.user(request)
        index = self._fleet.index(viewer)
        rows = [find_indexed(index, name) for name in picked_runs(request)]
        if any(row.content == "structure" for row in rows):
            message = "Only structure and numbers of one of these runs were pushed: critiqor compare --fleet has those."
            raise HTTPException(404, message)
        if rows[0].id == rows[1].id:
            raise HTTPException(400, "Both names mean the same run.")
        with self._fleet.opened(rows[0]) as one, self._fleet.opened(rows[1]) as other:
            return show_comparison(self._site, request, one.page_data(viewer), other.page_data(viewer))
