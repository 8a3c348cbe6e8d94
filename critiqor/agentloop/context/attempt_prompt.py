"""Prompt of one attempt: the system prompt, the tools, and what plugins add to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from critiqor.agentloop.context.preparation import PreparedRun
from critiqor.agentloop.context.system_prompt import build_system_prompt
from critiqor.agentloop.context.token_budget import text_tokens
from critiqor.agentloop.hooks.hook_rules import merge_prompts
from critiqor.agentloop.hooks.run_hooks import why_run_is_blocked
from critiqor.agentloop.models.completion_requests import tool_schemas
from critiqor.agentloop.models.model_selection import ResolvedModel
from critiqor.agentloop.runs import Run
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.messages import Message, Text, UserMessage, message_to_json
from critiqor.agentloop.tools.tool import Tool


class AttemptPrompt:
    """Prompt of one attempt. Build it with `build_prompt`."""

    def __init__(self, run: Run, services: Services, prepared: PreparedRun, decided: dict[str, Any]) -> None:
        self._run = run
        self._services = services
        self._around = (decided.get("prependContext"), decided.get("appendContext"))
        self.message = prepared.message
        allowed = decided.get("toolsAllow")
        tools = {name: tool for name, tool in prepared.bench.tools.items() if allowed is None or name in allowed}
        self.system_prompt = _system_prompt(prepared, decided, list(tools.values()))
        self.bench = replace(prepared.bench, tools=tools)
        """The tools of the run that plugins allow."""
        self.schemas = tool_schemas(list(tools.values()))
        self.fixed_tokens = text_tokens(self.system_prompt) + len(msgspec.json.encode(self.schemas)) // 4
        """Estimated tokens of the system prompt and the tools, which are part of every request."""

    def report(self, prepared: PreparedRun) -> dict[str, Any]:
        """Return sizes and sources of the prompt, for a traced run."""
        sources = prepared.sources
        return {
            "model": sources.model,
            "thinking": prepared.thinking,
            "verbose": prepared.verbose,
            "workspaceDir": str(sources.workspace),
            "sandboxed": sources.sandboxed,
            "systemPromptChars": len(self.system_prompt),
            "skillsChars": len(sources.skills),
            "bootstrapFiles": [
                {"name": file.name, "missing": file.content is None, "chars": len(file.content or "")}
                for file in sources.bootstrap
            ],
            "tools": list(self.bench.tools),
            "fixedTokens": self.fixed_tokens,
        }

    async def gate(self) -> str | None:
        """Run the `before_agent_run` hook; returns the reply if a plugin blocks the run, else None."""
        return await why_run_is_blocked(self._run, self._services, self._prompt, self.system_prompt)

    async def report_input(self, resolved: ResolvedModel, history: list[Message]) -> None:
        """Report the prompt to the recording and to the `llm_input` hook."""
        hooks, run = self._services.hooks, self._run
        run.recording.prompt_built(self.system_prompt, list(self.bench.tools), len(history))
        if not hooks.has_handlers("llm_input"):
            return
        event = {
            "runId": run.id,
            "sessionId": run.session.id,
            "provider": resolved.provider.id,
            "model": resolved.model.id,
            "systemPrompt": self.system_prompt,
            "prompt": self._prompt,
            "historyMessages": [message_to_json(message) for message in history],
            "imagesCount": 0,
            "tools": [schema["function"] for schema in self.schemas],
        }
        await hooks.run("llm_input", event, run.context)

    def with_context(self, messages: list[Message]) -> list[Message]:
        """Return the conversation with the text that plugins add around the message of this run.

        The transcript keeps the message without it.
        """
        if self._around == (None, None):
            return messages
        return [
            UserMessage(content=[Text(self._prompt)], timestamp=message.timestamp)
            if message is self.message
            else message
            for message in messages
        ]

    @property
    def _prompt(self) -> str:
        before, after = self._around
        return join_texts(before, self._run.message, after)


async def build_prompt(run: Run, services: Services, prepared: PreparedRun, history: list[Message]) -> AttemptPrompt:
    """Run the prompt hooks and build the prompt from their decisions."""
    return AttemptPrompt(
        run, services, prepared, await run_prompt_hooks(run, services, history, prepared.start_decision)
    )


async def run_prompt_hooks(
    run: Run, services: Services, history: list[Message], started: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return what plugins add to the prompt of a run: texts around its message and around the system prompt.

    As in OpenClaw, `before_agent_start` runs again, with the history, if it decided nothing when models were resolved.
    `started` is what it decided then, if a model was resolved.
    """
    decided = await _decide(run, services, "before_prompt_build", history)
    return merge_prompts(decided, started or await _decide(run, services, "before_agent_start", history))


async def _decide(run: Run, services: Services, name: str, history: list[Message]) -> dict[str, Any]:
    if not services.hooks.has_handlers(name):
        return {}
    event = {"prompt": run.message, "messages": [message_to_json(message) for message in history]}
    return await services.hooks.run(name, event, run.context)


def join_texts(*texts: str | None) -> str:
    """Return the parts of a prompt as paragraphs, without those that are empty."""
    return "\n\n".join(text for text in texts if text)


def _system_prompt(prepared: PreparedRun, decided: dict[str, Any], tools: list[Tool]) -> str:
    replaced = decided.get("systemPrompt")
    base = str(replaced) if replaced else build_system_prompt(msgspec.structs.replace(prepared.sources, tools=tools))
    return join_texts(decided.get("prependSystemContext"), base, decided.get("appendSystemContext"))
