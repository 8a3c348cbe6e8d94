"""What was captured, redacted and left out; whether it is still as it was sealed; and who may see it."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from critiqor.dashboard.showing import Showing
from critiqor.dashboard.site import Site
from critiqor.verification import Verification, verify_run

VISIBILITY = {
    "private": "Only you, with the link that `critiqor dashboard` opens.",
    "shared": "You, and whoever holds a link to this run. A link can be revoked.",
    "anonymous": (
        "You see everything. Everybody else who reaches this address sees structure and figures: the agent, the "
        "tenant, paths, messages and payload texts are removed."
    ),
    "public": "Everybody who reaches this address.",
}
_LINKED = ("shared", "anonymous", "public")


class TrustPage:
    """`/runs/{run}/trust`, and the links that are made and revoked there."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def page(self, request: Request) -> Response:
        showing = self._site.showing(request)
        return self._shown(request, showing, verified="verify" in request.query_params)

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
        visibility = showing.head["metadata"]["visibility"]
        return self._site.page(
            request,
            "trust.html",
            showing=showing,
            current="trust",
            diagnosis=showing.diagnosis,
            coverage=showing.coverage(),
            types=showing.names("event_type"),
            verification=self._verified(showing) if verified and is_user else None,
            links=self._site.links.of_run(showing.run_id) if is_user else [],
            link=link,
            may_link=is_user and visibility in _LINKED,
            who=VISIBILITY[visibility],
        )

    def _verified(self, showing: Showing) -> Verification | None:
        return verify_run(self._site.paths, showing.run_id) if showing.is_sealed else None
