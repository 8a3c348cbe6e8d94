"""The agent loop of one run: preparation, attempts with retries and fallbacks, and compaction of the history.

Attempts repeat until the model has answered: after a delay, with a fallback model, or with a compacted history. The
transcript is consistent however the run ends: each tool call has a result, and partial messages are marked.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from critiqor.agentloop.context.attempt_prompt import AttemptPrompt, build_prompt
from critiqor.agentloop.context.compaction import Compactor
from critiqor.agentloop.context.preparation import PreparedRun, prepare
from critiqor.agentloop.context.token_budget import compaction_threshold, message_tokens, used_tokens
from critiqor.agentloop.event_streams import Stream
from critiqor.agentloop.loop.attempt import Attempt, AttemptResult
from critiqor.agentloop.models.model_client import ModelFailureError
from critiqor.agentloop.models.model_connection import ModelConnection, connect_model
from critiqor.agentloop.models.model_selection import resolve_model
from critiqor.agentloop.models.provider_errors import failover_reason_of
from critiqor.agentloop.models.retries import Fallback, Retries, Retry
from critiqor.agentloop.runs import Run
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.messages import Text, UserMessage, add_usage, build_injected_message
from critiqor.agentloop.sessions.transcript import Transcript, locked_transcript
from critiqor.model import now_ms

MAX_OVERFLOW_COMPACTIONS = 2
"""Per run, after the provider rejected a request because the context was too long."""
SUMMARISED = "The history was summarised."
NOT_SUMMARISED = "The model could not summarise the history, so it is unchanged."
NOTHING_TO_SUMMARISE = "There is nothing to summarise yet."


@dataclass(slots=True, kw_only=True)
class LoopResult:
    """Result of all attempts of a run."""

    last: AttemptResult
    """The last attempt."""
    connection: ModelConnection | None = None
    """The model of the last attempt."""
    prepared: PreparedRun | None = None
    direct_reply: str | None = None
    """Reply of a plugin or of the loop itself, in place of a model's answer; empty for no reply."""


