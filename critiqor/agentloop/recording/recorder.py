"""Records what agent runs of the embedded loop do, in the journal and under the names of the recorder plugin.

Three sources tell of a run: plugin hooks, event streams and saved messages. All of them are always there, so starts are
written when the first one tells of them, and ends when the hook does, which says the most. Nothing waits for a clock:
what is held back for a richer source is written at the latest when the next thing happens in the run. No handler
returns anything or fails; a fact that could not be recorded leaves a hole in the numbering of records.
"""

from __future__ import annotations

import atexit
import os
import platform
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from critiqor import __version__
from critiqor.agentloop.event_streams import AgentEvent, EventStreams
from critiqor.agentloop.recording.journal_writer import JournalWriter
from critiqor.agentloop.recording.live_view import LiveView
from critiqor.agentloop.recording.recorded_calls import HOOK, STREAM, Attempts, ModelCalls, Records, ToolCalls
from critiqor.agentloop.recording.recorded_facts import (
    as_dict,
    error_of,
    message_facts,
    model_facts,
    prompt_facts,
    told,
)
from critiqor.agentloop.recording.recorded_runs import RecordedRun, RecordedRuns
from critiqor.errors import UsageError
from critiqor.spans.tool_results import error_text
from critiqor.storage import paths_for
from critiqor.storage.redaction import rules_digest

VERSION = f"critiqor-agentloop {__version__}"
"""What stands where an OpenClaw has its version."""
TYPED_HOOKS = (
    "before_agent_run",
    "llm_input",
    "llm_output",
    "model_call_started",
    "model_call_ended",
    "before_tool_call",
    "after_tool_call",
    "agent_end",
    "before_compaction",
    "after_compaction",
)
"""Hooks that tell of something in the terms of this loop."""
PLAIN_HOOKS = (
    "session_start",
    "session_end",
    "message_received",
    "message_sent",
    "gateway_start",
    "gateway_stop",
    "before_reset",
    "subagent_spawned",
    "subagent_ended",
)
"""Hooks that stand for themselves: recorded under their own name."""

Named = Mapping[str, Any]


class Hooks(Protocol):
    """What the recorder wants of plugin hooks."""

    def on(self, name: str, handler: Callable[[dict[str, Any], dict[str, Any]], None], priority: int = 0) -> object:
        """Call `handler` with every event of that name and its context."""
        ...


class Transcripts(Protocol):
    """What the recorder wants of whoever saves messages."""

    def on_transcript(self, listener: Callable[[dict[str, Any]], None]) -> object:
        """Call `listener` with every message that is saved."""
        ...


