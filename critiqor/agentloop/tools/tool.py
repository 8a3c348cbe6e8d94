"""What a tool is to the loop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from critiqor.agentloop.sessions.messages import Image, Text


class ToolOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gave back. A command that exits with another code than 0 is no error of the tool."""

    content: list[Text | Image]
    details: dict[str, Any] = {}
    is_error: bool = False


class ToolContext(msgspec.Struct, frozen=True, kw_only=True):
    """Where and for whom a tool runs."""

    run_id: str
    session_key: str
    agent_id: str
    tool_call_id: str
    workspace: Path
    """Relative paths start here; a sandboxed run cannot leave it."""
    sandboxed: bool
    environment: dict[str, str]
    update: Callable[[str], None]
    """Tells what a tool has written so far."""


class Tool(Protocol):
    """One tool. A failure is an outcome with `is_error`; cancelling stops it and everything that it started."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of its arguments."""

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome: ...
