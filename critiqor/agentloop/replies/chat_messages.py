"""Chat messages: the streamed text of a run as throttled updates for a chat window, and one final message."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from critiqor.agentloop.event_streams import AgentEvent, EventStreams

INTERVAL_SECONDS = 0.15
"""Minimum time between two updates of a run; faster deltas are combined."""


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole text of a run so far, or its end."""

    run_id: str
    session_key: str
    seq: int
    """Sequence number within the run, from 1 without gaps."""
    state: Literal["delta", "final", "error", "aborted"]
    text: str
    error: str | None = None


class _Chat(msgspec.Struct):
    before: str = ""
    """Text of the complete messages."""
    text: str = ""
    """Text of the current message."""
    seq: int = 0
    sent: str = ""
    """Text of the last update."""
    sent_at: float = float("-inf")
    """Time of the last update, in seconds of the feed's clock."""

    @property
    def whole(self) -> str:
        return "\n\n".join(part for part in (self.before, self.text) if part)


class ChatFeed:
    """Converts the event streams of runs into chat messages."""

    def __init__(
        self,
        streams: EventStreams,
        listener: Callable[[ChatMessage], None],
        interval: float = INTERVAL_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._listener = listener
        self._interval = interval
        self._clock = clock
        self._chats: dict[str, _Chat] = {}
        self.stop = streams.listen(self._handle)

    def _handle(self, event: AgentEvent) -> None:
        data = event.data
        if event.stream == "lifecycle" and data.get("phase") in ("end", "error"):
            self._end(event)
        elif event.stream == "assistant":
            chat = self._chats.setdefault(event.run_id, _Chat())
            if data.get("replace"):
                # A new attempt discards the text of the previous one.
                chat.before = chat.text = ""
            else:
                chat.text = data.get("text", "")
            self._send_delta(event, chat)
        elif event.stream == "usage" and event.run_id in self._chats:
            chat = self._chats[event.run_id]
            chat.before, chat.text = chat.whole, ""

    def _send_delta(self, event: AgentEvent, chat: _Chat) -> None:
        now = self._clock()
        if now - chat.sent_at >= self._interval and chat.whole != chat.sent:
            chat.sent_at = now
            self._send(event, chat, "delta")

    def _end(self, event: AgentEvent) -> None:
        chat = self._chats.pop(event.run_id, _Chat())
        data = event.data
        if chat.whole != chat.sent:
            self._send(event, chat, "delta")
        if data.get("aborted"):
            self._send(event, chat, "aborted", data.get("error"))
        else:
            self._send(event, chat, "error" if data["phase"] == "error" else "final", data.get("error"))

    def _send(
        self,
        event: AgentEvent,
        chat: _Chat,
        state: Literal["delta", "final", "error", "aborted"],
        error: str | None = None,
    ) -> None:
        chat.seq += 1
        chat.sent = chat.whole
        self._listener(
            ChatMessage(
                run_id=event.run_id,
                session_key=event.session_key,
                seq=chat.seq,
                state=state,
                text=chat.whole,
                error=error,
            )
        )
