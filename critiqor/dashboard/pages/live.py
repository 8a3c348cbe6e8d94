"""The live page of a run, and its stream of server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import anyio
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from critiqor.dashboard.data.live_verdict import live_verdict_data
from critiqor.dashboard.data.run_page_data import RunPageData
from critiqor.dashboard.data.view_models import informative_values
from critiqor.dashboard.pages.site import Site
from critiqor.errors import CritiqorError
from critiqor.live.verdict import LiveFile
from critiqor.model import Event
from critiqor.model.formatting import counted, format_cost, format_duration
from critiqor.model.sanitize import sanitize_for_page
from critiqor.privacy.events import anonymous_event
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
    """`/runs/{run}/live` and its stream."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def page(self, request: Request) -> Response:
        data = self._site.run_data(request)
        return self._site.page(request, "live.html", run_data=data, current="live", diagnosis=data.diagnosis)

    def stream(self, request: Request) -> Response:
        data = self._site.run_data(request)
        if request.method == "HEAD":
            # The client would wait for the body until the run is over.
            return Response(media_type="text/event-stream")
        is_user = self._site.viewer(request).is_user
        messages = self.messages(data, request.cookies.get(self._site.cookie), is_user=is_user)
        return StreamingResponse(messages, media_type="text/event-stream")

    async def messages(self, data: RunPageData, token: str | None, *, is_user: bool) -> AsyncIterator[bytes]:
        """Yield the messages of the stream, until nothing changes any more."""
        follower, live = Follower(data.view.run), LiveFile(data.view.run)
        yield b"retry: 2000\n\n"
        while True:
            update = await to_thread.run_sync(self._update, follower, data, token)
            for event in update.events[-MAX_EVENTS:]:
                yield _message("record", _row(anonymous_event(event) if data.is_anonymous else event))
            verdict = await to_thread.run_sync(live.update) if update.status != GONE else None
            if verdict is not None:
                yield _message("verdict", live_verdict_data(verdict, is_anonymous=data.is_anonymous))
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


def _row(event: Event) -> dict[str, Any]:
    """Return the displayed fields of an event; the page's script inserts them as text."""
    values = "; ".join(f"{name}: {text}" for name, text in informative_values(event))
    return {
        "id": event.event_id,
        "at": event.timestamp,
        "type": sanitize_for_page(event.event_type[:200]),
        "tool": sanitize_for_page((event.tool_name or "")[:200]),
        "status": sanitize_for_page(event.status[:40]),
        "took": "" if event.duration_ms is None else format_duration(event.duration_ms),
        "said": sanitize_for_page(values[:1000]),
    }


def _message(name: str, data: dict[str, Any]) -> bytes:
    # JSON has no line breaks, which would end the message.
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
