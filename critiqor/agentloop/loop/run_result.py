"""The conclusion of a run: what is said to whoever asked, where it is delivered, and what the session remembers."""

from __future__ import annotations

from critiqor.agentloop.loop.agent_loop import LoopResult
from critiqor.agentloop.replies.reply_builder import Said, failure_text, shape_replies
from critiqor.agentloop.runs import Payload, Run, RunOutcome
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.messages import Usage
from critiqor.agentloop.tools.messaging import OutgoingMessage
from critiqor.model import now_ms


async def conclude(run: Run, services: Services, result: LoopResult) -> RunOutcome:
    """Shape the replies, deliver them where that is wanted, and remember what was used."""
    with services.diagnostics.span("agent.cleanup", run_id=run.id):
        failure = result.last.failure
        payloads = _payloads(services, result)
        remember(run, services, result)
        if run.blocks is not None:
            await run.blocks.drained()
        for payload in payloads if run.params.deliver else ():
            if run.blocks is None or not run.blocks.covers(payload.text):
                await deliver(run, services, payload.text)
    messages = result.last.messages
    resolved = result.dialled.resolved if result.dialled is not None else None
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


def remember(run: Run, services: Services, result: LoopResult) -> None:
    """Keep in the session what the run used and who answered."""
    entry, usage = run.session.entry, run.usage
    changes: dict[str, object] = {"aborted_last_run": False}
    if result.dialled is not None:
        resolved = result.dialled.resolved
        # What was fallen back to is for this run alone; the next one begins with the first model again.
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
    services.sessions.note(run.session, **changes)


def _payloads(services: Services, result: LoopResult) -> list[Payload]:
    last = result.last
    if result.claimed is not None:
        return [Payload(text=result.claimed)] if result.claimed else []
    if last.blocked is not None:
        return [Payload(text=last.blocked)]
    said = Said(
        messages=last.messages,
        tools=last.tools,
        error=failure_text(last.failure) if last.failure is not None else None,
    )
    verbose = result.prepared.verbose if result.prepared is not None else "off"
    return shape_replies(said, verbose=verbose, reasoning=services.configuration.defaults.reasoning_default == "on")


async def deliver(run: Run, services: Services, text: str) -> None:
    """Send something to whoever asked."""
    await services.outbox.send(
        OutgoingMessage(
            run_id=run.id,
            session_key=run.session.key,
            text=text,
            channel=run.params.channel,
            target=run.params.to,
        )
    )
