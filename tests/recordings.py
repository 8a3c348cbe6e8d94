"""A recorder of the embedded loop with a clock that stands still; the test takes the part of the loop."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from critiqor.agentloop.recording.recorder import Recorder
from critiqor.agentloop.recording.run_recording import (
    AttemptEnd,
    AttemptTotals,
    ModelCallEnd,
    RunRecording,
    ToolCallEnd,
)
from critiqor.agentloop.recording.segments import Segments
from critiqor.storage import paths_for

BEGIN = 1_800_000_000_000
RUN = "run_001"
CONTEXT = {"runId": "r1", "sessionKey": "agent:main:main", "agentId": "main", "trigger": "user"}
MODEL = {"provider": "lab", "model": "scripted"}
USAGE = {"input": 1000, "output": 20, "totalTokens": 1020, "cost": {"total": 0.001}}

Event = dict[str, Any]


class Source:
    """Plugin hooks and transcript updates of which the test decides what they report."""

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
    """A recorder, and one agent run that it records."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.paths = paths_for(folder)
        self.now = BEGIN
        segments = Segments(self.paths, RUN, {}, clock=lambda: self.now)
        self.journal = segments.current.journal
        self.recorder = Recorder(segments)
        self.recorder.attach(self, self, "openclaw")
        self.run = self.recorder.open_run("r1", "agent:main:main")

    def saved(self, role: str, content: Any, run: RunRecording | None = None, **message: Any) -> None:
        """Report a message that was added to the transcript."""
        assert self.transcript is not None
        run = run or self.run
        update = {"runId": run.run_id, "sessionKey": run.session_key, "messageId": f"message {self.journal.written}"}
        self.transcript({**update, "message": {"role": role, "content": content, **message}})

    def tick(self, milliseconds: int) -> None:
        self.now += milliseconds

    def response(self, run: RunRecording | None = None, **end: Any) -> None:
        """Report a model call from its request to its end."""
        run = run or self.run
        run.model_call_started({**MODEL, "callId": "model:1"})
        self.tick(5)
        usage, error = end.pop("usage", USAGE), end.pop("error", None)
        run.model_call_ended(ModelCallEnd({**MODEL, "durationMs": 5, "outcome": "completed", **end}, usage, error))

    def answer(self, content: Any = "ok", run: RunRecording | None = None, **end: Any) -> None:
        """Report a model call that succeeds, and the message that it ends in."""
        self.response(run, **end)
        self.saved("assistant", content, run, usage=USAGE, stopReason="stop", **MODEL)

    def tool(self, call_id: str, name: str = "exec", run: RunRecording | None = None, **end: Any) -> None:
        """Report a tool call from its start to its end."""
        run = run or self.run
        run.tool_call_started(call_id, name, end.get("arguments", {}))
        self.tick(3)
        is_error = end.get("is_error", "error" in end)
        run.tool_call_ended(call_id, ToolCallEnd(end.get("result", {}), end.get("error"), is_error, 3))

    def ended(self, run: RunRecording | None = None) -> None:
        """Report the end of an attempt and of its run."""
        run = run or self.run
        totals = AttemptTotals(duration_ms=9, messages=2, usage={"input": 1000}, **MODEL)
        run.attempt_ended(AttemptEnd(None, "stop", False, totals))
        run.run_ended("main", AttemptEnd(None, "stop", False))

    def lines(self) -> list[Event]:
        """The journal as it stands."""
        return [json.loads(line) for line in self.paths.journal_path(RUN).read_bytes().splitlines()]

    def events(self) -> list[Event]:
        """All records in the order of their ids, without the announcement."""
        return sorted(self.lines(), key=lambda event: str(event["event_id"]))[1:]

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events() if event["event_type"] == kind]

    def kinds(self) -> list[str]:
        return [event["event_type"] for event in self.events()]


def sequences(events: list[Event]) -> list[int]:
    """The counts of the writer, from the ids of its events."""
    return [int(event["event_id"].split("_")[3], 36) for event in events]
