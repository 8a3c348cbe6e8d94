"""What all pages share: the runs, who looks, and how a page is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from critiqor import __version__
from critiqor.dashboard.data.event_kinds import kind_of
from critiqor.dashboard.data.index_cache import IndexCache
from critiqor.dashboard.data.run_catalog import RunCatalog
from critiqor.dashboard.data.run_view import Showing, worth_reading
from critiqor.dashboard.render import formatting as wording
from critiqor.dashboard.web.access import Access, Viewer
from critiqor.dashboard.web.bind_address import LOOPBACK, BindAddress, resolve_host
from critiqor.dashboard.web.links import Links
from critiqor.model.formatting import counted
from critiqor.storage import SessionPaths

HERE = Path(__file__).parent.parent
HERE_ALONE = resolve_host(LOOPBACK)
RUN_PAGES = {
    "": "Overview",
    "diagnosis": "Diagnosis",
    "timeline": "Timeline",
    "evidence": "Evidence",
    "cost": "Cost",
    "context": "Memory and context",
    "playbook": "Playbook",
    "live": "Live",
    "trust": "Trust and privacy",
}
"""The pages of a run by the last part of their address."""


class Site:
    """The dashboard of one runs folder."""

    def __init__(
        self, paths: SessionPaths, port: int, place: BindAddress = HERE_ALONE, *, is_token_required: bool = False
    ) -> None:
        self.paths = paths
        self.port = port
        self.place = place
        self.library = RunCatalog(paths)
        self.shelf = IndexCache(paths)
        self.links = Links(paths)
        self.access = Access(self.links, is_token_required=is_token_required)
        # Cookies do not know ports: two dashboards at once must not overwrite each other's.
        self.cookie = f"critiqor_{port}"
        self.hosts = place.names(port)
        self._templates = _environment()

    @property
    def address(self) -> str:
        return f"http://{self.hosts[0]}"

    def viewer(self, request: Request) -> Viewer:
        """Who asks; a token that is not good gets nothing at all."""
        viewer: Viewer | None = request.state.viewer
        if viewer is None:
            raise HTTPException(403, "This link is not valid any more.")
        return viewer

    def user(self, request: Request) -> Viewer:
        """Who asks, if it is the one who started the dashboard."""
        viewer = self.viewer(request)
        if not viewer.is_user:
            raise HTTPException(403, "This page needs the link that `critiqor dashboard` has opened.")
        return viewer

    def showing(self, request: Request) -> Showing:
        """The run that a page is about, as the one who asks may see it."""
        run = self.library.open(request.path_params["run_id"], self.viewer(request))
        return Showing(run, self.shelf)

    def template(self, name: str) -> Template:
        """A template, for what is drawn without anybody asking over the network."""
        return self._templates.get_template(name)

    def page(self, request: Request, template: str, *, status: int = 200, **told: Any) -> HTMLResponse:
        """A page, with what the frame around it needs."""
        viewer: Viewer | None = request.state.viewer
        frame = {
            "is_user": viewer is not None and viewer.is_user,
            "tenant": ", ".join(sorted(viewer.tenants)) if viewer is not None else None,
            "showing": told.pop("showing", None),
            "run_pages": RUN_PAGES,
            "version": __version__,
        }
        return HTMLResponse(self._templates.get_template(template).render(**frame, **told), status_code=status)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        finalize=wording.finalize_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    named = (
        "raw",
        "island",
        "segment",
        "money",
        "price",
        "duration",
        "number",
        "percent",
        "words",
        "moment",
        "marked",
        "coded",
    )
    environment.filters.update({name: getattr(wording, name) for name in named}, count=counted)
    environment.globals |= {"worth_reading": worth_reading, "kind_of": kind_of, "verdicts": wording.VERDICTS}
    return environment
