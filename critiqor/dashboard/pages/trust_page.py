"""The Trust and privacy page: coverage and redaction, seal, visibility and links of a run."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from critiqor.dashboard.data.run_page_data import RunPageData
from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.web.links import change_run_visibility
from critiqor.errors import BrokenRecordError
from critiqor.model import Coverage
from critiqor.privacy.visibility import MEANINGS

_LINKED = ("shared", "anonymous", "public")


class TrustPage:
    """`/runs/{run}/trust`: shows the seal, changes the visibility, makes and revokes links."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def page(self, request: Request) -> Response:
        data = self._site.run_data(request)
        return self._render(request, data, verified="verify" in request.query_params)

    def publish(self, request: Request) -> Response:
        """Change the visibility; the address names the new one, so no request body is read."""
        self._site.user(request)
        data = self._site.run_data(request)
        change_run_visibility(data.view.run, request.path_params["visibility"])
        return RedirectResponse(f"/runs/{data.run_id}/trust#visibility", status_code=303)

    def make_link(self, request: Request) -> Response:
        """Make a link and show it once; its token is not stored."""
        self._site.user(request)
        data = self._site.run_data(request)
        if data.head.metadata.visibility not in _LINKED:
            raise HTTPException(409, "A private run cannot have links. Change its visibility to shared first.")
        token = self._site.links.make(data.run_id)
        return self._render(request, data, link=f"{self._site.address}/share/{token}")

    def revoke_link(self, request: Request) -> Response:
        """Revoke a link."""
        self._site.user(request)
        data = self._site.run_data(request)
        self._site.links.revoke(data.run_id, request.path_params["link_id"])
        return RedirectResponse(f"/runs/{data.run_id}/trust#links", status_code=303)

    def _render(
        self, request: Request, data: RunPageData, *, verified: bool = False, link: str | None = None
    ) -> Response:
        is_user = self._site.viewer(request).is_user
        may_change = is_user and data.stored is None
        coverage, problem = _captured(data)
        visibility = data.head.metadata.visibility
        return self._site.page(
            request,
            "trust.html",
            run_data=data,
            current="trust",
            diagnosis=data.diagnosis,
            coverage=coverage,
            problem=problem,
            types=data.names("event_type"),
            verification=data.view.run.verify() if verified and is_user and data.is_sealed else None,
            links=self._site.links.of_run(data.run_id) if may_change else [],
            link=link,
            reach=self._reach(),
            may_link=may_change and visibility in _LINKED,
            who=MEANINGS[visibility],
            meanings=MEANINGS,
            changes=data.head.visibility_changes if is_user else [],
            needs_token=self._site.access.is_token_required,
        )

    def _reach(self) -> dict[str, str | bool | int]:
        """Return whether links open on this machine only, the port, and the command that serves them."""
        place, port = self._site.place, self._site.port
        host = "" if place.is_loopback else f" --host {place.name}"
        token = " --require-token" if self._site.access.is_token_required else ""
        command = f"critiqor dashboard{host} --port {port}{token} --no-browser"
        return {"is_local_only": place.is_loopback, "port": port, "command": command}


def _captured(data: RunPageData) -> tuple[Coverage | None, str | None]:
    """Return the coverage, or why it cannot be read. The visibility can be changed in either case."""
    try:
        return data.coverage(), None
    except BrokenRecordError as error:
        return None, data.why_unreadable(error)
