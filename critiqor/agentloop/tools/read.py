"""The read tool: a page of lines of a text file, or an image."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from pathlib import Path
from typing import Any

from critiqor.agentloop.sessions.messages import Image, Text
from critiqor.agentloop.tools.file_access import ToolError, format_os_error, open_file, resolve_path
from critiqor.agentloop.tools.results import MAX_IMAGE_CHARS, failed, succeeded
from critiqor.agentloop.tools.tool import ToolContext, ToolOutcome

MAX_LINES = 2_000
MAX_BYTES = 50 * 1024
_CHUNK_BYTES = 64 * 1024
_MAX_SCANNED_BYTES = 64 * 1024 * 1024
"""Bytes that are read at most to count the remaining lines."""
_IMAGE_TYPES = (
    (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "required": ["path"],
    "properties": {
        "path": {"type": "string", "description": "The file, relative to the workspace or absolute"},
        "offset": {"type": "number", "description": "First line to read, from 1"},
        "limit": {"type": "number", "description": "How many lines to read"},
    },
}


class ReadTool:
    """Reads a file."""

    name = "read"
    description = (
        "Read a file: text, or an image (jpg, png, gif, webp). "
        f"Returns at most {MAX_LINES} lines or 50KB of text; use offset to continue."
    )
    parameters = _PARAMETERS

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Read the file in a thread, so that other runs are not blocked."""
        try:
            file_path = resolve_path(arguments["path"], context)
            return await asyncio.to_thread(_read, file_path, arguments, context)
        except ToolError as error:
            return failed(self.name, str(error))


def _read(file_path: Path, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
    try:
        descriptor = open_file(file_path, os.O_RDONLY, context)
    except OSError as error:
        raise ToolError(format_os_error(error, "access", file_path)) from error
    try:
        facts = os.fstat(descriptor)
        if stat.S_ISDIR(facts.st_mode):
            raise ToolError("EISDIR: illegal operation on a directory, read")
        if not stat.S_ISREG(facts.st_mode):
            # Reading a pipe or a device may never end.
            raise ToolError(f"EINVAL: not a regular file, read '{file_path}'")
        head = os.read(descriptor, _CHUNK_BYTES)
        mime_type = _image_type(head)
        if mime_type is not None:
            return _read_image(mime_type, head, descriptor, facts.st_size)
        page = _Page(max(1, int(arguments.get("offset", 1))), arguments.get("limit"))
        scanned = 0
        while head and scanned < _MAX_SCANNED_BYTES:
            page.feed(head)
            scanned += len(head)
            head = os.read(descriptor, _CHUNK_BYTES)
        return page.result(arguments["path"])
    except OSError as error:
        raise ToolError(format_os_error(error, "read")) from error
    finally:
        os.close(descriptor)


class _Page:
    """Collects the requested lines up to the size limit, and counts all lines."""

    def __init__(self, first: int, limit: float | None) -> None:
        self._first = first
        self._limit = MAX_LINES if limit is None else max(1, min(MAX_LINES, int(limit)))
        self._is_explicit_limit = limit is not None and int(limit) <= MAX_LINES
        self._line = 1
        """Number of the current line."""
        self._open = False
        """Whether the current line has any bytes."""
        self._kept: list[bytes] = []
        self._current = bytearray()
        self._bytes = 0
        self._full = False
        self._too_long = False

    def feed(self, chunk: bytes) -> None:
        ends = chunk.count(b"\n")
        if self._full or self._line + ends < self._first:
            self._line += ends
            self._open = not chunk.endswith(b"\n")
            return
        *lines, rest = chunk.split(b"\n")
        for piece in lines:
            self._add(piece)
            self._end_line(b"\n")
        if rest:
            self._add(rest)
            self._open = True

    def _add(self, piece: bytes) -> None:
        if self._full or self._line < self._first:
            return
        self._bytes += len(piece) + 1
        if len(self._kept) >= self._limit or self._bytes > MAX_BYTES:
            self._full = True
            self._too_long = not self._kept
            return
        self._current += piece

    def _end_line(self, ending: bytes) -> None:
        if self._line >= self._first and not self._full:
            self._kept.append(bytes(self._current) + ending)
            self._current.clear()
        self._line += 1
        self._open = False

    def result(self, path: str) -> ToolOutcome:
        if self._open:
            self._end_line(b"")
        total = self._line - 1
        if self._too_long:
            note = f"Line {self._first} is longer than the 50KB limit."
            return succeeded(f"[{note} Use exec: sed -n '{self._first}p' '{path}' | head -c {MAX_BYTES}]")
        text = b"".join(self._kept).decode("utf-8", "replace")
        following = self._first + len(self._kept)
        if not self._full:
            return succeeded(text)
        text = text.removesuffix("\n")
        if self._is_explicit_limit and len(self._kept) == self._limit:
            return succeeded(
                f"{text}\n\n[{total - following + 1} more lines in file. Use offset={following} to continue.]"
            )
        note = f"[Showing lines {self._first}-{following - 1} of {total}. Use offset={following} to continue.]"
        truncation = {"truncated": True, "totalLines": total, "outputLines": len(self._kept)}
        return succeeded(f"{text}\n\n{note}", truncation=truncation)


def _image_type(head: bytes) -> str | None:
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((mime for mark, mime in _IMAGE_TYPES if head.startswith(mark)), None)


def _read_image(mime: str, head: bytes, descriptor: int, size: int) -> ToolOutcome:
    if size * 4 // 3 > MAX_IMAGE_CHARS:
        return succeeded(f"[{mime} of {size} bytes left out: too large]")
    rest = bytearray(head)
    while len(rest) < size and (chunk := os.read(descriptor, size - len(rest))):
        rest += chunk
    data = base64.b64encode(rest).decode()
    return ToolOutcome(content=[Text(f"Read image file [{mime}]"), Image(mime, data)])
