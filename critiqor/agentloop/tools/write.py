"""The write tool: creates a file or replaces it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from critiqor.agentloop.tools.file_access import ToolError, format_os_error, open_file, resolve_path
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


def write_file(file_path: Path, data: bytes, context: ToolContext) -> None:
    """Write a file for a tool and create its missing folders; raises `ToolError`."""
    try:
        file_path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(format_os_error(error, "mkdir", file_path.parent)) from error
    try:
        descriptor = open_file(file_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, context)
    except OSError as error:
        raise ToolError(format_os_error(error, "open", file_path)) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except OSError as error:
        raise ToolError(format_os_error(error, "write")) from error
