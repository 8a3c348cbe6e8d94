"""What the model says, told piece by piece while it says it."""

from __future__ import annotations

from typing import Any

from critiqor.agentloop.configuration import ResolvedModel
from critiqor.agentloop.event_streams import EventStreams, Stream
from critiqor.agentloop.models.model_client import Delta, Finished, TextDelta, ThinkingDelta
from critiqor.agentloop.replies.reply_builder import is_silent, may_become_silent
from critiqor.agentloop.runs import Run


class DeltaEmitter:
    """The words of one answer, on the streams of its run and in the blocks that go out."""

    def __init__(self, run: Run, streams: EventStreams, speaker: ResolvedModel) -> None:
        self._run = run
        self._streams = streams
        self._speaker = speaker
        self._has_begun = False
        self._thinking = ""
        self._text = ""
        self._held_back = ""

    def hear(self, delta: Delta) -> None:
        """One more piece of the answer."""
        if not self._has_begun:
            self._has_begun = True
            speaker = self._speaker
            self._emit("lifecycle", phase="model", provider=speaker.provider.id, model=speaker.model.id)
        if isinstance(delta, ThinkingDelta):
            self._thinking += delta.text
            self._emit("thinking", text=self._thinking, delta=delta.text)
        elif isinstance(delta, TextDelta) and delta.text:
            # What may still turn out to be "I say nothing" is not said until it is something else, or has ended.
            self._text += delta.text
            self._held_back += delta.text
            if not may_become_silent(self._text):
                self._say()
        elif isinstance(delta, Finished) and self._held_back.strip() and not is_silent(self._text):
            self._say()

    def _say(self) -> None:
        self._emit("assistant", text=self._text, delta=self._held_back)
        if self._run.blocks is not None:
            self._run.blocks.said(self._held_back)
        self._held_back = ""

    def _emit(self, stream: Stream, **data: Any) -> None:
        self._run.emit(self._streams, stream, **data)
