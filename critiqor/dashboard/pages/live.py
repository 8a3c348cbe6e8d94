"""A run while it is recorded, told as it happens: server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import anyio
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from critiqor.dashboard.data.run_view import Showing, worth_reading
from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.render.formatting import duration, money, visible
from critiqor.errors import CritiqorError
from critiqor.model import Event
from critiqor.model.formatting import counted
from critiqor.privacy import anonymous_event
from critiqor.run.tail import Follower, Look

EVERY_SECONDS = 0.5
MOST_AT_ONCE = 200
"""Events of one look that are told; of more, the last ones, and the figures count all."""
WITHDRAWN = "it may no longer be seen"


class Phase(NamedTuple):
    """How far a run is, as the page tells it."""

    badge: str
    told: str
    next: str | None = None
    """What to type."""
    is_going: bool = False
    """Whether it is being recorded."""
    is_last: bool = False
    """Whether nothing will change any more."""


def phase_of(look: Look, run_id: str) -> Phase:
    """An agent that has ended is not yet a run that is sealed, and a run that is sealed can have an agent that runs."""
    if look.status == "COMPLETED":
        return Phase("completed", "Sealed and diagnosed", is_last=True)
    if look.status == "ABORTED":
        return Phase("aborted", "Given up", f"critiqor diagnose {run_id}", is_last=True)
    if look.over is None:
        return Phase("being recorded", "Recording", is_going=True)
    if look.status == "FINALIZING":
        return Phase("being sealed", "Being sealed")
    if look.status == "MONITORING":
        return Phase("not sealed yet", look.over[:1].upper() + look.over[1:], f"critiqor finalize {run_id}")
    return Phase("gone", look.over[:1].upper() + look.over[1:], is_last=True)


class Live:
    """`/runs/{run}/live` and its stream."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def page(self, request: Request) -> Response:
        showing = self._site.showing(request)
        return self._site.page(request, "live.html", showing=showing, current="live", diagnosis=showing.diagnosis)

    def stream(self, request: Request) -> Response:
        showing = self._site.showing(request)
        if request.method == "HEAD":
            # What is never sent would be waited for until the run is over.
            return Response(media_type="text/event-stream")
        is_user = self._site.viewer(request).is_user
        told = self.messages(showing, request.cookies.get(self._site.cookie), is_user=is_user)
        return StreamingResponse(told, media_type="text/event-stream")

    async def messages(self, showing: Showing, token: str | None, *, is_user: bool) -> AsyncIterator[bytes]:
        """What the stream tells, until nothing changes any more."""
        follower = Follower(showing.run_id, self._site.paths.runs_dir)
        yield b"retry: 2000\n\n"
        while True:
            look = await to_thread.run_sync(self._look, follower, showing, token)
            for event in look.events[-MOST_AT_ONCE:]:
                yield _message("record", _row(anonymous_event(event) if showing.is_anonymous else event))
            figures = follower.figures()
            price = "no price known" if figures.cost_usd is None else money(figures.cost_usd)
            amounts = {"event": figures.events, "error": figures.errors, "token": figures.tokens}
            counts = ", ".join(counted(amount, noun) for noun, amount in amounts.items())
            phase = phase_of(look, showing.run_id)
            state = {"badge": phase.badge, "going": phase.is_going, "said": f"{phase.told}: {counts}, {price}"}
            yield _message("state", {**state, "next": phase.next if is_user else None})
            if phase.is_last:
                yield _message("ended", {"concluded": look.status == "COMPLETED"})
                return
            if not look.more:
                await anyio.sleep(EVERY_SECONDS)

    def _look(self, follower: Follower, showing: Showing, token: str | None) -> Look:
        """What is new; a link can have been revoked, or the run withdrawn, since the stream began."""
        try:
            viewer = self._site.access.viewer(token)
            run = self._site.library.open(showing.run_id, viewer) if viewer is not None else None
            if run is not None and (run.level == "anonymous") == showing.is_anonymous:
                return follower.look()
        except (CritiqorError, OSError):
            pass
        return Look(events=[], status="GONE", over=WITHDRAWN, more=False)


def _row(event: Event) -> dict[str, Any]:
    """What the page shows of an event; the script of the page puts it in as text."""
    said = "; ".join(f"{name}: {text}" for name, text in worth_reading(event))
    return {
        "id": event.event_id,
        "at": event.timestamp,
        "type": visible(event.event_type[:200]),
        "tool": visible((event.tool_name or "")[:200]),
        "status": visible(event.status[:40]),
        "took": "" if event.duration_ms is None else duration(event.duration_ms),
        "said": visible(said[:1000]),
    }


def _message(name: str, data: dict[str, Any]) -> bytes:
    # JSON in ASCII has no line break, which would end the message.
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
