"""Emits the streamed response of a model call as events of its run, and feeds block streaming."""

from __future__ import annotations

from typing import Any

from critiqor.agentloop.event_streams import EventStreams, Stream
from critiqor.agentloop.models.model_client import Delta, Finished, TextDelta, ThinkingDelta
from critiqor.agentloop.models.model_selection import ResolvedModel
from critiqor.agentloop.replies.reply_builder import is_silent, may_become_silent
from critiqor.agentloop.runs import Run


class DeltaEmitter:
    """Emits the deltas of one model call on the event streams of its run."""

    def __init__(self, run: Run, streams: EventStreams, model: ResolvedModel) -> None:
        self._run = run
        self._streams = streams
        self._model = model
        self._has_started = False
        self._thinking = ""
        self._text = ""
        self._held_back = ""

    def handle(self, delta: Delta) -> None:
        """Emit one delta of a streamed response as an event."""
        if not self._has_started:
            self._has_started = True
            resolved = self._model
            self._emit("lifecycle", phase="model", provider=resolved.provider.id, model=resolved.model.id)
        if isinstance(delta, ThinkingDelta):
            self._thinking += delta.text
            self._emit("thinking", text=self._thinking, delta=delta.text)
        elif isinstance(delta, TextDelta) and delta.text:
            # Hold back text that may become a silent token until it cannot become one any more, or has ended.
            self._text += delta.text
            self._held_back += delta.text
            if not may_become_silent(self._text):
                self._emit_text()
        elif isinstance(delta, Finished) and self._held_back.strip() and not is_silent(self._text):
            self._emit_text()

    def _emit_text(self) -> None:
        self._emit("assistant", text=self._text, delta=self._held_back)
        if self._run.blocks is not None:
            self._run.blocks.add_text(self._held_back)
        self._held_back = ""

    def _emit(self, stream: Stream, **data: Any) -> None:
        self._run.emit(self._streams, stream, **data)
