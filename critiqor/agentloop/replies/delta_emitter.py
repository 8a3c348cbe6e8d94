"""Emits the streamed response of a model call as events of its run, and passes it to the reply pipeline."""

from __future__ import annotations

from typing import Any

from critiqor.agentloop.event_streams import EventStreams, Stream
from critiqor.agentloop.models.model_client import Delta, Finished, TextDelta, ThinkingDelta
from critiqor.agentloop.models.model_selection import ResolvedModel
from critiqor.agentloop.replies.reply_builder import is_silent, may_become_silent
from critiqor.agentloop.runs import Run


class TextEmitter:
    """Emits the streamed text of one message, without a silent token."""

    def __init__(self, run: Run, streams: EventStreams) -> None:
        self._run = run
        self._streams = streams
        self.text = ""
        """The text so far."""
        self._held_back = ""

    def add(self, text: str) -> None:
        """Emit text. Text that may become a silent token is held back until it cannot become one any more."""
        self.text += text
        self._held_back += text
        if not may_become_silent(self.text):
            self._emit()

    def end(self) -> None:
        """Emit the text that was held back, unless it is a silent token."""
        if self._held_back.strip() and not is_silent(self.text):
            self._emit()

    def _emit(self) -> None:
        self._run.emit(self._streams, "assistant", text=self.text, delta=self._held_back)
        self._run.replies.add_text(self._held_back)
        self._held_back = ""


class DeltaEmitter:
    """Emits the deltas of one model call on the event streams of its run."""

    def __init__(self, run: Run, streams: EventStreams, model: ResolvedModel) -> None:
        self._run = run
        self._streams = streams
        self._model = model
        self._has_started = False
        self._thinking = ""
        self._text = TextEmitter(run, streams)

    def handle(self, delta: Delta) -> None:
        """Emit one delta of a streamed response as an event."""
        if not self._has_started:
            self._has_started = True
            resolved = self._model
            self._emit("lifecycle", phase="model", provider=resolved.provider.id, model=resolved.model.id)
        if isinstance(delta, ThinkingDelta):
            self._thinking += delta.text
            self._emit("thinking", text=self._thinking, delta=delta.text)
            self._run.replies.add_thinking(delta.text)
        elif isinstance(delta, TextDelta) and delta.text:
            self._text.add(delta.text)
        elif isinstance(delta, Finished):
            self._text.end()

    def _emit(self, stream: Stream, **data: Any) -> None:
        self._run.emit(self._streams, stream, **data)
