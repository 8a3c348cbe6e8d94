"""The tools that one answer asks for, one after the other: each is announced, guarded, run, told of and saved.

Whatever happens, every call gets a result: a tool that does not exist, arguments that are not right, a plugin that says
no, a message that comes in between, and a run that is ended in the middle of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from critiqor.agentloop.event_streams import Stream
from critiqor.agentloop.recording.run_recording import ToolCallEnd
from critiqor.agentloop.runs import Run
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.messages import Text, ToolCall, ToolResultMessage
from critiqor.agentloop.sessions.transcript import Transcript
from critiqor.agentloop.sessions.transcript_entries import message_from, saved_form
from critiqor.agentloop.sessions.transcript_writer import ABORTED
from critiqor.agentloop.tools.registry import problem_with
from critiqor.agentloop.tools.results import error_words, failed, refused, sanitized, without_pictures
from critiqor.agentloop.tools.tool import Tool, ToolContext, ToolOutcome
from critiqor.model import now_ms

SKIPPED = "Skipped to process an incoming message."
_LAST_WORDS_SECONDS = 1.0
"""How long plugins may take to hear of a tool that was stopped."""


@dataclass(frozen=True, slots=True)
class Workbench:
    """What the tools of a run work with."""

    tools: Mapping[str, Tool]
    workspace: Path
    sandboxed: bool
    environment: dict[str, str]


@dataclass(slots=True)
class ToolRecord:
    """A tool call and what came of it, for whoever shapes the reply."""

    call: ToolCall
    outcome: ToolOutcome


class ToolBatch:
    """Runs the tool calls of one answer."""

    def __init__(self, run: Run, services: Services, bench: Workbench, transcript: Transcript) -> None:
        self._run = run
        self._services = services
        self._bench = bench
        self._transcript = transcript
        self.records: list[ToolRecord] = []
        self._answered = 0

    async def execute(self, calls: Sequence[ToolCall]) -> None:
        """Run them in order. When the run is ended meanwhile, the rest is answered without being run."""
        try:
            for call in calls:
                # A message that came meanwhile is told to the model before anything else is done.
                await (self._skip(call) if self._run.steering else self._run_one(call))
        except asyncio.CancelledError:
            for call in calls[self._answered :]:
                self._save(call, _aborted(call.name))
            raise

    async def _run_one(self, call: ToolCall) -> None:
        self._tell_start(call)
        tool = self._bench.tools.get(call.name)
        problem = problem_with(tool, call)
        if tool is None or problem is not None:
            await self._finish(call, call.arguments, refused(problem or ""), time.perf_counter())
            return
        event = {"toolName": call.name, "params": dict(call.arguments), "runId": self._run.id, "toolCallId": call.id}
        decision = await self._services.hooks.run("before_tool_call", event, self._run.context)
        arguments = decision.get("params") or call.arguments
        began = time.perf_counter()
        denied = _denial(decision)
        if denied is not None:
            await self._finish(call, arguments, failed(call.name, denied), began)
            return
        self._run.activity = "tool_call"
        try:
            outcome = sanitized(await self._guarded(tool, call, arguments))
        except asyncio.CancelledError:
            await self._stopped(call, arguments, began)
            raise
        finally:
            self._run.activity = None
        await self._finish(call, arguments, outcome, began)

    async def _guarded(self, tool: Tool, call: ToolCall, arguments: dict[str, Any]) -> ToolOutcome:
        try:
            return await tool.run(arguments, self._context(call))
        except Exception as error:
            return failed(call.name, f"{type(error).__name__}: {error}")

    async def _stopped(self, call: ToolCall, arguments: dict[str, Any], began: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                await self._tell_end(call, arguments, _aborted(call.name), began)

    async def _skip(self, call: ToolCall) -> None:
        self._tell_start(call)
        outcome = ToolOutcome(content=[Text(SKIPPED)], details={"status": "skipped"}, is_error=True)
        await self._finish(call, call.arguments, outcome, time.perf_counter())

    async def _finish(self, call: ToolCall, arguments: dict[str, Any], outcome: ToolOutcome, began: float) -> None:
        try:
            await self._tell_end(call, arguments, outcome, began)
        finally:
            self._save(call, outcome)
        self.records.append(ToolRecord(call, outcome))

    def _tell_start(self, call: ToolCall) -> None:
        self._run.recording.tool_call_started(call.id, call.name, call.arguments)
        self._emit("tool", phase="start", name=call.name, toolCallId=call.id, args=call.arguments)

    async def _tell_end(self, call: ToolCall, arguments: dict[str, Any], outcome: ToolOutcome, began: float) -> None:
        content = msgspec.to_builtins(without_pictures(outcome.content))
        result = {"content": content, "details": outcome.details}
        duration_ms = round((time.perf_counter() - began) * 1000)
        error = error_words(outcome)
        self._run.recording.tool_call_ended(call.id, ToolCallEnd(result, error, outcome.is_error, duration_ms))
        self._services.diagnostics.tool_ended(call.name, arguments, outcome.details, self._run.id)
        known = {"name": call.name, "toolCallId": call.id}
        self._emit("tool", phase="result", **known, isError=outcome.is_error, result=result)
        if "exitCode" in outcome.details:
            self._emit("command_output", phase="end", **_command(call), **_command_end(outcome))
        event: dict[str, Any] = {
            "toolName": call.name,
            "params": arguments,
            "runId": self._run.id,
            "toolCallId": call.id,
            "result": result,
            "durationMs": duration_ms,
        }
        if error is not None:
            event["error"] = error
        await self._services.hooks.run("after_tool_call", event, self._run.context)

    def _save(self, call: ToolCall, outcome: ToolOutcome) -> None:
        message = ToolResultMessage(
            tool_call_id=call.id,
            tool_name=call.name,
            content=outcome.content,
            details=outcome.details,
            is_error=outcome.is_error,
            timestamp=now_ms(),
        )
        hooks = self._services.hooks
        if hooks.listens("tool_result_persist"):
            event = {"toolName": call.name, "toolCallId": call.id, "message": saved_form(message)}
            changed = message_from(hooks.run_sync("tool_result_persist", event, self._run.context).get("message"))
            # It may change what the result says, not whose result it is.
            if isinstance(changed, ToolResultMessage):
                message = msgspec.structs.replace(changed, tool_call_id=call.id, tool_name=call.name)
        self._transcript.append(message)
        self._answered += 1

    def _context(self, call: ToolCall) -> ToolContext:
        def update(output: str) -> None:
            self._run.recording.tool_call_updated(call.id)
            self._emit("tool", phase="update", name=call.name, toolCallId=call.id)
            self._emit("command_output", phase="delta", **_command(call), output=output, status="running")

        session = self._run.session
        return ToolContext(
            run_id=self._run.id,
            session_key=session.key,
            agent_id=session.agent_id,
            tool_call_id=call.id,
            workspace=self._bench.workspace,
            sandboxed=self._bench.sandboxed,
            environment=self._bench.environment,
            update=update,
        )

    def _emit(self, stream: Stream, **data: Any) -> None:
        self._run.emit(self._services.streams, stream, **data)


def _aborted(tool: str) -> ToolOutcome:
    return ToolOutcome(
        content=[Text(ABORTED)], details={"status": "aborted", "tool": tool, "error": ABORTED}, is_error=True
    )


def _denial(decision: dict[str, Any]) -> str | None:
    """Why a plugin keeps a tool from being run. Nobody is there to approve anything, and silence is no approval."""
    if decision.get("block") is True:
        return str(decision.get("blockReason") or "blocked by a plugin")
    if decision.get("requireApproval") is not None:
        return "a plugin asks for an approval, and nobody can give one here"
    return None


def _command(call: ToolCall) -> dict[str, Any]:
    return {"itemId": f"command:{call.id}", "toolCallId": call.id, "name": call.name}


def _command_end(outcome: ToolOutcome) -> dict[str, Any]:
    details = outcome.details
    told: dict[str, Any] = {"output": details.get("aggregated", "")}
    told.update((name, details[name]) for name in ("status", "exitCode", "durationMs", "cwd") if name in details)
    return told
