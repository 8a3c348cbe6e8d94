"""What a run does when it is its turn: a command, an external turn, or the loop."""

from __future__ import annotations

from functools import partial

from critiqor.agentloop.loop.agent_loop import Loop
from critiqor.agentloop.loop.commands import Command
from critiqor.agentloop.loop.external_turn import ExternalTurn, make_external_turn
from critiqor.agentloop.loop.run_result import conclude, deliver
from critiqor.agentloop.replies.block_streaming import BlockReplies
from critiqor.agentloop.runs import Payload, Run, RunOutcome
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.messages import Text, UserMessage
from critiqor.agentloop.sessions.transcript_entries import own_words
from critiqor.agentloop.sessions.transcript_writer import writing
from critiqor.model import now_ms

STOPPED = "Stopped."
FRESH = "A new session has begun."


async def do_work(run: Run, services: Services) -> RunOutcome:
    """Do what the message asks for."""
    with services.diagnostics.span("agent.turn", run_id=run.id, trigger=run.params.trigger):
        command = run.command
        if run.external is not None:
            return await _elsewhere(run, services, run.external)
        if command is None:
            return await _converse(run, services)
        if command.name == "stop":
            return await _stop(run, services)
        if command.name == "compact":
            return await conclude(run, services, await Loop(run, services).compact_only())
        messages = await _begin_anew(run, services, command)
        if not command.rest:
            return _said(run, *(messages or [FRESH]))
        run.message = command.rest
        return await _converse(run, services)


async def _converse(run: Run, services: Services) -> RunOutcome:
    defaults = services.configuration.defaults
    if run.params.deliver and defaults.block_streaming_default == "on":
        send = partial(deliver, run, services)
        run.blocks = BlockReplies(defaults.block_streaming_chunk, defaults.block_streaming_break, send)
    try:
        return await conclude(run, services, await Loop(run, services).execute())
    finally:
        if run.blocks is not None:
            run.blocks.close()


async def _elsewhere(run: Run, services: Services, turn: ExternalTurn) -> RunOutcome:
    """A turn that somebody else makes, written down like any other."""
    idle = services.configuration.defaults.external_idle_seconds
    async with writing(run, services) as transcript:
        run.recording.attempt_started(run.session.agent_id)
        run.emit(services.streams, "lifecycle", phase="start", startedAt=now_ms())
        transcript.append(UserMessage(content=[Text(run.message)], timestamp=now_ms()))
        text = await make_external_turn(run, turn, services.streams, idle)
        transcript.append(own_words(text, "external", "external"))
    return _said(run, text)


async def _stop(run: Run, services: Services) -> RunOutcome:
    """What was under way has been ended before this run got its turn."""
    context = {"sessionId": run.session.id, "commandSource": run.params.channel or "agent"}
    answer = await services.internal_hooks.emit("command", "stop", run.session.key, context)
    return _said(run, STOPPED, *answer.messages)


async def _begin_anew(run: Run, services: Services, command: Command) -> list[str]:
    """A new transcript under the same session key; returns what internal hooks want to say."""
    old = run.session
    facts = {"sessionFile": str(old.transcript), "reason": command.name}
    await services.hooks.run("before_reset", facts, run.context)
    ended = {"sessionId": old.id, "sessionKey": old.key, "reason": command.name, "sessionFile": str(old.transcript)}
    await services.hooks.run("session_end", ended, run.context)
    run.session = await services.sessions.reset(old)
    context = {
        "agentId": old.agent_id,
        "sessionEntry": {"sessionId": run.session.id},
        "previousSessionEntry": {"sessionId": old.id, "sessionFile": str(old.transcript)},
        "commandSource": run.params.channel or "agent",
    }
    answer = await services.internal_hooks.emit("command", command.name, old.key, context)
    if not command.rest:
        # Otherwise the conversation that follows tells of it.
        begun = {"sessionId": run.session.id, "sessionKey": run.session.key, "resumedFrom": old.id}
        await services.hooks.run("session_start", begun, run.context)
        run.session = run.session._replace(is_new=False)
    return answer.messages


def _said(run: Run, *texts: str) -> RunOutcome:
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
