"""The write tool: creates a file or replaces it."""

from __future__ import annotations

import asyncio
from typing import Any

from critiqor.agentloop.tools.file_access import ToolError, resolve_path, write_file
from critiqor.agentloop.tools.results import failed, succeeded
from critiqor.agentloop.tools.tool import ToolContext, ToolOutcome

PATH_PARAMETER = {"type": "string", "description": "The file, relative to the workspace or absolute"}
"""Schema of the argument that names a file."""
_WRITE_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "required": ["path", "content"],
    "properties": {"path": PATH_PARAMETER, "content": {"type": "string", "description": "The new content of the file"}},
}


class WriteTool:
    """Writes a file."""

    name = "write"
    description = "Write a file. An existing file is replaced, missing folders are created."
    parameters = _WRITE_PARAMETERS

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Write the file."""
        data = arguments["content"].encode("utf-8", "surrogateescape")
        try:
            await asyncio.to_thread(write_file, resolve_path(arguments["path"], context), data, context)
        except ToolError as error:
            return failed(self.name, str(error))
        return succeeded(f"Successfully wrote {len(data)} bytes to {arguments['path']}")
