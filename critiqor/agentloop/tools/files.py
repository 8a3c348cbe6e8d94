"""The write and edit tools: replace a file, or exact texts in it."""

from __future__ import annotations

import asyncio
import os
import stat
from itertools import pairwise
from pathlib import Path
from typing import Any

from critiqor.agentloop.tools.diffs import Replacement, apply_replacements, line_diff
from critiqor.agentloop.tools.paths import ToolError, format_os_error, open_file, resolve_path
from critiqor.agentloop.tools.results import failed, shorten, succeeded
from critiqor.agentloop.tools.tool import ToolContext, ToolOutcome

MAX_EDITED_BYTES = 16 * 1024 * 1024
_MAX_QUOTED_CHARS = 800
"""Characters of the file that the model is shown if the text to replace was not found."""
_PATH = {"type": "string", "description": "The file, relative to the workspace or absolute"}


_WRITE_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "required": ["path", "content"],
    "properties": {"path": _PATH, "content": {"type": "string", "description": "The new content of the file"}},
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
            await asyncio.to_thread(_write, resolve_path(arguments["path"], context), data, context)
        except ToolError as error:
            return failed(self.name, str(error))
        return succeeded(f"Successfully wrote {len(data)} bytes to {arguments['path']}")


_EDIT_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "required": ["path", "edits"],
    "properties": {
        "path": _PATH,
        "edits": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["oldText", "newText"],
                "properties": {
                    "oldText": {"type": "string", "description": "The exact text to replace"},
                    "newText": {"type": "string", "description": "The replacement"},
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}


class EditTool:
    """Replaces exact texts in a file, each of which must occur once."""

    name = "edit"
    description = (
        "Replace exact text in one file. Each oldText must occur exactly once and must not overlap another; "
        "all are matched against the file before the edit."
    )
    parameters = _EDIT_PARAMETERS

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Make all replacements or none."""
        path, edits = arguments["path"], arguments["edits"]
        try:
            if not edits or any(not edit["oldText"] for edit in edits):
                raise ToolError(
                    "Missing required parameter: edits (received: path, edits=<array>). "
                    "Supply correct parameters before retrying."
                )
            return await asyncio.to_thread(_edit, path, edits, context)
        except ToolError as error:
            return failed(self.name, str(error))


def _edit(path: str, edits: list[dict[str, str]], context: ToolContext) -> ToolOutcome:
    file_path = resolve_path(path, context)
    # Bytes that are not valid UTF-8 are kept unchanged.
    text = _read_file(file_path, path, context).decode("utf-8", "surrogateescape")
    replacements = _locate(path, text, edits)
    new = apply_replacements(text, replacements)
    if new == text:
        raise ToolError(f"No changes made to {path}. The replacement produced identical content.")
    _write(file_path, new.encode("utf-8", "surrogateescape"), context)
    found = line_diff(text, replacements)
    shown = found.diff.encode("utf-8", "replace").decode()
    return succeeded(
        f"Successfully replaced {len(edits)} block(s) in {path}.", diff=shown, firstChangedLine=found.first_changed_line
    )


def _locate(path: str, text: str, edits: list[dict[str, str]]) -> list[Replacement]:
    """Return the sorted replacements; raises `ToolError` if a text is missing, ambiguous or overlaps another."""
    # Models write plain line feeds, whatever the file uses.
    line_end = "\r\n" if "\r\n" in text else "\n"
    found: list[tuple[Replacement, int]] = []
    for index, edit in enumerate(edits):
        old, new = (edit[key].replace("\r\n", "\n").replace("\n", line_end) for key in ("oldText", "newText"))
        named = f"edits[{index}]" if len(edits) > 1 else "the text"
        start = text.find(old)
        if start < 0:
            raise ToolError(_missing(path, text, named, shown=len(edits) == 1))
        if text.find(old, start + 1) >= 0:
            raise ToolError(
                f"Found {_occurrences(text, old)} occurrences of {named} in {path}. "
                "The text must be unique. Please provide more context to make it unique."
            )
        found.append((Replacement(start, start + len(old), new), index))
    found.sort()
    for (one, first), (other, second) in pairwise(found):
        if other.start < one.end:
            raise ToolError(f"edits[{first}] and edits[{second}] overlap in {path}. Merge them into one edit.")
    return [replacement for replacement, _ in found]


def _missing(path: str, text: str, named: str, *, shown: bool) -> str:
    exact = "the exact text" if shown else named
    problem = (
        f"Could not find {exact} in {path}. The old text must match exactly including all whitespace and newlines."
    )
    if not shown:
        return problem
    contents = shorten(text, _MAX_QUOTED_CHARS).encode("utf-8", "replace").decode()
    return f"{problem}\nCurrent file contents:\n{contents}"


def _occurrences(text: str, old: str) -> int:
    count, start = 0, text.find(old)
    while start >= 0:
        count, start = count + 1, text.find(old, start + 1)
    return count


def _read_file(file_path: Path, path: str, context: ToolContext) -> bytes:
    try:
        descriptor = open_file(file_path, os.O_RDONLY, context)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ToolError(f"Could not edit file: {path}. It is not a regular file.")
            data = file.read(MAX_EDITED_BYTES + 1)
    except OSError as error:
        code = format_os_error(error, "open").partition(":")[0]
        raise ToolError(f"Could not edit file: {path}. Error code: {code}.") from error
    if len(data) > MAX_EDITED_BYTES:
        raise ToolError(f"Could not edit file: {path}. It is larger than {MAX_EDITED_BYTES // 2**20} MB.")
    return data


def _write(file_path: Path, data: bytes, context: ToolContext) -> None:
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
