"""The MCP server on standard input and output. The only module that imports the SDK, which is an extra."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from critiqor import __version__
from critiqor.errors import CritiqorError
from critiqor.mcp.answers import MAX_ANSWER
from critiqor.mcp.tools import call_tool, describe_tools
from critiqor.model.sanitize import sanitize_line

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from critiqor.mcp.visible_runs import VisibleRuns

_INSTRUCTIONS = (
    "Critiqor records what agents really do. Before you report that something is done, call check_claim with the "
    "sentence; after a failure, call get_diagnosis and explain_finding."
)


def make_server(runs: VisibleRuns) -> Server[object]:
    """Return a server that answers from these runs. Nothing is written, and no call of it is needed for recording."""
    read_only = types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    tools = [
        types.Tool(name=tool.name, description=tool.description, input_schema=tool.schema, annotations=read_only)
        for tool in describe_tools()
    ]

    async def list_tools(
        _context: ServerRequestContext[object], _request: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def call(
        _context: ServerRequestContext[object], request: types.CallToolRequestParams
    ) -> types.CallToolResult:
        # A long run takes a moment to read, and other requests are answered meanwhile.
        return await anyio.to_thread.run_sync(_answer, request, runs)

    return Server(
        "critiqor", version=__version__, instructions=_INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call
    )


def serve(runs: VisibleRuns) -> None:
    """Serve until the client closes standard input."""
    anyio.run(_serve, make_server(runs))


async def _serve(server: Server[object]) -> None:
    async with stdio_server() as (reader, writer):
        await server.run(reader, writer, server.create_initialization_options())


def _answer(request: types.CallToolRequestParams, runs: VisibleRuns) -> types.CallToolResult:
    try:
        answer = call_tool(request.name, request.arguments or {}, runs)
    except CritiqorError as error:
        return _error(str(error))
    except OSError as error:
        return _error(f"the runs cannot be read: {error.strerror}")
    if len(answer) > MAX_ANSWER:
        return _error("the answer is too large\n  → pass a smaller `limit` if the tool takes one")
    return types.CallToolResult(content=[types.TextContent(text=answer.decode())])


def _error(message: str) -> types.CallToolResult:
    lines = (sanitize_line(line) for line in message.splitlines())
    return types.CallToolResult(content=[types.TextContent(text="\n".join(lines))], is_error=True)
