"""Chat messages: what a run says as it goes, gathered for a chat window, and one final message when it has ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from critiqor.agentloop.event_streams import AgentEvent, EventStreams

INTERVAL_SECONDS = 0.15
"""Deltas that come faster wait for the next message."""


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a chat shows of a run: the whole text so far, or how it ended."""

    run_id: str
    session_key: str
    seq: int
    """From 1, without holes, for each run."""
    state: Literal["delta", "final", "error", "aborted"]
    text: str
    error: str | None = None


class _Chat(msgspec.Struct):
    before: str = ""
    """Messages that are complete."""
    text: str = ""
    """The message that is being said."""
    seq: int = 0
    told: str = ""
    told_at: float = float("-inf")

    @property
    def whole(self) -> str:
        return "\n\n".join(part for part in (self.before, self.text) if part)


class Chats:
    """Turns the streams of runs into chat messages."""

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
        self.stop = streams.listen(self._heard)

    def _heard(self, event: AgentEvent) -> None:
        data = event.data
        if event.stream == "lifecycle" and data.get("phase") in ("end", "error"):
            self._end(event)
        elif event.stream == "assistant":
            chat = self._chats.setdefault(event.run_id, _Chat())
            if data.get("replace"):
                # The attempt is made again: what it said is taken back, and told only if it was told before.
                chat.before = chat.text = ""
            else:
                chat.text = data.get("text", "")
            self._tell_delta(event, chat)
        elif event.stream == "usage" and event.run_id in self._chats:
            chat = self._chats[event.run_id]
            chat.before, chat.text = chat.whole, ""

    def _tell_delta(self, event: AgentEvent, chat: _Chat) -> None:
        now = self._clock()
        if now - chat.told_at >= self._interval and chat.whole != chat.told:
            chat.told_at = now
            self._tell(event, chat, "delta")

    def _end(self, event: AgentEvent) -> None:
        chat = self._chats.pop(event.run_id, _Chat())
        data = event.data
        if chat.whole != chat.told:
            self._tell(event, chat, "delta")
        if data.get("aborted"):
            self._tell(event, chat, "aborted", data.get("error"))
        else:
            self._tell(event, chat, "error" if data["phase"] == "error" else "final", data.get("error"))

    def _tell(
        self,
        event: AgentEvent,
        chat: _Chat,
        state: Literal["delta", "final", "error", "aborted"],
        error: str | None = None,
    ) -> None:
        chat.seq += 1
        chat.told = chat.whole
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
