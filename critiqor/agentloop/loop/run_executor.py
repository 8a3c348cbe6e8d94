"""Execution of a run that has left the queue: a chat command, an external agent, or the agent loop."""

from __future__ import annotations

from critiqor.agentloop.loop.agent_loop import AgentLoop
from critiqor.agentloop.loop.commands import reset_session, run_stop_command
from critiqor.agentloop.loop.external_agent import answer_externally
from critiqor.agentloop.loop.run_result import finish_run, finish_with_texts
from critiqor.agentloop.runs import Run, RunOutcome
from critiqor.agentloop.services import Services

_NEW_SESSION = "A new session has begun."


async def execute_run(run: Run, services: Services) -> RunOutcome:
    """Execute the command of a run, or answer its message."""
    command = run.command
    if run.external is not None:
        return await finish_run(run, services, await answer_externally(run, services, run.external))
    if command is None:
        return await finish_run(run, services, await AgentLoop(run, services).execute())
    if command.name == "stop":
        return await finish_with_texts(run, *await run_stop_command(run, services))
    if command.name == "compact":
        return await finish_run(run, services, await AgentLoop(run, services).compact())
    messages = await reset_session(run, services, command)
    if not command.rest:
        return await finish_with_texts(run, *(messages or [_NEW_SESSION]))
    for message in messages:
        run.replies.add_notice(message)
    run.message = command.rest
    return await finish_run(run, services, await AgentLoop(run, services).execute())
