"""The tool calls of one model message, run one after the other: validated, approved by hooks, run, emitted and saved.

Every call gets a result in the transcript, even in the case of an unknown tool, invalid arguments, a plugin that blocks
the call, a message that arrives in between, and an abort during the call.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from critiqor.agentloop.event_streams import Stream
from critiqor.agentloop.hooks.run_hooks import why_tool_is_denied
from critiqor.agentloop.recording.run_recording import ToolCallEnd
from critiqor.agentloop.runs import Run
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.messages import (
    Text,
    ToolCall,
    ToolResultMessage,
    message_from_json,
    message_to_json,
    without_images,
)
from critiqor.agentloop.sessions.transcript import ABORTED, Transcript
from critiqor.agentloop.tools.arguments import validation_error
from critiqor.agentloop.tools.results import error_line, failed, refused, truncate_result
from critiqor.agentloop.tools.tool import Tool, ToolContext, ToolOutcome, Workbench
from critiqor.model import now_ms

SKIPPED = "Tool call skipped because a new message arrived."
_ABORT_HOOK_SECONDS = 1.0
"""Time limit of `after_tool_call` handlers for a tool that was aborted."""


@dataclass(slots=True)
class ToolRecord:
    """A tool call and its outcome, for the reply builder."""

    call: ToolCall
    outcome: ToolOutcome


class ToolReporter:
    """Reports the tool calls of a run: to its recording, the event streams, the timeline, hooks and replies."""

    def __init__(self, run: Run, services: Services) -> None:
        self._run = run
        self._services = services

    async def ask_hooks(self, call: ToolCall) -> dict[str, Any]:
        """Return what plugins decide about a tool call before it runs."""
        event = {"toolName": call.name, "params": dict(call.arguments), "runId": self._run.id, "toolCallId": call.id}
        return await self._services.hooks.run("before_tool_call", event, self._run.context)

    def report_start(self, call: ToolCall) -> None:
        """Report that a tool is called."""
        self._run.recording.tool_call_started(call.id, call.name, call.arguments)
        self._emit("tool", phase="start", name=call.name, toolCallId=call.id, args=call.arguments)

    def report_update(self, call: ToolCall, output: str) -> None:
        """Report the output of a tool so far."""
        self._run.recording.tool_call_updated(call.id)
        self._emit("tool", phase="update", name=call.name, toolCallId=call.id)
        self._emit("command_output", phase="delta", **_command(call), output=output, status="running")

    async def report_result(
        self, call: ToolCall, arguments: dict[str, Any], outcome: ToolOutcome, began: float
    ) -> None:
        """Report the result of a tool call that began at `began`, in seconds of the performance counter."""
        content = msgspec.to_builtins(without_images(outcome.content))
        result = {"content": content, "details": outcome.details}
        duration_ms = round((time.perf_counter() - began) * 1000)
        error = error_line(outcome)
        self._run.recording.tool_call_ended(call.id, ToolCallEnd(result, error, outcome.is_error, duration_ms))
        self._services.diagnostics.tool_ended(call.name, arguments, outcome.details, self._run.id)
        ids = {"name": call.name, "toolCallId": call.id}
        self._emit("tool", phase="result", **ids, isError=outcome.is_error, result=result)
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

    def _emit(self, stream: Stream, **data: Any) -> None:
        self._run.emit(self._services.streams, stream, **data)


class ToolBatch:
    """The tool calls of one model message."""

    def __init__(self, run: Run, services: Services, bench: Workbench, transcript: Transcript) -> None:
        self._run = run
        self._services = services
        self._bench = bench
        self._transcript = transcript
        self._reporter = ToolReporter(run, services)
        self._answered = 0

    async def execute(self, calls: Sequence[ToolCall]) -> None:
        """Run the calls in order. When the run is aborted, the remaining calls get an error result."""
        try:
            for call in calls:
                # The model should see a new user message before it does anything else.
                await (self._skip(call) if self._run.steering else self._run_one(call))
        except asyncio.CancelledError:
            for call in calls[self._answered :]:
                self._save(call, _aborted(call.name))
            raise

    async def _run_one(self, call: ToolCall) -> None:
        self._reporter.report_start(call)
        tool = self._bench.tools.get(call.name)
        problem = validation_error(tool, call)
        if tool is None or problem is not None:
            await self._finish(call, call.arguments, refused(problem or ""), time.perf_counter())
            return
        decision = await self._reporter.ask_hooks(call)
        arguments = decision.get("params") or call.arguments
        began = time.perf_counter()
        denied = why_tool_is_denied(decision)
        if denied is not None:
            await self._finish(call, arguments, failed(call.name, denied), began)
            return
        self._run.activity = "tool_call"
        try:
            outcome = truncate_result(await self._run_tool(tool, call, arguments))
        except asyncio.CancelledError:
            await self._report_aborted(call, arguments, began)
            raise
        finally:
            self._run.activity = None
        await self._finish(call, arguments, outcome, began)

    async def _run_tool(self, tool: Tool, call: ToolCall, arguments: dict[str, Any]) -> ToolOutcome:
        try:
            return await tool.run(arguments, self._context(call))
        except Exception as error:
            return failed(call.name, f"{type(error).__name__}: {error}")

    async def _report_aborted(self, call: ToolCall, arguments: dict[str, Any], began: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ABORT_HOOK_SECONDS):
                await self._reporter.report_result(call, arguments, _aborted(call.name), began)

    async def _skip(self, call: ToolCall) -> None:
        self._reporter.report_start(call)
        outcome = ToolOutcome(content=[Text(SKIPPED)], details={"status": "skipped"}, is_error=True)
        await self._finish(call, call.arguments, outcome, time.perf_counter())

    async def _finish(self, call: ToolCall, arguments: dict[str, Any], outcome: ToolOutcome, began: float) -> None:
        try:
            await self._reporter.report_result(call, arguments, outcome, began)
        finally:
            self._save(call, outcome)
        self._run.replies.add_tool(ToolRecord(call, outcome))

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
        if hooks.has_handlers("tool_result_persist"):
            event = {"toolName": call.name, "toolCallId": call.id, "message": message_to_json(message)}
            changed = message_from_json(hooks.run_sync("tool_result_persist", event, self._run.context).get("message"))
            # A plugin may change the content of a result, but not which call it belongs to.
            if isinstance(changed, ToolResultMessage):
                message = msgspec.structs.replace(changed, tool_call_id=call.id, tool_name=call.name)
        self._transcript.append(message)
        self._answered += 1

    def _context(self, call: ToolCall) -> ToolContext:
        session, params = self._run.session, self._run.params
        return ToolContext(
            run_id=self._run.id,
            session_key=session.key,
            agent_id=session.agent_id,
            tool_call_id=call.id,
            workspace=self._bench.workspace,
            sandboxed=self._bench.sandboxed,
            environment=self._bench.environment,
            update=partial(self._reporter.report_update, call),
            channel=params.channel,
            target=params.to,
        )


def _aborted(tool: str) -> ToolOutcome:
    return ToolOutcome(
        content=[Text(ABORTED)], details={"status": "aborted", "tool": tool, "error": ABORTED}, is_error=True
    )


def _command(call: ToolCall) -> dict[str, Any]:
    return {"itemId": f"command:{call.id}", "toolCallId": call.id, "name": call.name}


def _command_end(outcome: ToolOutcome) -> dict[str, Any]:
    details = outcome.details
    data: dict[str, Any] = {"output": details.get("aggregated", "")}
    data.update((name, details[name]) for name in ("status", "exitCode", "durationMs", "cwd") if name in details)
    return data
