"""Login: exchange the token of the opened link or of a shared link for a cookie."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from critiqor.dashboard.pages.site import Site
from critiqor.errors import CritiqorError
from critiqor.privacy.visibility import Viewer

INVALID = "This link is no longer valid."


class Login:
    """The routes that set the cookie, so that the token appears in no further address."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def front(self, request: Request) -> Response:
        """Redirect `/` to the fleet, the list of runs, or the run of a shared link."""
        viewer = self._site.viewer(request)
        return RedirectResponse(f"/runs/{viewer.run_id}" if viewer.run_id else self._first_page, status_code=303)

    def open(self, request: Request) -> Response:
        """Log in with the link that `critiqor dashboard` opened."""
        token, run_id = request.query_params.get("token", ""), request.query_params.get("run")
        if not self._is_user_token(token):
            raise HTTPException(403, INVALID)
        return self._set_cookie(request, token, self._address(run_id) if run_id is not None else self._first_page)

    def _address(self, run_id: str) -> str:
        """Return the address of a run. Raise an error if the name is not one of a run."""
        if self._site.fleet is not None and "/" in run_id:
            from critiqor.fleet.reference import parse_reference

            return f"/fleet/runs/{parse_reference(run_id)}"
        self._site.store.paths.run_path(run_id)  # raises if it is not a run id
        return f"/runs/{run_id}"

    @property
    def _first_page(self) -> str:
        return "/runs" if self._site.fleet is None else "/fleet"

    def share(self, request: Request) -> Response:
        """Log in with a link to one run."""
        token = request.path_params["token"]
        run_id = self._site.links.run_of(token)
        if run_id is None:
            raise HTTPException(403, INVALID)
        viewer: Viewer | None = request.state.viewer
        if viewer is not None and viewer.is_user:
            # A user who opens a shared link keeps the user's own permissions.
            return RedirectResponse(f"/runs/{run_id}", status_code=303)
        return self._set_cookie(request, token, f"/runs/{run_id}")

    def _is_user_token(self, token: str) -> bool:
        try:
            viewer = self._site.access.viewer(token)
        except CritiqorError:
            return False
        return viewer is not None and viewer.is_user

    def _set_cookie(self, request: Request, token: str, target: str) -> Response:
        # Not a redirect: browsers do not send a strict cookie after a redirect that another site started.
        response = self._site.page(request, "entered.html", target=target)
        response.set_cookie(self._site.cookie, token, httponly=True, samesite="strict", path="/")
        return response
