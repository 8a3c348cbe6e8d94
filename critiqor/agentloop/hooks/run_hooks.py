"""Plugin hooks of a run and its attempts: what they receive, and what their decisions mean for the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from critiqor.agentloop.runs import Run
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.messages import Message, message_to_json

HARNESS = "critiqor"
"""The id of this loop in hooks, where OpenClaw's is `openclaw`."""

BLOCKED = "This request was blocked."


async def why_run_is_blocked(run: Run, services: Services, prompt: str, system_prompt: str) -> str | None:
    """Run the hook `before_agent_run` of a run. Return the reply if a plugin blocks the run, else None."""
    event = {"prompt": prompt, "systemPrompt": system_prompt, "senderIsOwner": True}
    decided = await services.hooks.run("before_agent_run", event, run.context)
    if decided.get("outcome") != "block":
        return None
    return str(decided.get("message") or decided.get("reason") or BLOCKED)


class AttemptHooks(NamedTuple):
    """What the hooks at the end of an attempt report."""

    messages: Sequence[Message]
    """The conversation."""
    error: str | None
    duration_ms: int
    output: dict[str, Any]
    """Fields of `llm_output`: provider, model, texts, usage."""


async def run_end_hooks(run: Run, services: Services, ended: AttemptHooks) -> None:
    """Run the hooks `agent_end` and `llm_output` of a run after one of its attempts."""
    hooks = services.hooks
    if hooks.has_handlers("agent_end"):
        event: dict[str, Any] = {
            "runId": run.id,
            "messages": [message_to_json(message) for message in ended.messages],
            "success": ended.error is None,
            "durationMs": ended.duration_ms,
        }
        await hooks.run("agent_end", event | ({"error": ended.error} if ended.error is not None else {}), run.context)
    if hooks.has_handlers("llm_output"):
        output = {"runId": run.id, "sessionId": run.session.id, "harnessId": HARNESS, **ended.output}
        await hooks.run("llm_output", output, run.context)


def why_tool_is_denied(decision: dict[str, Any]) -> str | None:
    """Return why the hook before a tool call of a run denies the call; None if it may run.

    There is no approval prompt here, so a request for approval counts as a denial.
    """
    if decision.get("block") is True:
        return str(decision.get("blockReason") or "blocked by a plugin")
    if decision.get("requireApproval") is not None:
        return "a plugin requires approval, which the embedded agent loop cannot ask for; the call was denied"
    return None
