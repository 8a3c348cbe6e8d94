"""The loop of one run, from the moment in which it is its turn to what it has to say in the end.

Attempts follow each other until the model has answered: after a pause, with another model, or with a shorter history.
However it ends, the transcript is consistent: every tool call has a result, and what was cut off is marked.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from critiqor.agentloop.context.budget import limit_of, tokens_of, used_tokens
from critiqor.agentloop.context.compaction import Compactor, added
from critiqor.agentloop.context.preparation import Prepared, prepare
from critiqor.agentloop.context.prompting import Prompting, build_prompt
from critiqor.agentloop.event_streams import Stream
from critiqor.agentloop.loop.attempt import Attempt, AttemptResult
from critiqor.agentloop.models.model_call import Dialled
from critiqor.agentloop.models.model_client import ModelFailureError
from critiqor.agentloop.models.model_selection import dial
from critiqor.agentloop.models.retries import Fallback, Retries, Retry, reason_of
from critiqor.agentloop.runs import Run
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.messages import Text, UserMessage
from critiqor.agentloop.sessions.transcript import Transcript
from critiqor.agentloop.sessions.transcript_entries import own_words
from critiqor.agentloop.sessions.transcript_writer import writing
from critiqor.model import now_ms

MOST_COMPACTIONS = 2
"""Of one run, for a context that the provider refuses."""
SUMMARISED = "The history was summarised."
NOT_SUMMARISED = "The model could not summarise the history, which stays as it was."
NOTHING_TO_SUMMARISE = "There is nothing to summarise yet."


@dataclass(slots=True, kw_only=True)
class LoopResult:
    """What the attempts of a run came to."""

    last: AttemptResult
    dialled: Dialled | None = None
    """Who answered in the end."""
    prepared: Prepared | None = None
    claimed: str | None = None
    """What is answered instead of the model's words: by a plugin, or by the loop itself."""


