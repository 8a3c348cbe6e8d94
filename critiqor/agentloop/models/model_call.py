"""One model call: sends the request, collects the streamed answer, and reports start and end."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec

from critiqor.agentloop.models.model_client import Delta, ModelFailureError, ModelRequest, ModelStream
from critiqor.agentloop.models.model_connection import ModelConnection
from critiqor.agentloop.models.provider_errors import failover_reason_of
from critiqor.agentloop.models.response_builder import ResponseBuilder
from critiqor.agentloop.models.timeouts import IdleTimeout
from critiqor.agentloop.recording.run_recording import ModelCallEnd
from critiqor.agentloop.replies.delta_emitter import DeltaEmitter
from critiqor.agentloop.runs import Run
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.messages import AssistantMessage, StopReason, ToolCall, Usage
from critiqor.model import now_ms


class ModelCallError(Exception):
    """A model call failed; `partial` is the answer up to the failure."""

    def __init__(self, failure: ModelFailureError, partial: AssistantMessage) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.partial = partial


class ModelCall:
    """One call of a model. `name` is unique within the run, such as `model:1` or `compaction:1:model:1`.

    `emitter` publishes the text as it arrives. The answer of a call without an emitter is not saved in the transcript,
    so the usage is part of the hook event that ends the call.
    """

    def __init__(
        self, run: Run, services: Services, connection: ModelConnection, name: str, emitter: DeltaEmitter | None = None
    ) -> None:
        self._run = run
        self._services = services
        self._connection = connection
        self._id = f"{run.id}:{name}"
        self._emitter = emitter
        resolved = connection.resolved
        self._answer = ResponseBuilder(
            resolved.provider.id, resolved.model.id, resolved.provider.api, resolved.model.cost
        )
        self._began = time.perf_counter()
        self._began_ms = now_ms()
        self._first_byte_ms: float | None = None

    async def ask(self, request: ModelRequest) -> AssistantMessage:
        """Send the request and return the whole answer; raises `ModelCallError`.

        After a cancellation, `partial` returns the answer so far.
        """
        run, services = self._run, self._services
        facts = self._facts()
        await services.hooks.run("model_call_started", self._ids() | facts, self._ids())
        run.recording.model_call_started(facts)
        services.diagnostics.request_started(run.id, self._id)
        run.activity = "model_call"
        stream = self._connection.client.ask(request)
        try:
            async with IdleTimeout(self._connection.idle_seconds) as idle:
                async for delta in stream:
                    idle.reset()
                    self._add(delta)
            message = self._answer.message()
            if message.stop_reason == "error":
                raise ModelFailureError(message.error_message or "the model reported an error", "rejected")
        except asyncio.CancelledError:
            await self._ended(facts, stream, "aborted", "aborted")
            raise
        except TimeoutError:
            text = f"the model sent nothing for {self._connection.idle_seconds:g} seconds (idle timeout)"
            raise await self._failed(facts, stream, ModelFailureError(text, "timeout")) from None
        except ModelFailureError as failure:
            raise await self._failed(facts, stream, failure) from failure
        finally:
            run.activity = None
        await self._ended(facts, stream, message.stop_reason)
        return message

    @property
    def usage(self) -> Usage:
        """Tokens and cost so far, as far as the provider has reported them."""
        return self._answer.usage

    def partial(self, stop_reason: StopReason, error: str) -> AssistantMessage:
        """Return the answer so far, without incomplete tool calls."""
        message = self._answer.message(stop_reason=stop_reason, error=error)
        kept = [part for part in message.content if not isinstance(part, ToolCall)]
        return msgspec.structs.replace(message, content=kept)

    def _add(self, delta: Delta) -> None:
        if self._first_byte_ms is None:
            self._first_byte_ms = self._elapsed_ms()
        self._answer.add(delta)
        if self._emitter is not None:
            self._emitter.handle(delta)

    async def _failed(self, facts: dict[str, Any], stream: ModelStream, failure: ModelFailureError) -> ModelCallError:
        await self._ended(facts, stream, "error", failure.kind, failure)
        return ModelCallError(failure, self.partial("error", str(failure)))

    async def _ended(
        self,
        facts: dict[str, Any],
        stream: ModelStream,
        reason: StopReason,
        failed: str | None = None,
        failure: ModelFailureError | None = None,
    ) -> None:
        duration = self._elapsed_ms()
        end: dict[str, Any] = {
            "durationMs": round(duration),
            "outcome": "completed" if failed is None else "error",
            "requestPayloadBytes": stream.request_bytes,
            "responseStreamBytes": stream.response_bytes,
        }
        if self._first_byte_ms is not None:
            end["timeToFirstByteMs"] = round(self._first_byte_ms)
        if failed is not None:
            end |= {"errorCategory": failed, "failureKind": failed}
        self._run.recording.model_call_ended(self._recorded_end(facts | end, failure))
        if self._emitter is None:
            end["usage"] = msgspec.to_builtins(self._answer.usage)
            end |= {} if failure is None else {"error": str(failure)}
        resolved = self._connection.resolved
        self._services.diagnostics.request(
            resolved.provider.id,
            resolved.provider.api,
            resolved.model.id,
            self._run.id,
            self._id,
            self._began_ms,
            duration,
            failed is None,
            200 if failed is None else (failure.status if failure is not None else None),
            terminalReason=reason,
        )
        await self._services.hooks.run("model_call_ended", self._ids() | facts | end, self._ids())

    def _recorded_end(self, facts: dict[str, Any], failure: ModelFailureError | None) -> ModelCallEnd:
        usage = self._answer.usage
        error = str(failure) if failure is not None else None
        if self._emitter is None:
            return ModelCallEnd(facts, msgspec.to_builtins(usage), error)
        if failure is not None:
            # Nothing saves the usage of a failed answer, so OpenClaw's recorder does not know it either.
            why = {"failover_reason": failover_reason_of(failure.kind), "failure_kind": failure.kind}
            return ModelCallEnd(facts | why, None, error)
        counted = {"outputTokens": usage.output} if facts["outcome"] == "completed" else {}
        return ModelCallEnd(facts | counted, msgspec.to_builtins(usage), None)

    def _facts(self) -> dict[str, Any]:
        resolved = self._connection.resolved
        return {
            "callId": self._id,
            "provider": resolved.provider.id,
            "model": resolved.model.id,
            "api": resolved.provider.api,
            "transport": "auto",
            "contextTokenBudget": resolved.model.context_window,
            "contextWindowSource": "modelsConfig",
        }

    def _ids(self) -> dict[str, Any]:
        return {"runId": self._run.id, "sessionKey": self._run.session.key, "sessionId": self._run.session.id}

    def _elapsed_ms(self) -> float:
        return (time.perf_counter() - self._began) * 1000
