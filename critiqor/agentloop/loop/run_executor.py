"""Execution of a run that has left the queue: a chat command, an external agent, or the agent loop."""

from __future__ import annotations

from functools import partial

from critiqor.agentloop.loop.agent_loop import AgentLoop
from critiqor.agentloop.loop.commands import reset_session, run_stop_command
from critiqor.agentloop.loop.external_agent import ExternalAgent, run_external_agent
from critiqor.agentloop.loop.run_result import build_text_outcome, finish_run
from critiqor.agentloop.replies.block_streaming import BlockReplies
from critiqor.agentloop.replies.delivery import send_reply
from critiqor.agentloop.runs import Run, RunOutcome
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.messages import Text, UserMessage, build_injected_message
from critiqor.agentloop.sessions.transcript import locked_transcript
from critiqor.model import now_ms

_NEW_SESSION = "A new session has begun."


async def execute_run(run: Run, services: Services) -> RunOutcome:
    """Execute the command of a run, or answer its message."""
    command = run.command
    if run.external is not None:
        return await _answer_externally(run, services, run.external)
    if command is None:
        return await _answer(run, services)
    if command.name == "stop":
        return build_text_outcome(run, *await run_stop_command(run, services))
    if command.name == "compact":
        return await finish_run(run, services, await AgentLoop(run, services).compact())
    messages = await reset_session(run, services, command)
    if not command.rest:
        return build_text_outcome(run, *(messages or [_NEW_SESSION]))
    run.message = command.rest
    return await _answer(run, services)


async def _answer(run: Run, services: Services) -> RunOutcome:
    defaults = services.configuration.defaults
    if run.params.deliver and defaults.block_streaming_default == "on":
        send = partial(send_reply, run, services)
        run.blocks = BlockReplies(defaults.block_streaming_chunk, defaults.block_streaming_break, send)
    try:
        return await finish_run(run, services, await AgentLoop(run, services).execute())
    finally:
        if run.blocks is not None:
            run.blocks.close()


async def _answer_externally(run: Run, services: Services, agent: ExternalAgent) -> RunOutcome:
    """Let an external agent answer, and record message and answer in the transcript."""
    idle = services.configuration.defaults.external_idle_seconds
    async with locked_transcript(run, services) as transcript:
        run.recording.attempt_started(run.session.agent_id)
        run.emit(services.streams, "lifecycle", phase="start", startedAt=now_ms())
        transcript.append(UserMessage(content=[Text(run.message)], timestamp=now_ms()))
        text = await run_external_agent(run, agent, services.streams, idle)
        transcript.append(build_injected_message(text, "external", "external"))
    return build_text_outcome(run, text)
