"""Short names of functions and files, without paths that reveal something about the machine."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from critiqor.model.profiles import CodeFrame
from critiqor.model.sanitize import sanitize

MAX_NAME_LENGTH = 80
MAX_FOLDERS = 3
"""Path components kept within a package."""
NO_LINE = -1
"""V8's line number of a function without a line."""
_SEPARATORS = re.compile(r"[\\/]+")
_OTHER_SCHEMES = ("data:", "blob:", "wasm:")
_QUOTED = re.compile(r"'([^']*)'")


class CallFrame(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A function as V8 writes it to a profile."""

    function_name: str = ""
    url: str = ""
    line_number: Annotated[int, msgspec.Meta(ge=NO_LINE, le=1 << 31)] = NO_LINE
    """Counted from 0."""


class FrameIndex:
    """Numbers the distinct functions of one file."""

    def __init__(self) -> None:
        self._numbers: dict[CodeFrame, int] = {}
        self._known: dict[CallFrame, int] = {}

    def number(self, call: CallFrame) -> int:
        """Return the index of a function in the list of all."""
        number = self._known.get(call)
        if number is None:
            number = self._numbers.setdefault(build_frame(call), len(self._numbers))
            self._known[call] = number
        return number

    def all(self) -> list[CodeFrame]:
        """Return the functions in the order of their numbers."""
        return list(self._numbers)


def build_frame(call: CallFrame) -> CodeFrame:
    """Return the function with shortened names."""
    line = call.line_number + 1 if call.line_number > NO_LINE else None
    return CodeFrame(_short_name(call.function_name) or "(anonymous)", short_file(call.url), line)


def _short_name(name: str) -> str:
    """Return a function name without folders: it can contain any text, even a path."""
    return _cut(_SEPARATORS.split(name)[-1])


def short_event(name: str) -> str:
    """Return the name of a trace event, with a quoted path in it (of a loaded module) shortened."""
    if _QUOTED.search(name):
        return _cut(_QUOTED.sub(lambda quoted: f"'{short_file(quoted[1]) or ''}'", name))
    return _short_name(name)


def short_file(url: str) -> str | None:
    """Return a built-in module of Node, a path within a package, or a bare file name."""
    if url.startswith("node:"):
        return _cut(url)
    if url.startswith(_OTHER_SCHEMES):
        return url.partition(":")[0]
    # A query or fragment can contain anything, even a token.
    parts = [part for part in _SEPARATORS.split(re.split(r"[?#]", url, maxsplit=1)[0]) if part]
    if not parts:
        return None
    packages = [place for place, part in enumerate(parts[:-1]) if part == "node_modules"]
    if not packages:
        return _cut(parts[-1])
    inside = parts[packages[-1] + 1 :]
    scoped = 2 if inside[0].startswith("@") else 1
    package, path = inside[:scoped], inside[scoped:]
    if len(path) > MAX_FOLDERS:
        path = ["…", *path[-MAX_FOLDERS:]]
    return _cut("/".join((*package, *path)))


def _cut(text: str) -> str:
    return sanitize(text.strip(), max_length=MAX_NAME_LENGTH).strip()
