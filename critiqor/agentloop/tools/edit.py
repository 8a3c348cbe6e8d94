"""The edit tool: replaces exact texts in a file, and returns the change as a diff in numbered lines."""

from __future__ import annotations

import asyncio
import os
import stat
from difflib import SequenceMatcher
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from critiqor.agentloop.tools.file_access import ToolError, format_os_error, open_file, resolve_path, write_file
from critiqor.agentloop.tools.results import failed, shorten, succeeded
from critiqor.agentloop.tools.tool import ToolContext, ToolOutcome
from critiqor.agentloop.tools.write import PATH_PARAMETER

MAX_EDITED_BYTES = 16 * 1024 * 1024
_MAX_QUOTED_CHARS = 800
"""Characters of the file that the model is shown if the text to replace was not found."""
_CONTEXT_LINES = 4
_MAX_COMPARED_LINES = 1_000
"""Maximum lines of a compared block; a larger one is shown as removed and added, because comparing does not take linear
time."""


_EDIT_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "required": ["path", "edits"],
    "properties": {
        "path": PATH_PARAMETER,
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
        """Make all replacements of the edit or none."""
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


class Replacement(NamedTuple):
    """A range of characters and the text that replaces it."""

    start: int
    end: int
    text: str


class LineDiff(NamedTuple):
    """Numbered lines with `-`, `+` or a space before the number."""

    diff: str
    first_changed_line: int


class _Change(NamedTuple):
    first: int
    """Line of the old text, from 0."""
    last: int
    """Line after the last one."""
    new: list[str]


def _edit(path: str, edits: list[dict[str, str]], context: ToolContext) -> ToolOutcome:
    file_path = resolve_path(path, context)
    # Bytes that are not valid UTF-8 are kept unchanged.
    text = _read_file(file_path, path, context).decode("utf-8", "surrogateescape")
    replacements = _locate(path, text, edits)
    new = apply_replacements(text, replacements)
    if new == text:
        raise ToolError(f"No changes made to {path}. The replacement produced identical content.")
    write_file(file_path, new.encode("utf-8", "surrogateescape"), context)
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


def _occurrences(text: str, old: str) -> int:
    count, start = 0, text.find(old)
    while start >= 0:
        count, start = count + 1, text.find(old, start + 1)
    return count


def apply_replacements(text: str, replacements: list[Replacement]) -> str:
    """Return the text after an edit. The replacements must be sorted and must not overlap."""
    pieces: list[str] = []
    position = 0
    for replacement in replacements:
        pieces += (text[position : replacement.start], replacement.text)
        position = replacement.end
    return "".join([*pieces, text[position:]])


def line_diff(text: str, replacements: list[Replacement]) -> LineDiff:
    """Return the diff of an edit: the changed lines with a few lines of context."""
    old = text.split("\n")
    lines: list[str] = []
    shown, shift, first_changed = 0, 0, 0
    for change in (part for block in _blocks(text, replacements) for part in _compare_lines(old, block)):
        first_changed = first_changed or change.first + 1 + shift
        start = max(shown, change.first - _CONTEXT_LINES)
        # Context after the previous change, a gap, then context before this one.
        following = min(start, shown + _CONTEXT_LINES) if lines else shown
        lines += _numbered(" ", old[shown:following], shown + 1)
        if start > following and lines:
            lines.append("   ...")
        lines += _numbered(" ", old[max(start, following) : change.first], max(start, following) + 1)
        lines += _numbered("-", old[change.first : change.last], change.first + 1)
        lines += _numbered("+", change.new, change.first + 1 + shift)
        shift += len(change.new) - (change.last - change.first)
        shown = change.last
    # The empty string after the final line break is not a line.
    rest = old[shown : shown + _CONTEXT_LINES] if old[-1] else old[shown:-1][:_CONTEXT_LINES]
    lines += _numbered(" ", rest, shown + 1)
    return LineDiff("\n".join(lines), first_changed)


def _blocks(text: str, replacements: list[Replacement]) -> list[_Change]:
    """Return the changed blocks of whole lines; replacements on the same line form one block."""
    blocks: list[tuple[int, int, list[Replacement]]] = []
    for replacement in replacements:
        start = text.rfind("\n", 0, replacement.start) + 1
        end = text.find("\n", replacement.end)
        end = len(text) if end < 0 else end
        if blocks and start <= blocks[-1][1]:
            first_start, _, inside = blocks.pop()
            blocks.append((first_start, end, [*inside, replacement]))
        else:
            blocks.append((start, end, [replacement]))
    changes = []
    for start, end, inside in blocks:
        new = apply_replacements(
            text[start:end], [Replacement(one.start - start, one.end - start, one.text) for one in inside]
        )
        first = text.count("\n", 0, start)
        changes.append(_Change(first, first + text.count("\n", start, end) + 1, new.split("\n")))
    return changes


def _compare_lines(old: list[str], block: _Change) -> list[_Change]:
    before = old[block.first : block.last]
    if len(before) + len(block.new) > _MAX_COMPARED_LINES:
        return [block]
    found = SequenceMatcher(None, before, block.new, autojunk=False).get_opcodes()
    return [
        _Change(block.first + start, block.first + end, block.new[new_start:new_end])
        for kind, start, end, new_start, new_end in found
        if kind != "equal"
    ]


def _numbered(mark: str, lines: list[str], first: int) -> list[str]:
    return [f"{mark}{number} {line}" for number, line in enumerate(lines, first)]
