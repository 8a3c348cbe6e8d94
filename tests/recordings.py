"""A recorder of the embedded loop with a clock that stands still, and sources that say what a test wants."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from critiqor.agentloop.event_streams import EventStreams, Stream
from critiqor.agentloop.recording.journal_writer import JournalWriter
from critiqor.agentloop.recording.recorder import Recorder
from critiqor.storage import paths_for

BEGIN = 1_800_000_000_000
RUN = "run_001"
CONTEXT = {"runId": "r1", "sessionKey": "agent:main:main", "agentId": "main", "trigger": "user"}
MODEL = {"provider": "lab", "model": "scripted"}
USAGE = {"input": 1000, "output": 20, "totalTokens": 1020, "cost": {"total": 0.001}}

Event = dict[str, Any]


class Source:
    """Where a recorder listens; what it hears is up to the test."""

    def __init__(self) -> None:
        self.hooks: dict[str, Callable[[Event, Event], None]] = {}
        self.transcript: Callable[[Event], None] | None = None

    def on(self, name: str, handler: Callable[[Event, Event], None], priority: int = 0) -> None:
        assert name not in self.hooks
        self.hooks[name] = handler

    def on_transcript(self, listener: Callable[[Event], None]) -> None:
        self.transcript = listener

    def hook(self, name: str, context: Mapping[str, Any] = CONTEXT, **event: Any) -> None:
        handler: Callable[[Event, Event], object] = self.hooks[name]
        assert handler(event, dict(context)) is None, "an observer decides nothing"


class Recording(Source):
    """A run that is recorded: the test is the loop."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.paths = paths_for(folder)
        self.now = BEGIN
        self.journal = JournalWriter(self.paths, RUN, clock=lambda: self.now)
        self.recorder = Recorder(self.journal)
        self.streams = EventStreams()
        self.recorder.attach(self, self.streams, self, "openclaw")

    def stream(self, stream: Stream, context: Mapping[str, Any] = CONTEXT, **data: Any) -> None:
        self.streams.emit(context["runId"], context["sessionKey"], "main", stream, **data)
        assert self.streams.listener_errors == 0

    def saved(self, role: str, content: Any, context: Mapping[str, Any] = CONTEXT, **message: Any) -> None:
        assert self.transcript is not None
        message_id = message.pop("messageId", f"message {self.journal.written}")
        update = {"sessionKey": context["sessionKey"], "messageId": message_id}
        self.transcript({**update, "message": {"role": role, "content": content, **message}})

    def tick(self, milliseconds: int) -> None:
        self.now += milliseconds

    def answer(self, content: Any = "ok", context: Mapping[str, Any] = CONTEXT, **ended: Any) -> None:
        """A model call that works, with the message that it ends in."""
        self.hook("model_call_started", context, **MODEL)
        self.tick(5)
        self.hook("model_call_ended", context, **MODEL, durationMs=5, outcome="completed", **ended)
        self.saved("assistant", content, context, usage=USAGE, stopReason="stop", **MODEL)

    def tool(self, call_id: str, name: str = "exec", context: Mapping[str, Any] = CONTEXT, **end: Any) -> None:
        """A tool call as the loop tells it: by the stream and by hooks."""
        call = {"toolCallId": call_id, "toolName": name, "params": end.pop("params", {})}
        self.stream("tool", context, phase="start", toolCallId=call_id, name=name, args=call["params"])
        self.hook("before_tool_call", context, **call)
        self.tick(3)
        result = end.get("result")
        failed = "error" in end
        self.stream("tool", context, phase="result", toolCallId=call_id, name=name, isError=failed, result=result)
        self.hook("after_tool_call", context, **call, durationMs=3, **end)

    def ended(self, context: Mapping[str, Any] = CONTEXT, **event: Any) -> None:
        self.stream("lifecycle", context, phase="finishing", stopReason="stop", aborted=False)
        self.hook("agent_end", context, **{"success": True, "durationMs": 9, "messages": [{}, {}], **event})
        self.hook("llm_output", context, **MODEL, usage={"input": 1000, "output": 20, "total": 1020})
        self.stream("lifecycle", context, phase="end", stopReason="stop")

    def lines(self) -> list[Event]:
        """The journal as it stands."""
        return [json.loads(line) for line in self.paths.journal_path(RUN).read_bytes().splitlines()]

    def events(self) -> list[Event]:
        """All records in the order of their ids, but for the announcement."""
        return sorted(self.lines(), key=lambda event: str(event["event_id"]))[1:]

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events() if event["event_type"] == kind]

    def kinds(self) -> list[str]:
        return [event["event_type"] for event in self.events()]


def sequences(events: list[Event]) -> list[int]:
    """The writer's own counts, from the ids."""
    return [int(event["event_id"].split("_")[3], 36) for event in events]
