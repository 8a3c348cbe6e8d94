"""The ways in: the link that was opened, a shared link, and the front door."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.web.access import Viewer
from critiqor.errors import CritiqorError

INVALID = "This link is not valid any more."


class Login:
    """Exchange the token of a link for a cookie, so that it stands in no further address."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def front(self, request: Request) -> Response:
        """The list of runs, or the one run that a shared link leads to."""
        viewer = self._site.viewer(request)
        return RedirectResponse(f"/runs/{viewer.run_id}" if viewer.run_id else "/runs", status_code=303)

    def open(self, request: Request) -> Response:
        """The link that `critiqor dashboard` has opened."""
        token, run_id = request.query_params.get("token", ""), request.query_params.get("run")
        if not self._is_of_user(token):
            raise HTTPException(403, INVALID)
        if run_id is not None:
            self._site.paths.run_path(run_id)  # refuses what is no run id
        return self._entered(request, token, f"/runs/{run_id}" if run_id else "/runs")

    def share(self, request: Request) -> Response:
        """A link to one run."""
        token = request.path_params["token"]
        run_id = self._site.links.run_of(token)
        if run_id is None:
            raise HTTPException(403, INVALID)
        viewer: Viewer | None = request.state.viewer
        if viewer is not None and viewer.is_user:
            # Whoever tries his own link must not lose what he may see because of it.
            return RedirectResponse(f"/runs/{run_id}", status_code=303)
        return self._entered(request, token, f"/runs/{run_id}")

    def _is_of_user(self, token: str) -> bool:
        try:
            viewer = self._site.access.viewer(token)
        except CritiqorError:
            return False
        return viewer is not None and viewer.is_user

    def _entered(self, request: Request, token: str, target: str) -> Response:
        # Not a redirect: browsers do not send a strict cookie along one that another site has begun.
        response = self._site.page(request, "entered.html", target=target)
        response.set_cookie(self._site.cookie, token, httponly=True, samesite="strict", path="/")
        return response