class AgentLoop:
    """The loop of one run. Call `execute` or `compact` once."""

    def __init__(self, run: Run, services: Services) -> None:
        self._run = run
        self._services = services
        self._output = 0
        """Output tokens of the finished attempts, without compactions."""
        self._overflows = 0
        self._compactions = 0
        """Compactions that were started, whether they completed or not."""
        self._compacted = 0

    async def execute(self) -> LoopResult:
        """Answer the message of the run. Raises exceptions that a retry cannot fix; cancelling it ends the run."""
        run, services = self._run, self._services
        claimed = await answer_by_plugin(run, services)
        if claimed is not None:
            return claimed
        with services.diagnostics.span("agent.prepare", run_id=run.id):
            prepared = await prepare(run, services)
        async with locked_transcript(run, services, str(prepared.bench.workspace)) as transcript:
            return await self._run_attempts(prepared, transcript)

    async def compact(self) -> LoopResult:
        """Summarise the history, regardless of its length."""
        run, services = self._run, self._services
        prepared = await prepare(run, services)
        async with locked_transcript(run, services, str(prepared.bench.workspace)) as transcript:
            prompt = await build_prompt(run, services, prepared, transcript.messages)
            connection = connect_model(services, run.params, prepared.models[0])
            compacted = await self._compact(transcript, prompt, connection, "manual")
        reply = SUMMARISED if compacted else NOT_SUMMARISED if self._compactions else NOTHING_TO_SUMMARISE
        return LoopResult(last=AttemptResult(), connection=connection, prepared=prepared, direct_reply=reply)

    async def _run_attempts(self, prepared: PreparedRun, transcript: Transcript) -> LoopResult:
        run, services = self._run, self._services
        unsaved: UserMessage | None = prepared.message
        retries = Retries(services.configuration.defaults.retry, prepared.models)
        self._record_changes(prepared, transcript)
        while True:
            connection = connect_model(services, run.params, retries.model)
            prompt = await build_prompt(run, services, prepared, transcript.messages)
            if prepared.trace:
                self._emit("run_status", phase="trace", report=prompt.report(prepared))
            if unsaved is not None:
                await self._compact_if_needed(connection, prompt, transcript, unsaved)
            attempt = Attempt(run, services, prepared, transcript, connection)
            try:
                result = await attempt.execute(prompt, unsaved, self._output)
            finally:
                run.usage = add_usage(run.usage, attempt.result.usage)
            self._output += result.usage.output
            if result.failure is None:
                break
            unsaved = None
            if not await self._recover(result.failure, retries, transcript, prompt, connection):
                if result.partial is not None:
                    transcript.append(result.partial)
                break
            # The next attempt answers again, so listeners discard the text of this one.
            self._emit("assistant", text="", delta="", replace=True)
            run.replies.restart()
        return LoopResult(last=result, connection=connection, prepared=prepared)

    async def _recover(
        self,
        failure: ModelFailureError,
        retries: Retries,
        transcript: Transcript,
        prompt: AttemptPrompt,
        connection: ModelConnection,
    ) -> bool:
        """Compact, wait or change the model before the next attempt. Return False if there is no next attempt."""
        if failure.kind == "context" and self._overflows < MAX_OVERFLOW_COMPACTIONS:
            self._overflows += 1
            if await self._compact(transcript, prompt, connection, "overflow"):
                return True
        return await self._retry_or_fall_back(retries, failure)

    async def _compact_if_needed(
        self, connection: ModelConnection, prompt: AttemptPrompt, transcript: Transcript, unsaved: UserMessage
    ) -> None:
        """Compact the history before the first request if the request would not fit otherwise."""
        settings = self._services.configuration.defaults.compaction
        used = used_tokens(transcript.entries, prompt.fixed_tokens) + message_tokens(unsaved)
        if settings.enabled and used > compaction_threshold(connection.resolved.model, settings):
            await self._compact(transcript, prompt, connection, "threshold")

    async def _compact(
        self, transcript: Transcript, prompt: AttemptPrompt, connection: ModelConnection, reason: str
    ) -> bool:
        run, services = self._run, self._services
        settings = services.configuration.defaults.compaction
        window = connection.resolved.model.context_window
        if settings.model is not None:
            connection = connect_model(services, run.params, resolve_model(services.configuration, settings.model))
        compactor = Compactor(run, services, transcript, prompt.fixed_tokens, self._compactions + 1)
        try:
            used = await compactor.compact(connection, window, reason, will_retry=reason == "overflow")
        finally:
            self._compactions += compactor.has_begun
            run.usage = add_usage(run.usage, compactor.usage)
        if used is None:
            return False
        self._compacted += 1
        count = run.session.entry.compaction_count + self._compacted
        services.sessions.update(run.session, compaction_count=count, context_tokens=used)
        return True

    async def _retry_or_fall_back(self, retries: Retries, failure: ModelFailureError) -> bool:
        """Wait or change the model, depending on the failure. Return False if the run must fail."""
        before = retries.model.reference
        decision = retries.after(failure)
        reason = failover_reason_of(failure.kind)
        mark = self._services.diagnostics.mark
        if isinstance(decision, Retry):
            seconds = decision.delay_ms / 1000
            mark("model.retry.decision", run_id=self._run.id, reason=reason, delayMs=round(decision.delay_ms))
            progress = f"{decision.number}/{decision.max_retries}"
            retry = {
                "phase": "retrying",
                "message": f"{before} failed ({reason}). Retrying in {seconds:.3g}s ({progress}).",
                "retryAttempt": decision.number,
                "maxRetries": decision.max_retries,
                "delayMs": round(decision.delay_ms),
                "attempt": decision.number + 1,
                "maxAttempts": decision.max_retries + 1,
                "reason": reason,
            }
            self._run.recording.provider_retry(retry)
            self._emit("run_status", **retry)
            await asyncio.sleep(seconds)
            return True
        if isinstance(decision, Fallback):
            mark("model.recovery.decision", run_id=self._run.id, reason=reason, fallback=decision.model.reference)
            known = {"fallbackStepFromModel": before, "fallbackStepToModel": decision.model.reference}
            self._emit("lifecycle", phase="fallback_step", **known, fallbackStepFromFailureReason=reason)
            return True
        return False

    def _record_changes(self, prepared: PreparedRun, transcript: Transcript) -> None:
        entry, first = self._run.session.entry, prepared.models[0]
        has_messages = transcript.message_count > 0
        if not has_messages or (entry.model_provider, entry.model) != (first.provider.id, first.model.id):
            transcript.append_model_change(first.provider.id, first.model.id)
        if not has_messages or entry.thinking_level != prepared.thinking:
            transcript.append_thinking_change(prepared.thinking)

    def _emit(self, stream: Stream, **data: Any) -> None:
        self._run.emit(self._services.streams, stream, **data)


async def answer_by_plugin(run: Run, services: Services) -> LoopResult | None:
    """Begin the session if it is new, then let a plugin answer in place of the model. Return None if none does."""
    if run.session.is_new:
        event = {"sessionId": run.session.id, "sessionKey": run.session.key}
        await services.hooks.run("session_start", event, run.context)
    claim = await services.hooks.run("before_agent_reply", {"cleanedBody": run.message}, run.context)
    if not claim.get("handled"):
        return None
    reply = claim.get("reply")
    text = str(reply.get("text") or "") if isinstance(reply, dict) else ""
    async with locked_transcript(run, services) as transcript:
        run.recording.attempt_started(run.session.agent_id)
        run.emit(services.streams, "lifecycle", phase="start", startedAt=now_ms())
        if text:
            transcript.append(UserMessage(content=[Text(run.message)], timestamp=now_ms()))
            transcript.append(build_injected_message(text))
    return LoopResult(last=AttemptResult(), direct_reply=text)
