"""Places in a TOML file: the line and column of a key, which the parser of the standard library does not keep."""

from __future__ import annotations

import re
import tomllib
from typing import Any, NamedTuple

from critiqor.model.sanitize import excerpt

KeyPath = tuple[str | int, ...]
"""Keys and positions in lists that lead to a value, such as `("contracts", 1, "before", "needs")`."""

MAX_KEY = 80
"""Maximum number of characters of a key that a message names."""
_TOKEN = re.compile(
    r'(?P<text>"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*+"|\'[^\'\n]*+\')'
    r"|(?P<comment>\#[^\n]*+)|(?P<open>[\[{])|(?P<close>[\]}])|(?P<line>\n)",
    re.DOTALL,
)


class Place(NamedTuple):
    """A place in a file, counted from 1."""

    line: int
    column: int


def format_key(path: KeyPath) -> str:
    """Return the name of a key as in `contracts[0].before.needs`."""
    text = ""
    for part in path:
        name = f"[{part}]" if isinstance(part, int) else excerpt(part, MAX_KEY)
        text += name if isinstance(part, int) or not text else f".{name}"
    return text


class TomlPlaces:
    """The places of the keys of a TOML file that the parser accepts."""

    def __init__(self, text: str) -> None:
        # Columns are the same in the text without its strings and comments, in which keys are searched.
        self._text = text
        self._bare = _TOKEN.sub(_blank, text)
        self._statements = _statements(text)
        self._starts = self._starts_of_keys()

    def find(self, path: KeyPath, expression: str = "", offset: int = 0) -> Place | None:
        """Return the place of a key, or of a character of the expression that is its value; None if unknown."""
        known: KeyPath = path
        while known and known not in self._starts:
            known = known[:-1]
        if not known:
            return None
        start, end = self._starts[known]
        name = next((part for part in reversed(path) if isinstance(part, str)), "")
        found = re.compile(rf"(?<![\w-]){re.escape(name)}\s*=").search(self._bare, start, end)
        if found is None:
            return self._place(start)
        if expression and (at := self._text.find(expression, found.start(), end)) >= 0:
            return self._place(at + offset)
        return self._place(found.start())

    def _place(self, offset: int) -> Place:
        before = self._text.rfind("\n", 0, offset) + 1
        return Place(self._text.count("\n", 0, offset) + 1, offset - before + 1)

    def _starts_of_keys(self) -> dict[KeyPath, tuple[int, int]]:
        """Return start and end of the statement that first names each key."""
        starts: dict[KeyPath, tuple[int, int]] = {}
        lengths: dict[KeyPath, int] = {}
        """Number of tables so far of each list of tables."""
        table: KeyPath = ()
        for start, end in self._statements:
            source = self._text[start:end]
            keys = _path_of(tomllib.loads(source))
            if not source.startswith("["):
                path = (*table, *keys)
            else:
                path = _resolved(keys, lengths, is_list=source.startswith("[["))
                table = path
            for length in range(1, len(path) + 1):
                starts.setdefault(path[:length], (start, end))
        return starts


def _blank(token: re.Match[str]) -> str:
    if token["text"] is None and token["comment"] is None:
        return token[0]
    return re.sub(r"[^\n]", " ", token[0])


def _statements(text: str) -> list[tuple[int, int]]:
    """Return start and end of each statement: a header of a table, or a key with its value on one or more lines."""
    ends, depth = [], 0
    for token in _TOKEN.finditer(text):
        if token["open"]:
            depth += 1
        elif token["close"]:
            depth -= 1
        elif token["line"] and depth == 0:
            ends.append(token.end())
    starts = [0, *ends]
    spans = zip(starts, [*ends, len(text)], strict=True)
    stripped = ((start + len(text[start:end]) - len(text[start:end].lstrip()), end) for start, end in spans)
    return [(start, end) for start, end in stripped if start < end and text[start] != "#"]


def _path_of(document: dict[str, Any]) -> KeyPath:
    """Return the keys that one statement names before its value."""
    path: list[str] = []
    value: Any = document
    while isinstance(value, dict) and len(value) == 1:
        key = next(iter(value))
        path.append(key)
        value = value[key]
    return tuple(path)


def _resolved(keys: KeyPath, lengths: dict[KeyPath, int], *, is_list: bool) -> KeyPath:
    """Return the path of a header; in a list of tables, it belongs to the last one."""
    path: KeyPath = ()
    for number, key in enumerate(keys):
        path = (*path, key)
        if is_list and number == len(keys) - 1:
            lengths[path] = lengths.get(path, 0) + 1
        if path in lengths:
            path = (*path, lengths[path] - 1)
    return path
