"""The result of a run: its outcome, also as JSON, the delivery of its replies, and the update of its session."""

from __future__ import annotations

from typing import Any, Literal

from critiqor.agentloop.loop.agent_loop import LoopResult
from critiqor.agentloop.replies.delivery import send_reply
from critiqor.agentloop.replies.reply_builder import RunOutput, build_replies, failure_text
from critiqor.agentloop.runs import Payload, Run, RunOutcome
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.messages import Usage
from critiqor.errors import CritiqorError
from critiqor.model import now_ms


async def finish_run(run: Run, services: Services, result: LoopResult) -> RunOutcome:
    """Build the replies of a run, deliver them if requested, update the session and return the outcome."""
    with services.diagnostics.span("agent.cleanup", run_id=run.id):
        failure = result.last.failure
        payloads = _build_payloads(services, result)
        _update_session(run, services, result)
        if run.blocks is not None:
            await run.blocks.wait_until_sent()
        for payload in payloads if run.params.deliver else ():
            if run.blocks is None or not run.blocks.has_delivered(payload.text):
                await send_reply(run, services, payload.text)
    messages = result.last.messages
    resolved = result.connection.resolved if result.connection is not None else None
    stop_reason = "blocked" if result.last.blocked is not None else (messages[-1].stop_reason if messages else "stop")
    return RunOutcome(
        run_id=run.id,
        session_key=run.session.key,
        session_id=run.session.id,
        status="ok" if failure is None else "error",
        payloads=payloads,
        usage=run.usage,
        provider=resolved.provider.id if resolved is not None else None,
        model=resolved.model.id if resolved is not None else None,
        stop_reason=stop_reason if failure is None else "error",
        error=str(failure) if failure is not None else None,
        started_at=run.started_at,
        ended_at=now_ms(),
    )


def build_text_outcome(run: Run, *texts: str) -> RunOutcome:
    """Return the outcome of a run that was answered without the model."""
    return RunOutcome(
        run_id=run.id,
        session_key=run.session.key,
        session_id=run.session.id,
        status="ok",
        payloads=[Payload(text=text) for text in texts],
        stop_reason="stop",
        started_at=run.started_at,
        ended_at=now_ms(),
    )


def build_failed_outcome(run: Run, error: str | BaseException) -> RunOutcome:
    """Return the outcome of a run that was aborted or raised an exception."""
    return RunOutcome(
        run_id=run.id,
        session_key=run.session.key,
        session_id=run.session.id,
        status="error",
        usage=run.usage,
        stop_reason="error" if run.abort is None else "aborted",
        aborted=run.abort is not None,
        abort_kind=run.abort.kind if run.abort is not None else None,
        error=error if isinstance(error, str) else _format_error(error),
        started_at=run.started_at,
        ended_at=now_ms(),
    )


def build_aborted_outcome(run: Run) -> RunOutcome:
    """Return the outcome of an aborted run, with the reason for the abort as its error."""
    return build_failed_outcome(run, run.abort.reason if run.abort is not None else "aborted")


def build_report(outcome: RunOutcome, transport: Literal["embedded", "gateway"] = "embedded") -> dict[str, Any]:
    """Return the outcome of a run in the format of `openclaw agent --json`; `transport` is where it was executed."""
    usage = outcome.usage
    return {
        "payloads": [
            {"text": payload.text, "mediaUrl": None, "isError": payload.is_error} for payload in outcome.payloads
        ],
        "meta": {
            "runId": outcome.run_id,
            "durationMs": outcome.ended_at - (outcome.started_at or outcome.ended_at),
            "aborted": outcome.aborted,
            "stopReason": outcome.stop_reason,
            "error": outcome.error,
            "agentMeta": {
                "sessionId": outcome.session_id,
                "sessionKey": outcome.session_key,
                "provider": outcome.provider,
                "model": outcome.model,
                "usage": {
                    "input": usage.input,
                    "output": usage.output,
                    "cacheRead": usage.cache_read,
                    "cacheWrite": usage.cache_write,
                    "total": usage.total_tokens,
                    "cost": usage.cost.total,
                },
            },
            "transport": transport,
        },
    }


def _update_session(run: Run, services: Services, result: LoopResult) -> None:
    """Save the model and the token usage of the run in its session entry."""
    entry, usage = run.session.entry, run.usage
    changes: dict[str, object] = {"aborted_last_run": False}
    if result.connection is not None:
        resolved = result.connection.resolved
        # For information only: a fallback is not sticky, the next run starts with the primary model again.
        changes |= {"model_provider": resolved.provider.id, "model": resolved.model.id}
        changes |= {"auth_profile": f"{resolved.provider.id}:default"}
    if usage != Usage():
        changes |= {
            "input_tokens": entry.input_tokens + usage.input,
            "output_tokens": entry.output_tokens + usage.output,
            "total_tokens": entry.total_tokens + usage.total_tokens,
        }
    if result.last.messages and (last := result.last.messages[-1].usage.total_tokens):
        changes["context_tokens"] = last
    services.sessions.update(run.session, **changes)


def _build_payloads(services: Services, result: LoopResult) -> list[Payload]:
    last = result.last
    if result.direct_reply is not None:
        return [Payload(text=result.direct_reply)] if result.direct_reply else []
    if last.blocked is not None:
        return [Payload(text=last.blocked)]
    output = RunOutput(
        messages=last.messages,
        tools=last.tools,
        error=failure_text(last.failure) if last.failure is not None else None,
    )
    verbose = result.prepared.verbose if result.prepared is not None else "off"
    return build_replies(output, verbose=verbose, reasoning=services.configuration.defaults.reasoning_default == "on")


def _format_error(error: BaseException) -> str:
    """Return an exception as one line of text."""
    return error.message if isinstance(error, CritiqorError) else f"{type(error).__name__}: {error}"
