"""The live page of a run or of one of its sessions, its stream of server-sent events, and the request to stop it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import anyio
from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from critiqor.dashboard.data.event_kinds import is_plumbing, kind_of
from critiqor.dashboard.data.live_verdict import LiveScope, live_verdict_data
from critiqor.dashboard.data.run_page_data import RunPageData
from critiqor.dashboard.pages.run_addresses import session_key_of
from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.render.event_content import informative_values
from critiqor.dashboard.web.forms import read_form
from critiqor.errors import CritiqorError
from critiqor.live.stop_request import StoppedSession
from critiqor.live.verdict import LiveFile, read_live
from critiqor.model import Event
from critiqor.model.formatting import counted, format_cost, format_duration
from critiqor.model.sanitize import sanitize_for_page
from critiqor.privacy.events import anonymous_event
from critiqor.recording.stop import stop_recorded
from critiqor.run.tail import Follower, Update

UPDATE_SECONDS = 0.5
MAX_EVENTS = 200
"""Maximum number of events that are sent in one update, the latest ones; the figures count all."""
GONE = "GONE"
"""Status of a run that the viewer may no longer see."""
WITHDRAWN = "you no longer have access to this run"


class Phase(NamedTuple):
    """The phase of a run, as the page shows it."""

    badge: str
    text: str
    next: str | None = None
    """The suggested next command."""
    is_recording: bool = False
    """Whether it is being recorded."""
    is_last: bool = False
    """Whether this phase is final."""


def live_phase(update: Update, run_id: str) -> Phase:
    """Return the phase of a run for its live page.

    An agent can end before the run is sealed, and can keep running after that.
    """
    if update.status == "COMPLETED":
        return Phase("completed", "Sealed and diagnosed", is_last=True)
    if update.status == "ABORTED":
        return Phase("aborted", "Aborted", f"critiqor diagnose {run_id}", is_last=True)
    if update.over is None:
        return Phase("being recorded", "Recording", is_recording=True)
    if update.status == "FINALIZING":
        return Phase("being sealed", "Being sealed")
    if update.status == "MONITORING":
        return Phase("not sealed yet", update.over[:1].upper() + update.over[1:], f"critiqor finalize {run_id}")
    return Phase("gone", update.over[:1].upper() + update.over[1:], is_last=True)


class Live:
    """`/runs/{run}/live?session=…`, its stream, and `POST /runs/{run}/live/stop`."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def page(self, request: Request) -> Response:
        """Show the verdict so far; a script adds the events and keeps both current."""
        data = self._site.run_data(request)
        scope = _scope(request.query_params.get("session"), data)
        verdict = read_live(data.view.run) if data.is_live else None
        return self._site.page(
            request,
            "live.html",
            run_data=data,
            current="live",
            diagnosis=data.diagnosis,
            scope=scope,
            session=request.query_params.get("session", ""),
            verdict=None if verdict is None else live_verdict_data(verdict, scope),
            is_launched=data.head.owner is not None,
        )

    def stream(self, request: Request) -> Response:
        """Send new events and verdicts until the run is over."""
        data = self._site.run_data(request)
        if request.method == "HEAD":
            # The client would wait for the body until the run is over.
            return Response(media_type="text/event-stream")
        is_user = self._site.viewer(request).is_user
        scope = _scope(request.query_params.get("session"), data)
        messages = self.messages(data, request.cookies.get(self._site.cookie), scope, is_user=is_user)
        return StreamingResponse(messages, media_type="text/event-stream")

    async def stop(self, request: Request) -> Response:
        """Stop the run or one of its sessions, as a limit with the action `stop` does. Only the user may."""
        self._site.user(request)
        form = await read_form(request)
        return await to_thread.run_sync(self._stop, request, form)

    def _stop(self, request: Request, form: dict[str, str]) -> Response:
        data = self._site.run_data(request)
        if form.get("confirm") != "stop":
            raise HTTPException(400, "Stopping an agent has to be confirmed: use the button on its live page.")
        if not data.is_live:
            raise HTTPException(409, "This run is no longer being recorded, so there is nothing to stop.")
        scope = _scope(form.get("session"), data)
        found = scope.sessions(read_live(data.view.run))
        if scope.is_session and not found:
            raise HTTPException(404, "There is no such session in this run.")
        is_launched = data.head.owner is not None
        # A gateway that was only attached to goes on: what its agents do now is aborted.
        stopped = found if scope.is_session else [] if is_launched else [each for each in found if each.is_working]
        if not stopped and not is_launched:
            raise HTTPException(409, "No agent is working, so there is nothing to stop.")
        names = [StoppedSession(session_key=each.session_key, agent_run_id=each.agent_run_id) for each in stopped]
        stop_recorded(data.view.run, names)
        address = data.addresses.session_part("live", scope.name) if scope.is_session else data.addresses.page("live")
        return RedirectResponse(address, status_code=303)

    async def messages(
        self, data: RunPageData, token: str | None, scope: LiveScope, *, is_user: bool
    ) -> AsyncIterator[bytes]:
        """Yield the messages of the stream, until nothing changes any more."""
        follower, live = Follower(data.view.run), LiveFile(data.view.run)
        yield b"retry: 2000\n\n"
        while True:
            update = await to_thread.run_sync(self._update, follower, data, token)
            verdict = await to_thread.run_sync(live.update) if update.status != GONE else None
            shown = [event for event in update.events if scope.has(event.session_key, live.verdict)]
            for event in shown[-MAX_EVENTS:]:
                yield _message("record", _row(anonymous_event(event) if data.is_anonymous else event))
            if verdict is not None:
                yield _message("verdict", live_verdict_data(verdict, scope))
            figures, cost = follower.totals()
            amounts = {"event": figures.events, "error": figures.errors, "token": figures.tokens}
            counts = ", ".join(counted(amount, noun) for noun, amount in amounts.items())
            phase = live_phase(update, data.run_id)
            state = {
                "badge": phase.badge,
                "going": phase.is_recording,
                "said": f"{phase.text}: {counts}, {format_cost(cost)}",
            }
            yield _message("state", {**state, "next": phase.next if is_user else None})
            if phase.is_last:
                yield _message("ended", {"concluded": update.status == "COMPLETED"})
                return
            if not update.more:
                await anyio.sleep(UPDATE_SECONDS)

    def _update(self, follower: Follower, data: RunPageData, token: str | None) -> Update:
        """Return what is new; nothing if the viewer may no longer see it.

        A link can have been revoked, or the visibility of the run changed, since the stream began.
        """
        try:
            viewer = self._site.access.viewer(token)
            view = self._site.catalog.open(data.run_id, viewer) if viewer is not None else None
            if view is not None and view.is_anonymous == data.is_anonymous:
                return follower.update()
        except (CritiqorError, OSError):
            pass
        return Update(events=[], status=GONE, over=WITHDRAWN, more=False)


def _scope(session: str | None, data: RunPageData) -> LiveScope:
    """Return what a live page shows, from the session in its address."""
    name = session_key_of(session) if session else None
    return LiveScope(name, is_session=bool(session), is_anonymous=data.is_anonymous)


def _row(event: Event) -> dict[str, Any]:
    """Return the displayed fields of an event; the page's script inserts them as text."""
    values = "; ".join(f"{name}: {text}" for name, text in informative_values(event))
    return {
        "id": event.event_id,
        "at": event.timestamp,
        "type": sanitize_for_page(event.event_type[:200]),
        "kind": kind_of(event.event_type),
        "plumbing": is_plumbing(event.event_type),
        "tool": sanitize_for_page((event.tool_name or "")[:200]),
        "status": sanitize_for_page(event.status[:40]),
        "took": "" if event.duration_ms is None else format_duration(event.duration_ms),
        "said": sanitize_for_page(values[:1000]),
    }


def _message(name: str, data: dict[str, Any]) -> bytes:
    # JSON has no line breaks, which would end the message.
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