class Recorder:
    """Takes what each source tells, and hands it to whoever records facts of its kind."""

    def __init__(self, journal: JournalWriter, view: LiveView | None = None) -> None:
        self.journal = journal
        self._view = view
        self._runs = RecordedRuns()
        self._records = Records(journal)
        self._tools = ToolCalls(self._records)
        self._models = ModelCalls(self._records, self._tools)
        self._attempts = Attempts(self._records, self._models)
        self._closed = False

    def attach(
        self, hooks: Hooks, streams: EventStreams, transcripts: Transcripts, event_source: str | None = None
    ) -> None:
        """Announce the recorder and listen to every source.

        Without that first record, whoever reads the evidence knows that nobody was watching.
        """
        announcement = {
            "mode": "full",
            "sources": {"hooks": True, "agent_events": True, "transcript": True},
            "plugin_version": __version__,
            "redaction": rules_digest(),
            "openclaw_version": VERSION,
            "node_version": None,
            "python_version": platform.python_version(),
            "pid": os.getpid(),
            "parent_pid": os.getppid(),
            "event_source": event_source,
        }
        self._guarded(lambda: self._records.write("recorder_attached", None, announcement))
        for name in (*TYPED_HOOKS, *PLAIN_HOOKS):
            hooks.on(name, self._handler(name))
        streams.listen(self.agent_event)
        transcripts.on_transcript(self.saved_message)

    def hook(self, name: str, event: Named, context: Named) -> None:
        """Something that a plugin hook tells."""
        self._guarded(lambda: self._hook(name, self._runs.of(event, context), event, context))

    def agent_event(self, event: AgentEvent) -> None:
        """Something that an event stream tells."""
        where = {"runId": event.run_id, "sessionKey": event.session_key}
        self._guarded(lambda: self._agent_event(self._runs.of(where, {}), event))

    def saved_message(self, update: Named) -> None:
        """A message was saved in the transcript of a session, with its own usage."""
        self._guarded(lambda: self._saved(self._runs.of(update, {}), update))

    def close(self) -> None:
        """Write what is still held back, and let go of the journal; what is told after that is lost."""
        if self._closed:
            return
        for run in self._runs:
            self._guarded(partial(self._finish, run))
        self._closed = True
        self.journal.close()
        if self._view is not None and not self.journal.sealed:
            self._view.finish()

    def _handler(self, name: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
        return lambda event, context: self.hook(name, event, context)

    def _guarded(self, record: Callable[[], None]) -> None:
        if self._closed:
            return
        try:
            record()
        except Exception:  # whatever it is, the agent must not notice
            self.journal.lose()

    def _hook(self, name: str, run: RecordedRun, event: Named, context: Named) -> None:
        match name:
            case "before_agent_run":
                facts = told(agent_id=context.get("agentId"), trigger=context.get("trigger"))
                self._attempts.start(HOOK, run, facts)
            case "llm_input":
                run.prompt = prompt_facts(event)
            case "model_call_started":
                self._models.start(run, model_facts(event))
            case "model_call_ended":
                self._models.end(run, model_facts(event), event.get("usage"), event.get("error"))
            case "before_tool_call":
                self._tool_starts(HOOK, run, _tool_facts(event, name))
            case "after_tool_call":
                self._models.settle(run)
                self._tools.end(HOOK, run, _tool_facts(event, name))
            case "agent_end":
                self._models.settle(run)
                self._attempts.end(HOOK, run, _end_facts(event))
            case "llm_output":
                whose = told(provider=event.get("provider"), model=event.get("model"))
                self._attempts.totals(run, {"usage_total": event.get("usage"), **whose})
            case "before_compaction" | "after_compaction":
                self._compaction(HOOK, run, "start" if name == "before_compaction" else "end", event)
            case _:
                self._records.write(name, run, dict(event), error=error_of(event))
        self._runs.settle(run)

    def _agent_event(self, run: RecordedRun, event: AgentEvent) -> None:
        data, phase = event.data, event.data.get("phase")
        match event.stream:
            case "lifecycle":
                self._lifecycle(run, phase, data, event.agent_id)
            case "tool":
                self._tool_stream(run, phase, data)
            case "command_output":
                tool = run.latest_tool(data.get("toolCallId"))
                if tool is not None and not tool.written and phase == "end":
                    tool.end.update(told(exitCode=data.get("exitCode")))
            case "usage":
                if isinstance(data.get("outputTokens"), int):
                    self._models.used(run, run.output_since(data["outputTokens"]))
            case "assistant":
                if isinstance(data.get("text"), str):
                    run.partial = data["text"]
            case "compaction":
                if phase in ("start", "end"):
                    self._compaction(STREAM, run, phase, data)
            case "run_status":
                if phase == "retrying":
                    self._records.write("provider_retry", run, dict(data))
        self._runs.settle(run)

    def _lifecycle(self, run: RecordedRun, phase: Any, data: Named, agent_id: str) -> None:
        if phase == "start":
            self._attempts.start(STREAM, run, told(agent_id=agent_id))
        elif phase in ("finishing", "end", "error"):
            error = error_text(data) if data.get("error") else None
            if error is not None:
                seen = as_dict(data.get("errorObservation"))
                kind = seen.get("providerRuntimeFailureKind")
                self._models.explained(run, error, failover_reason=seen.get("failoverReason"), failure_kind=kind)
            facts = told(error=error, stopReason=data.get("stopReason"), aborted=data.get("aborted"))
            self._attempts.end(STREAM, run, facts)
            if phase != "finishing":
                self._finish(run)

    def _finish(self, run: RecordedRun) -> None:
        """Nothing more will be told of this run, but for a next attempt."""
        self._attempts.settle(run)
        if run.attempt is None:
            self._models.settle(run)
            self._models.end_turn(run)

    def _tool_starts(self, source: str, run: RecordedRun, call: dict[str, Any]) -> None:
        self._models.settle(run)
        self._tools.start(source, run, call)

    def _tool_stream(self, run: RecordedRun, phase: Any, data: Named) -> None:
        call = told(**{name: data.get(name) for name in ("name", "args", "result", "isError")})
        call |= {"id": str(data["toolCallId"]), "source": f"tool:{phase}", **told(parent=data.get("parentToolCallId"))}
        if phase == "start":
            self._tool_starts(STREAM, run, call)
        elif phase == "update":
            tool = run.latest_tool(call["id"])
            if tool is not None:
                tool.updates += 1
        elif phase == "result":
            self._tools.end(STREAM, run, call)

    def _compaction(self, source: str, run: RecordedRun, phase: str, event: Named) -> None:
        if not run.is_news(f"compaction_{phase}", source):
            return
        facts = {name: value for name, value in event.items() if name != "messages"}
        messages = event.get("messages")
        counted = {"messages": len(messages)} if isinstance(messages, list) else {}
        self._records.write(f"compaction_{phase}", run, {**counted, **facts})

    def _saved(self, run: RecordedRun, update: Named) -> None:
        message = as_dict(update.get("message"))
        role = message.get("role")
        # What a tool gave back is recorded as its result; OpenClaw does not announce those messages either.
        if role is None or role == "toolResult" or not run.is_new_message(update.get("messageId")):
            return
        stopped = message.get("stopReason")
        why = message.get("errorMessage")
        if role == "assistant":
            failure = (why or "model call failed") if stopped == "error" else None
            self._models.saved(run, message.get("usage"), failure)
        error = (why or stopped) if stopped in ("error", "aborted") else None
        payload = {"role": role, **message_facts(message), **told(message_id=update.get("messageId"))}
        self._records.write("input" if role == "user" else "message_end", run, payload, error=error)
        self._runs.settle(run)


def attach_recorder(
    hooks: Hooks, streams: EventStreams, transcripts: Transcripts, environment: Mapping[str, str]
) -> Recorder:
    """Record everything that these sources tell from now on into the run that the environment names.

    Where it names none, the recorder hears of nothing. What is held back is written when the recorder is closed, or
    when the process ends.
    """
    run_id, runs_dir = environment.get("CRITIQOR_RUN_ID", ""), environment.get("CRITIQOR_RUNS_DIR", "")
    paths = paths_for(runs_dir)
    try:
        view = LiveView(paths, run_id)
    except UsageError:
        view = None
    if view is None or not runs_dir:
        return Recorder(JournalWriter(paths, run_id))
    recorder = Recorder(JournalWriter(paths, run_id, on_write=view.follow), view)
    recorder.attach(hooks, streams, transcripts, environment.get("CRITIQOR_EVENT_SOURCE"))
    atexit.register(recorder.close)
    return recorder


def _tool_facts(event: Named, source: str) -> dict[str, Any]:
    known = told(
        name=event.get("toolName"),
        args=event.get("params"),
        result=event.get("result"),
        error=event.get("error"),
        durationMs=event.get("durationMs"),
    )
    return {"id": str(event["toolCallId"]), "source": source, **known}


def _end_facts(event: Named) -> dict[str, Any]:
    messages = event.get("messages")
    return told(
        success=event.get("success"),
        error=error_text(event) if event.get("error") else None,
        durationMs=event.get("durationMs"),
        messages=len(messages) if isinstance(messages, list) else None,
    )
