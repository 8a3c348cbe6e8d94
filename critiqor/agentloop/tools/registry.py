"""Tools of a run: which are offered, their schemas, and the validation of calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from critiqor.agentloop.sessions.messages import ToolCall
from critiqor.agentloop.tools.arguments import check_arguments, validation_message
from critiqor.agentloop.tools.files import EditTool, WriteTool
from critiqor.agentloop.tools.memory import MemoryGetTool, MemorySearchTool
from critiqor.agentloop.tools.messaging import MessageTool, Outbox
from critiqor.agentloop.tools.read import ReadTool
from critiqor.agentloop.tools.results import refused
from critiqor.agentloop.tools.shell import ExecTool
from critiqor.agentloop.tools.subagent import Spawn, SpawnTool
from critiqor.agentloop.tools.tool import Tool, ToolContext, ToolOutcome


class ValidatedTool:
    """A tool that runs only with valid arguments."""

    def __init__(self, tool: Tool) -> None:
        self.name = tool.name
        self.description = tool.description
        self.parameters = tool.parameters
        self._tool = tool

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Validate the arguments, which hooks may have changed, and run the tool."""
        checked = check_arguments(self.parameters, arguments)
        if checked.problems:
            return refused(validation_message(self.name, checked.problems, arguments))
        return await self._tool.run(checked.arguments, context)


def offered_tools(*, outbox: Outbox | None = None, spawn: Spawn | None = None) -> list[Tool]:
    """Return the tools of a run; `message` needs an outbox and `sessions_spawn` needs `spawn`."""
    tools: list[Tool] = [ReadTool(), WriteTool(), EditTool(), ExecTool(), MemorySearchTool(), MemoryGetTool()]
    if outbox is not None:
        tools.append(MessageTool(outbox))
    if spawn is not None:
        tools.append(SpawnTool(spawn))
    return [ValidatedTool(tool) for tool in tools]


def tool_schemas(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Return the tools in the format of the completions API."""
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in tools
    ]


def validation_error(tool: Tool | None, call: ToolCall) -> str | None:
    """Return the message for the model if the tool does not exist or the arguments are invalid; else None."""
    if tool is None:
        return f"Tool {call.name} not found"
    if call.malformed is not None:
        return validation_message(call.name, [f"root: {call.malformed}"], call.arguments)
    problems = check_arguments(tool.parameters, call.arguments).problems
    return validation_message(call.name, problems, call.arguments) if problems else None
