"""A run while it is recorded, told as it happens: server-sent events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from critiqor.anonymity import anonymous_event
from critiqor.dashboard.showing import Showing, worth_reading
from critiqor.dashboard.site import Site
from critiqor.dashboard.wording import visible
from critiqor.errors import CritiqorError
from critiqor.following import Follower, Look
from critiqor.model import Event

EVERY_SECONDS = 0.5
MOST_AT_ONCE = 200
"""Events of one look that are told; of more, the last ones, and the figures count all."""
WITHDRAWN = "it may no longer be seen"


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
        told = self._told(showing, request.cookies.get(self._site.cookie))
        return StreamingResponse(told, media_type="text/event-stream")

    async def _told(self, showing: Showing, token: str | None) -> AsyncIterator[bytes]:
        follower = Follower(showing.run_id, self._site.paths.runs_dir)
        yield b"retry: 2000\n\n"
        while True:
            look = await to_thread.run_sync(self._look, follower, showing, token)
            for event in look.events[-MOST_AT_ONCE:]:
                yield _message("record", _row(anonymous_event(event) if showing.is_anonymous else event))
            figures = follower.figures()
            state = {"status": look.status, "events": figures.events, "errors": figures.errors}
            yield _message("state", {**state, "tokens": figures.tokens, "cost_usd": figures.cost_usd})
            if look.over is not None:
                yield _message("ended", {"why": look.over})
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
        "ms": event.duration_ms,
        "said": visible(said[:1000]),
    }


def _message(name: str, data: dict[str, Any]) -> bytes:
    # JSON in ASCII has no line break, which would end the message.
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()
