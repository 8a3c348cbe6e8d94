"""Chat commands: parsing of `/new`, `/reset`, `/stop` and `/compact` in a message, and what `/stop` and `/new` do."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from critiqor.agentloop.runs import Run
from critiqor.agentloop.services import Services

CommandName = Literal["new", "reset", "stop", "compact"]
_COMMAND = re.compile(r"\s*/(new|reset|stop|compact)(?:\s+(.*))?\s*", re.DOTALL)
_STOPPED = "Stopped."


class Command(NamedTuple):
    """A chat command and the text that follows it."""

    name: CommandName
    rest: str


def parse_command(message: str) -> Command | None:
    """Return the command that a message starts with, or None if the message is for the model."""
    found = _COMMAND.fullmatch(message)
    return Command(found[1], (found[2] or "").strip()) if found else None  # type: ignore[arg-type]


async def run_stop_command(run: Run, services: Services) -> list[str]:
    """Run the hooks of `/stop` and return the replies. The dispatcher has already aborted the other runs."""
    context = {"sessionId": run.session.id, "commandSource": run.params.channel or "agent"}
    result = await services.internal_hooks.emit("command", "stop", run.session.key, context)
    return [_STOPPED, *result.messages]


async def reset_session(run: Run, services: Services, command: Command) -> list[str]:
    """Start a new transcript under the same session key. Return the messages of internal hooks."""
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
    result = await services.internal_hooks.emit("command", command.name, old.key, context)
    if not command.rest:
        # With text after the command, the loop emits session_start when it answers that text.
        started = {"sessionId": run.session.id, "sessionKey": run.session.key, "resumedFrom": old.id}
        await services.hooks.run("session_start", started, run.context)
        run.session = run.session._replace(is_new=False)
    return result.messages
