"""Interface between the loop and its tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec

from critiqor.agentloop.sessions.messages import Image, Text


class ToolOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a tool. A command with a non-zero exit code is not an error of the tool."""

    content: list[Text | Image]
    details: dict[str, Any] = {}
    is_error: bool = False


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """Environment of a tool call."""

    run_id: str
    session_key: str
    agent_id: str
    tool_call_id: str
    workspace: Path
    """Base of relative paths; the file tools of a sandboxed run cannot leave it."""
    sandboxed: bool
    environment: dict[str, str]
    update: Callable[[str], None]
    """Reports the output so far."""
    channel: str | None = None
    """The chat channel of the request."""
    target: str | None = None
    """The sender of the request, to whom replies go."""


class Tool(Protocol):
    """A tool. A failure is an outcome with `is_error`; cancelling stops the tool and everything that it started."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of its arguments."""

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome: ...


@dataclass(frozen=True, slots=True)
class Workbench:
    """The tools of a run and the environment that they run in."""

    tools: Mapping[str, Tool]
    workspace: Path
    sandboxed: bool
    environment: dict[str, str]
