"""The result of a run: its outcome, also as JSON, the delivery of its replies, and the update of its session."""

from __future__ import annotations

from typing import Any, Literal

from critiqor.agentloop.loop.agent_loop import LoopResult
from critiqor.agentloop.replies.reply_builder import failure_text
from critiqor.agentloop.replies.reply_pipeline import Replies
from critiqor.agentloop.runs import DeliveryStatus, Run, RunOutcome
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.messages import Usage
from critiqor.errors import format_error
from critiqor.model import now_ms


async def finish_run(run: Run, services: Services, result: LoopResult) -> RunOutcome:
    """Return the result of a run that has ended: update its session, build its replies and deliver them if asked to."""
    with services.diagnostics.span("agent.cleanup", run_id=run.id):
        failure = result.last.failure
        _update_session(run, services, result)
        replies = await _end_replies(run, result)
    messages = result.last.messages
    resolved = result.connection.resolved if result.connection is not None else None
    stop_reason = "blocked" if result.last.blocked is not None else (messages[-1].stop_reason if messages else "stop")
    return RunOutcome(
        run_id=run.id,
        session_key=run.session.key,
        session_id=run.session.id,
        status="ok" if failure is None else "error",
        payloads=replies.payloads,
        delivery=replies.delivery,
        usage=run.usage,
        provider=resolved.provider.id if resolved is not None else None,
        model=resolved.model.id if resolved is not None else None,
        stop_reason=stop_reason if failure is None else "error",
        error=str(failure) if failure is not None else None,
        started_at=run.started_at,
        ended_at=now_ms(),
    )


async def finish_with_texts(run: Run, *texts: str) -> RunOutcome:
    """Deliver replies that no model wrote, and return the outcome of the run."""
    return build_outcome(run, await run.replies.end_with(texts))


def build_outcome(run: Run, replies: Replies) -> RunOutcome:
    """Return the outcome of a run that was answered without a model of this loop."""
    return RunOutcome(
        run_id=run.id,
        session_key=run.session.key,
        session_id=run.session.id,
        status="ok",
        payloads=replies.payloads,
        delivery=replies.delivery,
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
        error=error if isinstance(error, str) else format_error(error),
        started_at=run.started_at,
        ended_at=now_ms(),
    )


def build_aborted_outcome(run: Run) -> RunOutcome:
    """Return the outcome of an aborted run, with the reason for the abort as its error."""
    return build_failed_outcome(run, run.abort.reason if run.abort is not None else "aborted")


def build_report(outcome: RunOutcome, transport: Literal["embedded", "gateway"] = "embedded") -> dict[str, Any]:
    """Return the outcome of a run in the format of `openclaw agent --json`; `transport` is where it was executed."""
    usage = outcome.usage
    report: dict[str, Any] = {
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
    if outcome.delivery is not None:
        report["deliveryStatus"] = _format_delivery(outcome.delivery)
    return report


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


async def _end_replies(run: Run, result: LoopResult) -> Replies:
    """Deliver the replies of a run."""
    last = result.last
    if result.direct_reply is not None:
        return await run.replies.end_with([result.direct_reply])
    if last.blocked is not None:
        return await run.replies.end_with([last.blocked])
    return await run.replies.end(failure_text(last.failure) if last.failure is not None else None)


def _format_delivery(delivery: DeliveryStatus) -> dict[str, Any]:
    """Return the status of a delivery in the format of `openclaw agent --json --deliver`."""
    succeeded: bool | str = delivery.error is None
    if delivery.status == "partial_failed":
        succeeded = "partial"
    status: dict[str, Any] = {
        "requested": True,
        "attempted": delivery.status != "suppressed",
        "status": delivery.status,
        "succeeded": succeeded,
        "resultCount": delivery.sent,
    }
    if delivery.error is not None:
        status |= {"error": True, "errorMessage": delivery.error}
    return status
