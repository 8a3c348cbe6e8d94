"""What all pages share: the runs, the viewer of a request, and the templates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse

from critiqor import __version__
from critiqor.dashboard.data.event_kinds import event_name, is_plumbing, kind_of
from critiqor.dashboard.data.index_cache import IndexCache
from critiqor.dashboard.data.run_catalog import RunCatalog
from critiqor.dashboard.data.run_page_data import RunPageData
from critiqor.dashboard.render import formatting as wording
from critiqor.dashboard.render.event_content import informative_values
from critiqor.dashboard.render.formatting import layer_name
from critiqor.dashboard.web.access import Access
from critiqor.dashboard.web.bind_address import LOOPBACK, BindAddress, resolve_host
from critiqor.dashboard.web.links import Links, path_segment
from critiqor.model.formatting import (
    counted,
    format_cost,
    format_duration,
    format_duration_change,
    format_identifier,
    format_judged,
    format_money,
    format_number,
    format_place,
    format_session,
    format_trust,
)
from critiqor.model.timestamps import iso_from_ms
from critiqor.privacy.visibility import Viewer
from critiqor.run.store import RunStore

if TYPE_CHECKING:
    from critiqor.dashboard.fleet.source import Fleet
    from critiqor.dashboard.fleet.stored_runs import OpenedRun

PACKAGE_FOLDER = Path(__file__).parent.parent
LOOPBACK_ADDRESS = resolve_host(LOOPBACK)
RUN_PAGES = {
    "": "Overview",
    "conversation": "Conversation",
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
        self,
        store: RunStore,
        port: int,
        place: BindAddress = LOOPBACK_ADDRESS,
        *,
        is_token_required: bool = False,
        fleet: Fleet | None = None,
    ) -> None:
        self.store = store
        self.fleet = fleet
        """The runs of many machines; None if only those of the folder are shown."""
        self.port = port
        self.place = place
        self.catalog = RunCatalog(store)
        self.indexes = IndexCache()
        self.links = Links(store.paths)
        self.access = Access(self.links, is_token_required=is_token_required)
        # Cookies ignore ports, and two dashboards must not overwrite each other's.
        self.cookie = f"critiqor_{port}"
        self.hosts = place.names(port)
        self._templates = _environment()

    @property
    def address(self) -> str:
        return f"http://{self.hosts[0]}"

    def viewer(self, request: Request) -> Viewer:
        """Return the viewer of a request. Raise an error if its token is invalid."""
        viewer: Viewer | None = request.state.viewer
        if viewer is None:
            raise HTTPException(403, "This link is no longer valid. Ask for a new one, or run `critiqor dashboard`.")
        return viewer

    def user(self, request: Request) -> Viewer:
        """Return the viewer of a request. Raise an error unless it is the user who started the dashboard."""
        viewer = self.viewer(request)
        if not viewer.is_user:
            raise HTTPException(403, "Open the link that `critiqor dashboard` printed to see this page.")
        return viewer

    def run_data(self, request: Request) -> RunPageData:
        """Return the data of the run that a page is about, as the viewer may see it."""
        stored: OpenedRun | None = getattr(request.state, "stored_run", None)
        if stored is not None:
            return stored.page_data(self.user(request))
        view = self.catalog.open(request.path_params["run_id"], self.viewer(request))
        return RunPageData(view, self.indexes)

    def template(self, name: str) -> Template:
        """Return a template, for pages that are rendered without a request."""
        return self._templates.get_template(name)

    def page(self, request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Render a page, with the values that the frame around it needs."""
        viewer: Viewer | None = request.state.viewer
        data: RunPageData | None = values.pop("run_data", None)
        is_user = viewer is not None and viewer.is_user
        is_local = data is None or data.stored is None
        frame = {
            "is_user": is_user,
            "may_change": is_user and is_local,
            "has_fleet": self.fleet is not None,
            "tenant": ", ".join(sorted(viewer.tenants)) if viewer is not None else None,
            "run_data": data,
            "run_pages": {name: label for name, label in RUN_PAGES.items() if is_local or name != "live"},
            "version": __version__,
        }
        return HTMLResponse(self._templates.get_template(template).render(**frame, **values), status_code=status)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(PACKAGE_FOLDER / "templates"),
        autoescape=True,
        finalize=wording.finalize_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    named = ("raw", "island", "percent", "moment", "marked", "coded")
    environment.filters.update({name: getattr(wording, name) for name in named})
    environment.filters.update(
        capitalize_first=lambda text: text[:1].upper() + text[1:],
        cost=format_cost,
        count=counted,
        day=lambda milliseconds: iso_from_ms(milliseconds)[:10],
        duration=format_duration,
        duration_change=format_duration_change,
        event_name=event_name,
        layer_name=layer_name,
        judged=format_judged,
        money=format_money,
        number=format_number,
        place=format_place,
        segment=path_segment,
        session_name=format_session,
        trust=format_trust,
        words=format_identifier,
        wall_time=lambda diagnosis: format_duration(diagnosis.wall_time_ms),
    )
    environment.globals |= {
        "informative_values": informative_values,
        "is_plumbing": is_plumbing,
        "kind_of": kind_of,
        "verdicts": wording.VERDICTS,
    }
    return environment
