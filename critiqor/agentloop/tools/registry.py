"""The built-in tools: which of them a run offers to the model."""

from __future__ import annotations

from critiqor.agentloop.tools.arguments import ValidatedTool
from critiqor.agentloop.tools.edit import EditTool
from critiqor.agentloop.tools.memory import MemoryGetTool, MemorySearchTool
from critiqor.agentloop.tools.messaging import MessageTool, Outbox
from critiqor.agentloop.tools.read import ReadTool
from critiqor.agentloop.tools.shell import ExecTool
from critiqor.agentloop.tools.subagent import Spawn, SpawnTool
from critiqor.agentloop.tools.tool import Tool
from critiqor.agentloop.tools.write import WriteTool


def offered_tools(*, outbox: Outbox | None = None, spawn: Spawn | None = None) -> list[Tool]:
    """Return the built-in tools of a run; `message` needs an outbox and `sessions_spawn` needs `spawn`."""
    tools: list[Tool] = [ReadTool(), WriteTool(), EditTool(), ExecTool(), MemorySearchTool(), MemoryGetTool()]
    if outbox is not None:
        tools.append(MessageTool(outbox))
    if spawn is not None:
        tools.append(SpawnTool(spawn))
    return [ValidatedTool(tool) for tool in tools]
