"""The web application: its routes, its middleware and its error pages."""

from __future__ import annotations

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from critiqor.dashboard.pages.annotations_page import AnnotationsPage
from critiqor.dashboard.pages.comparison_page import ComparisonPage
from critiqor.dashboard.pages.conversation_page import ConversationPage
from critiqor.dashboard.pages.live import Live
from critiqor.dashboard.pages.run_pages import RunPages
from critiqor.dashboard.pages.runs_pages import RunsPages
from critiqor.dashboard.pages.search_page import SearchPage
from critiqor.dashboard.pages.sessions_pages import SessionsPages
from critiqor.dashboard.pages.site import PACKAGE_FOLDER, Site
from critiqor.dashboard.pages.timeline_page import TimelinePage
from critiqor.dashboard.pages.trust_page import TrustPage
from critiqor.dashboard.web.login import Login
from critiqor.dashboard.web.middleware import ICON, RequestGuard
from critiqor.errors import BrokenRecordError, CritiqorError, NoActiveSessionError, UnknownRunError, UsageError
from critiqor.fleet.errors import FleetError, FleetUnavailableError
from critiqor.privacy.visibility import Viewer

Page = Callable[[Request], Response]
_STATUS: dict[type[CritiqorError], int] = {
    UnknownRunError: 404,
    UsageError: 400,
    NoActiveSessionError: 409,
    BrokenRecordError: 422,
    FleetError: 422,
    FleetUnavailableError: 503,
}


def application(site: Site) -> Starlette:
    """Build the dashboard of a site. Every request passes `RequestGuard` first."""
    login, runs, run = Login(site), RunsPages(site), RunPages(site)
    annotations = AnnotationsPage(site)
    conversation, sessions = ConversationPage(site), SessionsPages(site)
    timeline, trust, live = TimelinePage(site), TrustPage(site), Live(site)
    run_pages: dict[str, Page] = {
        "": run.overview,
        "/conversation": conversation.main,
        "/sessions": sessions.of_run,
        "/sessions/{session:path}": conversation.page,
        "/diagnosis": run.diagnosis,
        "/timeline": timeline.page,
        "/evidence": run.evidence,
        "/events/{event_id}": run.event,
        "/events/{event_id}/raw": run.raw_event,
        "/cost": run.cost,
        "/context": run.context,
        "/playbook": run.playbook,
        "/trust": trust.page,
    }
    routes: list[BaseRoute] = [
        Route("/", login.front),
        Route("/open", login.open),
        Route("/share/{token}", login.share),
        Route("/runs", runs.page),
        Route("/costs", runs.costs),
        Route("/runs/export", runs.export),
        Route("/runs/removal", runs.removal),
        Route("/remove-runs", runs.remove, methods=["POST"]),
        Route("/compare", ComparisonPage(site).page),
        *(Route(f"/runs/{{run_id}}{end}", page) for end, page in run_pages.items()),
        Route("/sessions", sessions.of_all),
        Route("/search", SearchPage(site).page),
        Route("/runs/{run_id}/live", live.page),
        Route("/runs/{run_id}/live/stream", live.stream),
        Route("/runs/{run_id}/live/stop", live.stop, methods=["POST"]),
        Route("/runs/{run_id}/visibility/{visibility}", trust.publish, methods=["POST"]),
        Route("/runs/{run_id}/annotations", annotations.save, methods=["POST"]),
        Route("/runs/{run_id}/findings/{finding_id}/{judgement}", annotations.judge, methods=["POST"]),
        Route("/runs/{run_id}/links", trust.make_link, methods=["POST"]),
        Route("/runs/{run_id}/links/{link_id}/revoke", trust.revoke_link, methods=["POST"]),
        Route(ICON, _icon),
        Mount("/static", StaticFiles(directory=PACKAGE_FOLDER / "static")),
    ]
    if site.fleet is not None:
        from critiqor.dashboard.fleet.routes import fleet_routes  # most dashboards do not need it

        routes += fleet_routes(site, site.fleet, run_pages)

    def error_page(request: Request, error: Exception) -> Response:
        return _error_page(site, request, error)

    return Starlette(
        routes=routes,
        middleware=[Middleware(RequestGuard, access=site.access, hosts=site.hosts, cookie=site.cookie)],
        exception_handlers={HTTPException: error_page, CritiqorError: error_page, OSError: error_page},
    )


def _icon(_: Request) -> FileResponse:
    return FileResponse(PACKAGE_FOLDER / "static" / "icon.svg")


def _error_page(site: Site, request: Request, error: Exception) -> HTMLResponse:
    fix: str | None = None
    if isinstance(error, HTTPException):
        status, message = error.status_code, error.detail
    elif isinstance(error, CritiqorError):
        status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)
        message, fix = error.message, error.fix
        if status not in (400, 404) and not _is_user(request):
            # Only the user may learn which file is broken, and how.
            message, fix = "This run cannot be shown.", None
    else:
        status, message = 500, "A file of this run could not be read."
    return site.page(request, "error.html", status=status, status_code=status, message=message, fix=fix)


def _is_user(request: Request) -> bool:
    viewer: Viewer | None = request.state.viewer
    return viewer is not None and viewer.is_user
