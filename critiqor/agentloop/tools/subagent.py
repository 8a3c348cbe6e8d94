"""The sessions_spawn tool: starts a child session that works on a task.

A callback starts the child and returns its session key and run id.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from critiqor.agentloop.tools.results import answered, failed
from critiqor.agentloop.tools.tool import ToolContext, ToolOutcome

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "required": ["task"],
    "properties": {
        "task": {"type": "string", "description": "Task for the subagent; it sees nothing of this conversation"},
        "label": {"type": "string", "description": "Short name of the subagent"},
        "agentId": {"type": "string", "description": "Agent to run the subagent as; default: this one"},
        "model": {"type": "string", "description": "PROVIDER/MODEL for the subagent"},
        "thinking": {"type": "string"},
    },
}


class SpawnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A child to start."""

    task: str
    label: str | None = None
    agent_id: str | None = None
    model: str | None = None
    thinking: str | None = None


class Spawned(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A child that was accepted and runs in the background."""

    child_session_key: str
    run_id: str


class SpawnError(Exception):
    """A child could not be started; the message is for the model."""


Spawn = Callable[[SpawnRequest, ToolContext], Awaitable[Spawned]]


class SpawnTool:
    """Starts a child session and does not wait for it."""

    name = "sessions_spawn"
    description = (
        "Start a child session that works on a task in the background; its answer is announced when it is done."
    )
    parameters = _PARAMETERS

    def __init__(self, spawn: Spawn) -> None:
        self._spawn = spawn

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Start the subagent."""
        if not arguments["task"].strip():
            return failed(self.name, "task required")
        request = SpawnRequest(
            task=arguments["task"],
            label=arguments.get("label"),
            agent_id=arguments.get("agentId"),
            model=arguments.get("model"),
            thinking=arguments.get("thinking"),
        )
        try:
            spawned = await self._spawn(request, context)
        except SpawnError as error:
            return failed(self.name, str(error))
        return answered({"status": "accepted", **msgspec.to_builtins(spawned)})