class Loop:
    """Build it, and `execute` it once."""

    def __init__(self, run: Run, services: Services) -> None:
        self._run = run
        self._services = services
        self._output = 0
        """Tokens that the model has said, without those of summaries."""
        self._overflows = 0
        self._compactions = 0
        """Begun, whether they were completed or not."""
        self._compacted = 0

    async def execute(self) -> LoopResult:
        """Run to the end; raises what nothing can be done about. Cancelling it ends the run."""
        run, services = self._run, self._services
        if run.session.is_new:
            event = {"sessionId": run.session.id, "sessionKey": run.session.key}
            await services.hooks.run("session_start", event, run.context)
        claim = await services.hooks.run("before_agent_reply", {"cleanedBody": run.message}, run.context)
        if claim.get("handled"):
            async with writing(run, services) as transcript:
                return self._claimed(claim, transcript)
        with services.diagnostics.span("agent.prepare", run_id=run.id):
            prepared = await prepare(run, services)
        async with writing(run, services, str(prepared.bench.workspace)) as transcript:
            return await self._attempts(prepared, transcript)

    async def compact_only(self) -> LoopResult:
        """Summarise the history, whether it is long or not."""
        run, services = self._run, self._services
        prepared = await prepare(run, services)
        async with writing(run, services, str(prepared.bench.workspace)) as transcript:
            prompting = await build_prompt(run, services, prepared, transcript.messages)
            dialled = dial(services, run.params, prepared.models[0])
            compacted = await self._compact(transcript, prompting, dialled, "manual")
        said = SUMMARISED if compacted else NOT_SUMMARISED if self._compactions else NOTHING_TO_SUMMARISE
        return LoopResult(last=AttemptResult(), dialled=dialled, prepared=prepared, claimed=said)

    def _claimed(self, claim: dict[str, Any], transcript: Transcript) -> LoopResult:
        reply = claim.get("reply")
        text = str(reply.get("text") or "") if isinstance(reply, dict) else ""
        self._run.recording.attempt_started(self._run.session.agent_id)
        self._emit("lifecycle", phase="start", startedAt=now_ms())
        if text:
            transcript.append(UserMessage(content=[Text(self._run.message)], timestamp=now_ms()))
            transcript.append(own_words(text))
        return LoopResult(last=AttemptResult(), claimed=text)

    async def _attempts(self, prepared: Prepared, transcript: Transcript) -> LoopResult:
        run, services = self._run, self._services
        asked: UserMessage | None = prepared.asked
        retries = Retries(services.configuration.defaults.retry, prepared.models)
        self._note_changes(prepared, transcript)
        while True:
            dialled = dial(services, run.params, retries.model)
            prompting = await build_prompt(run, services, prepared, transcript.messages)
            if prepared.trace:
                self._emit("run_status", phase="trace", report=prompting.report(prepared))
            if asked is not None:
                await self._make_room(dialled, prompting, transcript, asked)
            attempt = Attempt(run, services, prepared, transcript, dialled)
            try:
                result = await attempt.execute(prompting, asked, self._output)
            finally:
                run.usage = added(run.usage, attempt.result.usage)
            self._output += result.usage.output
            if result.failure is None:
                break
            asked = None
            if not await self._recovers(result.failure, retries, transcript, prompting, dialled):
                if result.partial is not None:
                    transcript.append(result.partial)
                break
            # Whatever this attempt has said counts as not said, because the next one says it.
            self._emit("assistant", text="", delta="", replace=True)
            if run.blocks is not None:
                run.blocks.reset()
        return LoopResult(last=result, dialled=dialled, prepared=prepared)

    async def _recovers(
        self,
        failure: ModelFailureError,
        retries: Retries,
        transcript: Transcript,
        prompting: Prompting,
        dialled: Dialled,
    ) -> bool:
        """Do what a failure asks for before the next attempt; False where there is none."""
        if failure.kind == "context" and self._overflows < MOST_COMPACTIONS:
            self._overflows += 1
            if await self._compact(transcript, prompting, dialled, "overflow"):
                return True
        return await self._goes_on(retries, failure)

    async def _make_room(
        self, dialled: Dialled, prompting: Prompting, transcript: Transcript, asked: UserMessage
    ) -> None:
        """Summarise history before the first request, where that would not fit otherwise."""
        settings = self._services.configuration.defaults.compaction
        used = used_tokens(transcript.entries, prompting.fixed_tokens) + tokens_of(asked)
        if settings.enabled and used > limit_of(dialled.resolved.model, settings):
            await self._compact(transcript, prompting, dialled, "threshold")

    async def _compact(self, transcript: Transcript, prompting: Prompting, dialled: Dialled, reason: str) -> bool:
        run, services = self._run, self._services
        settings = services.configuration.defaults.compaction
        window = dialled.resolved.model.context_window
        if settings.model is not None:
            dialled = dial(services, run.params, services.configuration.resolve(settings.model))
        compactor = Compactor(run, services, transcript, prompting.fixed_tokens, self._compactions + 1)
        try:
            used = await compactor.compact(dialled, window, reason, will_retry=reason == "overflow")
        finally:
            self._compactions += compactor.has_begun
            run.usage = added(run.usage, compactor.usage)
        if used is None:
            return False
        self._compacted += 1
        count = run.session.entry.compaction_count + self._compacted
        services.sessions.note(run.session, compaction_count=count, context_tokens=used)
        return True

    async def _goes_on(self, retries: Retries, failure: ModelFailureError) -> bool:
        """Wait or change the model, as the failure asks for; False where it is the end."""
        before = retries.model.reference
        step = retries.after(failure)
        reason = reason_of(failure.kind)
        mark = self._services.diagnostics.mark
        if isinstance(step, Retry):
            seconds = step.delay_ms / 1000
            mark("model.retry.decision", run_id=self._run.id, reason=reason, delayMs=round(step.delay_ms))
            retry = {
                "phase": "retrying",
                "message": f"{before} failed ({reason}). Retrying in {seconds:.3g}s ({step.number}/{step.most}).",
                "retryAttempt": step.number,
                "maxRetries": step.most,
                "delayMs": round(step.delay_ms),
                "attempt": step.number + 1,
                "maxAttempts": step.most + 1,
                "reason": reason,
            }
            self._run.recording.provider_retry(retry)
            self._emit("run_status", **retry)
            await asyncio.sleep(seconds)
            return True
        if isinstance(step, Fallback):
            mark("model.recovery.decision", run_id=self._run.id, reason=reason, fallback=step.model.reference)
            known = {"fallbackStepFromModel": before, "fallbackStepToModel": step.model.reference}
            self._emit("lifecycle", phase="fallback_step", **known, fallbackStepFromFailureReason=reason)
            return True
        return False

    def _note_changes(self, prepared: Prepared, transcript: Transcript) -> None:
        entry, first = self._run.session.entry, prepared.models[0]
        is_begun = transcript.message_count > 0
        if not is_begun or (entry.model_provider, entry.model) != (first.provider.id, first.model.id):
            transcript.note_model(first.provider.id, first.model.id)
        if not is_begun or entry.thinking_level != prepared.thinking:
            transcript.note_thinking(prepared.thinking)

    def _emit(self, stream: Stream, **data: Any) -> None:
        self._run.emit(self._services.streams, stream, **data)
