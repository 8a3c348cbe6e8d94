"""Names of functions and files, short, and without what would tell about the machine."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from critiqor.model.profiles import CodeFrame
from critiqor.model.sanitize import sanitize

LONGEST_NAME = 80
MOST_FOLDERS = 3
"""Of the path within a package."""
NOWHERE = -1
"""The line that V8 gives to what has none."""
_SEPARATORS = re.compile(r"[\\/]+")
_NO_FILES = ("data:", "blob:", "wasm:")
_QUOTED = re.compile(r"'([^']*)'")


class CallFrame(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A function as V8 writes it."""

    function_name: str = ""
    url: str = ""
    line_number: Annotated[int, msgspec.Meta(ge=NOWHERE, le=1 << 31)] = NOWHERE
    """From 0."""


class Frames:
    """The functions of one file, each once."""

    def __init__(self) -> None:
        self._numbers: dict[CodeFrame, int] = {}
        self._met: dict[CallFrame, int] = {}

    def number(self, call: CallFrame) -> int:
        """The place of a function in the list of all."""
        number = self._met.get(call)
        if number is None:
            number = self._numbers.setdefault(frame_of(call), len(self._numbers))
            self._met[call] = number
        return number

    def all(self) -> list[CodeFrame]:
        """In the order of their numbers."""
        return list(self._numbers)


def frame_of(call: CallFrame) -> CodeFrame:
    """A function as it is told."""
    line = call.line_number + 1 if call.line_number > NOWHERE else None
    return CodeFrame(short_name(call.function_name) or "(anonymous)", short_file(call.url), line)


def short_name(name: str) -> str:
    """A name without the folders of a path in it: names of functions can be made of anything."""
    return _cut(_SEPARATORS.split(name)[-1])


def short_event(name: str) -> str:
    """The name of a trace event; a path in it, as of a module that is loaded, becomes short and stays in its quotes."""
    if _QUOTED.search(name):
        return _cut(_QUOTED.sub(lambda quoted: f"'{short_file(quoted[1]) or ''}'", name))
    return short_name(name)


def short_file(url: str) -> str | None:
    """A module of Node's own, a place within a package, or a bare file name."""
    if url.startswith("node:"):
        return _cut(url)
    if url.startswith(_NO_FILES):
        return url.partition(":")[0]
    # What follows can be anything, a token as well.
    parts = [part for part in _SEPARATORS.split(re.split(r"[?#]", url, maxsplit=1)[0]) if part]
    if not parts:
        return None
    packages = [place for place, part in enumerate(parts[:-1]) if part == "node_modules"]
    if not packages:
        return _cut(parts[-1])
    inside = parts[packages[-1] + 1 :]
    scoped = 2 if inside[0].startswith("@") else 1
    package, path = inside[:scoped], inside[scoped:]
    if len(path) > MOST_FOLDERS:
        path = ["…", *path[-MOST_FOLDERS:]]
    return _cut("/".join((*package, *path)))


def _cut(text: str) -> str:
    return sanitize(text.strip(), max_length=LONGEST_NAME).strip()
