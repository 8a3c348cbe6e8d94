"""One attempt at a run: turns of a model call and its tool calls, until the model asks for no more tools.

After a failed model call or a compaction the run makes a new attempt, which continues from the transcript: tools that
already ran are not run again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from critiqor.agentloop.context.attempt_prompt import AttemptPrompt
from critiqor.agentloop.context.preparation import PreparedRun
from critiqor.agentloop.context.token_budget import answer_tokens, compaction_threshold, used_tokens
from critiqor.agentloop.event_streams import Stream
from critiqor.agentloop.hooks.run_hooks import AttemptHooks, run_end_hooks
from critiqor.agentloop.loop.tool_batch import ToolBatch
from critiqor.agentloop.models.model_call import ModelCall, ModelCallError
from critiqor.agentloop.models.model_client import ModelFailureError, ModelRequest
from critiqor.agentloop.models.model_connection import ModelConnection
from critiqor.agentloop.models.provider_errors import failover_reason_of
from critiqor.agentloop.recording.run_recording import AttemptEnd, AttemptTotals
from critiqor.agentloop.replies.delta_emitter import DeltaEmitter
from critiqor.agentloop.runs import Run
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.messages import (
    AssistantMessage,
    Message,
    Text,
    Usage,
    UserMessage,
    add_usage,
)
from critiqor.agentloop.sessions.transcript import Transcript
from critiqor.model import now_ms


@dataclass(slots=True, kw_only=True)
class AttemptResult:
    """Result of one attempt."""

    messages: list[AssistantMessage] = field(default_factory=list)
    """Messages of the model, in order."""
    usage: Usage = field(default_factory=Usage)
    failure: ModelFailureError | None = None
    """Why the last model call failed."""
    partial: AssistantMessage | None = None
    """What the model had sent before the failure."""
    blocked: str | None = None
    """Reply of the plugin that blocked the run."""


class Attempt:
    """One attempt at a run. Call `execute` once."""

    def __init__(
        self, run: Run, services: Services, prepared: PreparedRun, transcript: Transcript, connection: ModelConnection
    ) -> None:
        self._run = run
        self._services = services
        self._prepared = prepared
        self._transcript = transcript
        self._connection = connection
        self._calls = 0
        self._began = time.perf_counter()
        self.result = AttemptResult()

    async def execute(self, prompt: AttemptPrompt, unsaved: UserMessage | None, output_before: int) -> AttemptResult:
        """Run turns until the model has answered or a model call fails.

        `unsaved` is the user message, if it is not in the transcript yet. `output_before` is the number of output
        tokens of earlier attempts.
        """
        run = self._run
        run.recording.attempt_started(run.session.agent_id, run.params.trigger)
        blocked = await prompt.gate()
        if blocked is not None:
            self.result.blocked = blocked
            return self.result
        await prompt.report_input(self._connection.resolved, self._transcript.messages)
        self._emit("lifecycle", phase="start", startedAt=now_ms())
        if unsaved is not None:
            self._transcript.append(unsaved)
        try:
            await self._run_turns(prompt, output_before)
        except ModelCallError as error:
            self.result.failure, self.result.partial = error.failure, error.partial
            self.result.usage = add_usage(self.result.usage, error.partial.usage)
            await self._finish(error.partial, error.failure)
        except asyncio.CancelledError:
            await self._finish(None, None)
            raise
        else:
            await self._finish(None, None)
        return self.result

    async def _run_turns(self, prompt: AttemptPrompt, output_before: int) -> None:
        while True:
            self._append_steering()
            message = await self._call_model(prompt)
            result = self.result
            result.usage = add_usage(result.usage, message.usage)
            self._emit("usage", outputTokens=output_before + result.usage.output)
            self._transcript.append(message)
            result.messages.append(message)
            self._run.replies.end_message(message)
            if message.tool_calls:
                await self._run_tools(message, prompt)
            elif not self._run.steering:
                # Messages that arrive from now on go to the next run.
                self._run.accepts_steering = False
                return

    async def _call_model(self, prompt: AttemptPrompt) -> AssistantMessage:
        self._check_budget(prompt)
        self._calls += 1
        emitter = DeltaEmitter(self._run, self._services.streams, self._connection.resolved)
        call = ModelCall(self._run, self._services, self._connection, f"model:{self._calls}", emitter)
        messages = prompt.with_context(self._transcript.messages)
        try:
            return await call.ask(self._request(prompt, messages))
        except asyncio.CancelledError:
            partial = call.partial("aborted", "aborted")
            self._transcript.append(partial)
            self.result.messages.append(partial)
            self.result.usage = add_usage(self.result.usage, partial.usage)
            raise

    def _check_budget(self, prompt: AttemptPrompt) -> None:
        """Raise `ModelCallError` if the context is too long for the next call, if `midTurnPrecheck` is on.

        The first call needs no check: the loop compacts before it if necessary.
        """
        settings = self._services.configuration.defaults.compaction
        if self._calls == 0 or not settings.mid_turn_precheck.enabled:
            return
        model = self._connection.resolved.model
        used = used_tokens(self._transcript.entries, prompt.fixed_tokens)
        if used > compaction_threshold(model, settings):
            failure = ModelFailureError(f"the context has grown to about {used} tokens", "context")
            raise ModelCallError(failure, _empty_message(self._connection, str(failure)))

    def _request(self, prompt: AttemptPrompt, messages: list[Message]) -> ModelRequest:
        resolved = self._connection.resolved
        used = used_tokens(self._transcript.entries, prompt.fixed_tokens)
        return ModelRequest(
            provider=resolved.provider.id,
            model=resolved.model.id,
            system_prompt=prompt.system_prompt,
            messages=messages,
            tools=prompt.schemas,
            max_tokens=answer_tokens(resolved.model, used),
            thinking=self._prepared.thinking if resolved.model.reasoning else "off",
        )

    async def _run_tools(self, message: AssistantMessage, prompt: AttemptPrompt) -> None:
        await ToolBatch(self._run, self._services, prompt.bench, self._transcript).execute(message.tool_calls)

    def _append_steering(self) -> None:
        """Append the messages that arrived during the last turn, in order of arrival."""
        run = self._run
        run.accepts_steering = True
        while run.steering:
            steered = run.steering.pop(0)
            run.joined.append(steered)
            self._transcript.append(UserMessage(content=[Text(steered.message)], timestamp=now_ms()))

    async def _finish(self, partial: AssistantMessage | None, failure: ModelFailureError | None) -> None:
        """Emit the end of the attempt, which is the end of the run unless another attempt follows."""
        run = self._run
        run.accepts_steering = False
        resolved = self._connection.resolved
        aborted = run.abort is not None
        last = self.result.messages[-1].stop_reason if self.result.messages else None
        data: dict[str, Any] = {"phase": "finishing", "aborted": aborted, "endedAt": now_ms()}
        if failure is not None:
            reason = failover_reason_of(failure.kind)
            observation = {
                "provider": resolved.provider.id,
                "model": resolved.model.id,
                "failoverReason": reason,
                "providerRuntimeFailureKind": failure.kind,
            }
            data |= {"error": str(failure), "errorObservation": observation, "livenessState": "blocked"}
        else:
            data |= {"stopReason": "aborted" if aborted else last, "livenessState": "working"}
        self._emit("lifecycle", **data)
        messages = [*self._transcript.messages, *([partial] if partial is not None else [])]
        error = run.abort.reason if run.abort is not None else (str(failure) if failure is not None else None)
        duration_ms = round((time.perf_counter() - self._began) * 1000)
        provider, model = resolved.provider.id, resolved.model.id
        totals = AttemptTotals(duration_ms, len(messages), _format_usage(self.result.usage), provider, model)
        run.recording.attempt_ended(AttemptEnd(error, data.get("stopReason"), aborted, totals))
        await self._run_end_hooks(messages, error, duration_ms)

    async def _run_end_hooks(self, messages: Sequence[Message], error: str | None, duration_ms: int) -> None:
        resolved = self._connection.resolved
        output: dict[str, Any] = {
            "provider": resolved.provider.id,
            "model": resolved.model.id,
            "contextTokenBudget": resolved.model.context_window,
            "contextWindowSource": "modelsConfig",
            "resolvedRef": resolved.reference,
            "assistantTexts": [message.text for message in self.result.messages if message.text],
        }
        usage = _format_usage(self.result.usage)
        if usage is not None:
            output["usage"] = usage
        await run_end_hooks(self._run, self._services, AttemptHooks(messages, error, duration_ms, output))

    def _emit(self, stream: Stream, **data: Any) -> None:
        self._run.emit(self._services.streams, stream, **data)


def _format_usage(usage: Usage) -> dict[str, Any] | None:
    """Return the usage of an attempt for hooks and records; None if no model reported any."""
    if not usage.total_tokens:
        return None
    return {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "total": usage.total_tokens,
        "cost": {"total": usage.cost.total},
    }


def _empty_message(connection: ModelConnection, error: str) -> AssistantMessage:
    resolved = connection.resolved
    return AssistantMessage(
        content=[],
        provider=resolved.provider.id,
        model=resolved.model.id,
        api=resolved.provider.api,
        usage=Usage(),
        stop_reason="error",
        error_message=error,
        timestamp=now_ms(),
    )
