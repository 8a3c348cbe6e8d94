"""System prompt: identity, tools, conduct, skills, memory, workspace and bootstrap files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Literal

import msgspec

from critiqor.agentloop.context.bootstrap import BootstrapFile, truncate_files
from critiqor.agentloop.tools.tool import Tool

PromptMode = Literal["full", "minimal"]
IDENTITY = "You are a personal assistant running in the embedded agent loop of Critiqor, which works like OpenClaw."


class PromptSources(msgspec.Struct, frozen=True, kw_only=True):
    """Inputs of the system prompt."""

    tools: Sequence[Tool]
    workspace: Path
    sandboxed: bool = False
    skills: str = ""
    """List of skills from their snapshot."""
    bootstrap: Sequence[BootstrapFile] = ()
    extra: str | None = None
    """Text that the caller of this run adds."""
    mode: PromptMode = "full"
    """`minimal` for subagents."""
    agent_id: str = "main"
    model: str = ""
    thinking: str = "off"
    today: date | None = None


def build_system_prompt(sources: PromptSources) -> str:
    """Build the system prompt. The same sources give the same text, so that a provider can cache it."""
    sections = [
        IDENTITY,
        _tooling(sources.tools),
        _conduct(),
        _skills(sources.skills),
        _memory(sources),
        _workspace(sources),
        _caller_context(sources),
        _bootstrap_files(sources.bootstrap),
        _silent_replies(sources),
        _runtime(sources),
    ]
    return "\n\n".join(section for section in sections if section)


def _tooling(tools: Sequence[Tool]) -> str:
    if not tools:
        return "## Tooling\nThere are no tools in this run; answer from what you know."
    listed = "\n".join(f"- {tool.name}: {tool.description.partition('. ')[0].rstrip('.')}" for tool in tools)
    return f"## Tooling\nCall tools by exactly these names.\n{listed}"


def _conduct() -> str:
    return """## Conduct
- Act on what can be done now, until it is done or truly blocked; a plan is not a result.
- Check what may have changed: files, processes, versions, the clock.
- Say that something works only when a tool has shown it, and say what failed.
- Look before you overwrite; change no more than was asked.
- Stay within the request. Stop when instructed to. Do not widen your own access, and do not work around safeguards."""


def _skills(listed: str) -> str:
    if not listed:
        return ""
    return f"""## Skills
When one of these skills clearly fits the task, read its file at the given location first, then follow it. Paths in it
are relative to its folder. When none fits, read none. {listed}"""


def _memory(sources: PromptSources) -> str:
    if sources.mode == "minimal" or not any(tool.name == "memory_search" for tool in sources.tools):
        return ""
    return """## Memory
Before you answer about earlier work, decisions, dates, people or preferences, use memory_search, then memory_get for
the lines that you need. If nothing is found, say that you looked."""


def _workspace(sources: PromptSources) -> str:
    inside = "\nThis run is sandboxed: file tools cannot leave this folder." if sources.sandboxed else ""
    return f"## Workspace\nYour working directory is: {sources.workspace}{inside}"


def _caller_context(sources: PromptSources) -> str:
    if not sources.extra:
        return ""
    title = "Subagent Context" if sources.mode == "minimal" else "Context of this run"
    return f"## {title}\n{sources.extra}"


def _bootstrap_files(files: Sequence[BootstrapFile]) -> str:
    if not files:
        return ""
    kept = truncate_files(files)
    parts = [
        "# Project Context",
        "These workspace files were written by the user and are part of your instructions.",
    ]
    if any(file.truncated for file in kept):
        parts.append("Some of them are truncated; read the file itself if that matters.")
    for file in kept:
        text = f"[MISSING] Expected at: {file.path}" if file.content is None else file.content
        parts.append(f"## {file.path}\n{text}")
    return "\n\n".join(parts)


def _silent_replies(sources: PromptSources) -> str:
    if sources.mode == "minimal":
        return ""
    return """## Silent Replies
When there is nothing to say, answer with NO_REPLY alone: it must be the whole message, without markup or other text. Do
the same after the message tool has already sent the reply to the user."""


def _runtime(sources: PromptSources) -> str:
    facts = {"agent": sources.agent_id, "model": sources.model, "thinking": sources.thinking}
    line = " | ".join(f"{name}={value}" for name, value in facts.items() if value)
    day = f"\nToday is {sources.today.isoformat()}." if sources.today is not None else ""
    return f"## Runtime\nRuntime: {line}{day}"
