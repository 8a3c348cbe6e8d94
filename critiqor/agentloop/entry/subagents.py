"""Subagents: child sessions that a tool starts, and whose result is announced to the parent session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from critiqor.agentloop.entry.background_tasks import BackgroundTasks
from critiqor.agentloop.runs import AgentParams, RunOutcome
from critiqor.agentloop.tools.subagent import Spawned, SpawnError, SpawnRequest
from critiqor.agentloop.tools.tool import ToolContext
from critiqor.errors import CritiqorError

if TYPE_CHECKING:
    from critiqor.agentloop.entry.runtime import AgentRuntime


class Subagents:
    """Starts the subagents of a runtime."""

    def __init__(self, runtime: AgentRuntime, background: BackgroundTasks) -> None:
        self._runtime = runtime
        self._background = background

    async def spawn(self, request: SpawnRequest, context: ToolContext) -> Spawned:
        """Start a subagent. Raises `SpawnError` with a message for the model."""
        agent_id = request.agent_id or context.agent_id
        key = f"agent:{agent_id}:subagent:{uuid4()}"
        params = AgentParams(
            message=request.task,
            session_key=key,
            model=request.model,
            thinking=request.thinking,
            trigger="subagent",
        )
        try:
            accepted = await self._runtime.agent(params)
        except CritiqorError as error:
            raise SpawnError(error.message) from error
        event = {"runId": accepted.run_id, "childSessionKey": key, "agentId": agent_id, "mode": "run"}
        hook_context = {"runId": context.run_id, "childSessionKey": key, "requesterSessionKey": context.session_key}
        label = {"label": request.label} if request.label else {}
        await self._runtime.hooks.run("subagent_spawned", event | label, hook_context)
        self._background.start(self._announce_result(accepted.run_id, key, request, context))
        return Spawned(child_session_key=key, run_id=accepted.run_id)

    async def _announce_result(self, run_id: str, key: str, request: SpawnRequest, context: ToolContext) -> None:
        outcome = await self._runtime.outcome(run_id)
        ended: dict[str, Any] = {
            "targetSessionKey": key,
            "targetKind": "subagent",
            "reason": "subagent-complete" if outcome.status == "ok" else "subagent-error",
            "outcome": "killed" if outcome.aborted else outcome.status,
            "runId": run_id,
            "endedAt": outcome.ended_at,
        }
        if outcome.error is not None:
            ended["error"] = outcome.error
        hook_context = {"runId": run_id, "childSessionKey": key, "requesterSessionKey": context.session_key}
        await self._runtime.hooks.run("subagent_ended", ended, hook_context)
        try:
            await self._runtime.announce(context.session_key, _format_announcement(request, outcome))
        except (CritiqorError, OSError) as error:
            # A full queue or a full disk: the parent continues without the result, and the timeline says why.
            self._runtime.services.diagnostics.mark("subagent.unannounced", run_id=run_id, reason=str(error))


def _format_announcement(request: SpawnRequest, outcome: RunOutcome) -> str:
    """Return the message to the parent about a subagent that has ended."""
    name = request.label or " ".join(request.task.split())[:80]
    if outcome.status == "error":
        return f"The subagent {name!r} failed: {outcome.error}"
    text = "\n\n".join(payload.text for payload in outcome.payloads) or "(no reply)"
    return f"The subagent {name!r} has finished. Its reply:\n\n{text}"
