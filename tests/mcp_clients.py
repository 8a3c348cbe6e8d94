"""The client of the MCP SDK, for tests: it talks to a server in this process, or to a process `critiqor mcp`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from mcp import Client, StdioServerParameters
from mcp.types import CallToolResult, TextContent, Tool
from msgspec import json
from support import BIN, Runs, environment

from critiqor.mcp.answers import NOTICE
from critiqor.mcp.server import make_server
from critiqor.mcp.visible_runs import VisibleRuns
from critiqor.run.store import RunStore


class Reply(NamedTuple):
    """What a tool gave back."""

    text: str
    is_error: bool

    @property
    def answer(self) -> Any:
        assert not self.is_error, self.text
        document = json.decode(self.text)
        assert document["notice"] == NOTICE
        return document["answer"]


class McpClient:
    """A client; each call is a connection of its own."""

    def __init__(self, runs: Runs | Path, *tenants: str) -> None:
        folder = runs if isinstance(runs, Path) else runs.folder
        self._server = make_server(VisibleRuns(RunStore(folder), tenants))

    def tools(self) -> list[Tool]:
        async def ask() -> list[Tool]:
            async with Client(self._server) as client:
                return (await client.list_tools()).tools

        return anyio.run(ask)

    def call(self, tool: str, **arguments: Any) -> Reply:
        async def ask() -> Reply:
            async with Client(self._server) as client:
                return _reply(await client.call_tool(tool, arguments))

        return anyio.run(ask)


def call_process(folder: Path, calls: Sequence[tuple[str, dict[str, Any]]]) -> list[Reply]:
    """Start `critiqor mcp` in a folder, with hardly any environment, and make these calls one after the other."""
    command = StdioServerParameters(
        command=str(BIN / "critiqor"), args=["mcp"], cwd=str(folder), env=environment(folder)
    )

    async def ask() -> list[Reply]:
        async with Client(command) as client:
            return [_reply(await client.call_tool(name, arguments)) for name, arguments in calls]

    return anyio.run(ask)


def _reply(result: CallToolResult) -> Reply:
    [content] = result.content
    assert isinstance(content, TextContent)
    return Reply(content.text, result.is_error)
