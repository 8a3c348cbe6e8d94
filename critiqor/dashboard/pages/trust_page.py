"""What was captured, redacted and left out; whether it is still as it was sealed; and who may see it."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from critiqor.dashboard.data.run_view import Showing
from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.web.links import change_run_visibility
from critiqor.errors import BrokenRecordError
from critiqor.model import Coverage
from critiqor.run.visibility import MEANING
from critiqor.storage.verification import Verification, verify_run

_LINKED = ("shared", "anonymous", "public")


class TrustPage:
    """`/runs/{run}/trust`, where it is changed who may see a run, and links are made and revoked."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def page(self, request: Request) -> Response:
        showing = self._site.showing(request)
        return self._shown(request, showing, verified="verify" in request.query_params)

    def publish(self, request: Request) -> Response:
        """Change who may see the run; the address says how, so that no body needs to be read."""
        self._site.user(request)
        showing = self._site.showing(request)
        change_run_visibility(self._site.paths, showing.run_id, request.path_params["visibility"])
        return RedirectResponse(f"/runs/{showing.run_id}/trust#visibility", status_code=303)

    def make_link(self, request: Request) -> Response:
        """Make a link, and show it once: it is kept nowhere."""
        self._site.user(request)
        showing = self._site.showing(request)
        if showing.head["metadata"]["visibility"] not in _LINKED:
            raise HTTPException(409, "A private run is not shared.")
        token = self._site.links.make(showing.run_id)
        return self._shown(request, showing, link=f"{self._site.address}/share/{token}")

    def revoke_link(self, request: Request) -> Response:
        self._site.user(request)
        showing = self._site.showing(request)
        self._site.links.revoke(showing.run_id, request.path_params["link_id"])
        return RedirectResponse(f"/runs/{showing.run_id}/trust#links", status_code=303)

    def _shown(
        self, request: Request, showing: Showing, *, verified: bool = False, link: str | None = None
    ) -> Response:
        is_user = self._site.viewer(request).is_user
        coverage, problem = _captured(showing)
        visibility = showing.head["metadata"]["visibility"]
        return self._site.page(
            request,
            "trust.html",
            showing=showing,
            current="trust",
            diagnosis=showing.diagnosis,
            coverage=coverage,
            problem=problem,
            types=showing.names("event_type"),
            verification=self._verified(showing) if verified and is_user else None,
            links=self._site.links.of_run(showing.run_id) if is_user else [],
            link=link,
            reach=self._reach(),
            may_link=is_user and visibility in _LINKED,
            who=MEANING[visibility],
            meanings=MEANING,
            changes=showing.head["visibility_changes"] if is_user else [],
            needs_token=self._site.access.is_token_required,
        )

    def _reach(self) -> dict[str, str | bool | int]:
        """From where links lead here, and what must run for that."""
        place, port = self._site.place, self._site.port
        host = "" if place.is_loopback else f" --host {place.name}"
        token = " --require-token" if self._site.access.is_token_required else ""
        command = f"critiqor dashboard{host} --port {port}{token} --no-browser"
        return {"is_here_alone": place.is_loopback, "port": port, "command": command}

    def _verified(self, showing: Showing) -> Verification | None:
        return verify_run(self._site.paths, showing.run_id) if showing.is_sealed else None


def _captured(showing: Showing) -> tuple[Coverage | None, str | None]:
    """What the recorder saw, or why that cannot be read. Who may see the run can be changed in either case."""
    try:
        return showing.coverage(), None
    except BrokenRecordError as error:
        return None, showing.why_unreadable(error)
