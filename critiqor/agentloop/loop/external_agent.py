"""External agents: other programs, such as a Codex app-server, that answer a message in place of the loop.

The loop still provides session, lanes, transcript, limits, plugin hooks and the delivery of replies. An external agent
that accepts a message and then shows no progress is aborted, so that it does not block its session forever.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from critiqor.agentloop.context.attempt_prompt import join_texts, run_prompt_hooks
from critiqor.agentloop.hooks.run_hooks import AttemptHooks, run_end_hooks, why_run_is_blocked, why_tool_is_denied
from critiqor.agentloop.loop.agent_loop import LoopResult, answer_by_plugin
from critiqor.agentloop.loop.attempt import AttemptResult
from critiqor.agentloop.loop.tool_batch import ToolRecord, ToolReporter
from critiqor.agentloop.models.timeouts import IdleTimeout
from critiqor.agentloop.recording.run_recording import AttemptEnd, AttemptTotals
from critiqor.agentloop.replies.delta_emitter import TextEmitter
from critiqor.agentloop.runs import Run
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.messages import Text, ToolCall, UserMessage, build_injected_message, message_to_json
from critiqor.agentloop.sessions.transcript import Transcript, locked_transcript
from critiqor.agentloop.tools.results import failed, succeeded, truncate_result
from critiqor.agentloop.tools.tool import ToolOutcome
from critiqor.errors import CritiqorError, format_error
from critiqor.model import now_ms

EXTERNAL = "external"
"""Provider and model of an answer that an external agent gave."""


class ExternalAgentStalledError(CritiqorError):
    """An external agent stopped making progress."""


class ExternalProgress:
    """Progress reports of an external agent."""

    def __init__(self, run: Run, services: Services, idle: IdleTimeout) -> None:
        self._run = run
        self._services = services
        self._idle = idle
        self._emitter = TextEmitter(run, services.streams)
        self._reporter = ToolReporter(run, services)
        self._calls: dict[str, tuple[ToolCall, float]] = {}
        """Tool calls in progress, and when they began."""

    @property
    def text(self) -> str:
        """The text so far."""
        return self._emitter.text

    def add_text(self, text: str) -> None:
        """Report more text of the external agent's answer."""
        self._idle.reset()
        self._emitter.add(text)

    def report(self, **facts: Any) -> None:
        """Report any other progress of the external agent."""
        self._idle.reset()
        self._run.emit(self._services.streams, "run_status", phase="progress", **facts)

    async def tool_started(self, call_id: str, name: str, arguments: dict[str, Any]) -> str | None:
        """Report a tool of the external agent before it runs. Return why a plugin denies it; None if it may run."""
        self._idle.reset()
        call = ToolCall(id=call_id, name=name, arguments=arguments)
        self._reporter.report_start(call)
        self._calls[call_id] = (call, time.perf_counter())
        denied = why_tool_is_denied(await self._reporter.ask_hooks(call))
        if denied is not None:
            await self._end_tool(call_id, failed(name, denied))
        return denied

    async def tool_ended(self, call_id: str, output: str, error: str | None = None) -> None:
        """Report the result of a tool that has started. `error` is why it failed."""
        self._idle.reset()
        if call_id in self._calls:
            name = self._calls[call_id][0].name
            await self._end_tool(call_id, truncate_result(succeeded(output) if error is None else failed(name, error)))

    def end(self, answer: str) -> None:
        """Report the whole answer, which replaces text that it does not begin with."""
        if not answer.startswith(self.text):
            self._run.emit(self._services.streams, "assistant", text="", delta="", replace=True)
            self._run.replies.restart()
            self._emitter = TextEmitter(self._run, self._services.streams)
        if len(answer) > len(self.text):
            self._emitter.add(answer[len(self.text) :])
        self._emitter.end()

    async def _end_tool(self, call_id: str, outcome: ToolOutcome) -> None:
        call, began = self._calls.pop(call_id)
        await self._reporter.report_result(call, call.arguments, outcome, began)
        self._run.replies.add_tool(ToolRecord(call, outcome))


class ExternalRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What an external agent receives."""

    run_id: str
    session_key: str
    session_id: str
    message: str
    """The message, with the text that plugins add to it."""
    system_prompt: str = ""
    """Instructions of plugins and of the caller; empty if there are none."""


ExternalAgent = Callable[[ExternalRequest, ExternalProgress], Awaitable[str]]
"""Answers a message and returns the whole answer. It is cancelled when the run is aborted."""


async def answer_externally(run: Run, services: Services, agent: ExternalAgent) -> LoopResult:
    """Let an external agent answer, with the hooks of any other agent run.

    Raises `ExternalAgentStalledError` when it reports no progress for `externalIdleSeconds`.
    """
    claimed = await answer_by_plugin(run, services)
    if claimed is not None:
        return claimed
    async with locked_transcript(run, services) as transcript:
        return await _ExternalTurn(run, services, transcript).execute(agent)


class _ExternalTurn:
    def __init__(self, run: Run, services: Services, transcript: Transcript) -> None:
        self._run = run
        self._services = services
        self._transcript = transcript
        self._began = time.perf_counter()

    async def execute(self, agent: ExternalAgent) -> LoopResult:
        """Run the hooks and the external agent, and save message and answer in the transcript."""
        run, services = self._run, self._services
        request = await self._build_request()
        run.recording.attempt_started(run.session.agent_id, run.params.trigger)
        blocked = await why_run_is_blocked(run, services, request.message, request.system_prompt)
        if blocked is not None:
            return LoopResult(last=AttemptResult(blocked=blocked))
        await self._report_input(request)
        run.emit(services.streams, "lifecycle", phase="start", startedAt=now_ms())
        self._transcript.append(UserMessage(content=[Text(run.message)], timestamp=now_ms()))
        try:
            text = await self._ask(agent, request)
        except asyncio.CancelledError:
            await self._report_end([], run.abort.reason if run.abort is not None else "aborted")
            raise
        except Exception as error:
            await self._report_end([], format_error(error))
            raise
        message = build_injected_message(text, EXTERNAL, EXTERNAL)
        self._transcript.append(message)
        run.replies.end_message(message)
        await self._report_end([text] if text else [], None)
        return LoopResult(last=AttemptResult(messages=[message]))

    async def _build_request(self) -> ExternalRequest:
        run = self._run
        decided = await run_prompt_hooks(run, self._services, self._transcript.messages)
        return ExternalRequest(
            run_id=run.id,
            session_key=run.session.key,
            session_id=run.session.id,
            message=join_texts(decided.get("prependContext"), run.message, decided.get("appendContext")),
            system_prompt=join_texts(
                decided.get("prependSystemContext"),
                decided.get("systemPrompt"),
                run.params.extra_system_prompt,
                decided.get("appendSystemContext"),
            ),
        )

    async def _ask(self, agent: ExternalAgent, request: ExternalRequest) -> str:
        seconds = self._services.configuration.defaults.external_idle_seconds
        try:
            async with IdleTimeout(seconds) as idle:
                progress = ExternalProgress(self._run, self._services, idle)
                answer = await agent(request, progress)
                progress.end(answer)
                return answer
        except TimeoutError:
            raise ExternalAgentStalledError(
                f"the external agent accepted the message and then made no progress for {seconds:g} seconds",
                fix="send the message again",
            ) from None

    async def _report_input(self, request: ExternalRequest) -> None:
        hooks, run = self._services.hooks, self._run
        if hooks.has_handlers("llm_input"):
            event = {
                "runId": run.id,
                "sessionId": run.session.id,
                "provider": EXTERNAL,
                "model": EXTERNAL,
                "systemPrompt": request.system_prompt,
                "prompt": request.message,
                "historyMessages": [message_to_json(message) for message in self._transcript.messages],
                "imagesCount": 0,
                "tools": [],
            }
            await hooks.run("llm_input", event, run.context)

    async def _report_end(self, texts: list[str], error: str | None) -> None:
        run, messages = self._run, self._transcript.messages
        duration_ms = round((time.perf_counter() - self._began) * 1000)
        totals = AttemptTotals(duration_ms, len(messages), None, EXTERNAL, EXTERNAL)
        aborted = run.abort is not None
        reason = "aborted" if aborted else ("stop" if error is None else None)
        data: dict[str, Any] = {"phase": "finishing", "aborted": aborted, "endedAt": now_ms()}
        data |= {"stopReason": reason} if reason is not None else {"error": error}
        run.emit(self._services.streams, "lifecycle", **data)
        run.recording.attempt_ended(AttemptEnd(error, reason, aborted, totals))
        output = {"provider": EXTERNAL, "model": EXTERNAL, "assistantTexts": texts}
        await run_end_hooks(run, self._services, AttemptHooks(messages, error, duration_ms, output))
