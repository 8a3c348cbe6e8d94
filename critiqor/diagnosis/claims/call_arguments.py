"""The arguments of tool calls: their values, their texts, the files that they name, and whether two have one target."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from critiqor.diagnosis.claims.episode import EpisodeCall
from critiqor.diagnosis.signals.text import decode_json
from critiqor.diagnosis.signals.tool_calls import tool_call_likeness

_PATHS = frozenset(("path", "file", "file_path", "filepath", "filename", "target_file"))
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"(?!\s*:)')

MAX_DEPTH = 5

_PATH = re.compile(r'"(?:path|file_path|file|filename|filepath|target_file|notebook_path)":"((?:[^"\\]|\\.)+)"')
_CONTENT = frozenset(
    ("sql", "query", "q", "command", "cmd", "script", "body", "text", "message", "content", "code", "prompt", "subject")
)
_MAX_IDENTITY = 80
"""Maximum number of characters of an argument that says what a call is about; a longer one is content."""
MIN_PART = 4
"""Minimum number of characters of a name that a corrected one continues."""
MIN_SAME = 0.7
"""Minimum share of equal arguments of two calls about the same thing: a retry may change one of many."""
MIN_SAME_VALUES = 2
"""Minimum number of values that two calls about the same thing have in common, if no argument has the same name."""
MIN_LIKENESS = 0.5
"""Minimum share of common words of two texts that are versions of each other."""


def named_paths(arguments: str) -> list[str]:
    """Return the files that the arguments of a call name."""
    return _PATH.findall(arguments)


def have_same_target(one: str, other: str) -> bool:
    """Return whether the arguments of two calls name the same thing: none that identifies something differs."""
    first, second = decoded_arguments(one), decoded_arguments(other)
    if first is None or second is None:
        return tool_call_likeness(one, other) >= MIN_LIKENESS
    shared = [(name, first[name], second[name]) for name in sorted(first.keys() & second.keys())]
    if not shared:
        # A call that was corrected to the form that its tool wants has other names for the same values.
        values = [{value for _, value in named_values(each)} for each in (first, second)]
        return first == second or len(values[0] & values[1]) >= MIN_SAME_VALUES
    same = sum(_is_same(name, left, right) for name, left, right in shared)
    return same >= MIN_SAME * len(shared)


_ID = re.compile(r"(?:^|_|[a-z](?=[IN]))(?:ids?|nos?|nr|numbers?|pk)$", re.IGNORECASE)
"""Names of numbers that identify something; other numbers say how much."""


def _is_same(name: str, left: object, right: object) -> bool:
    if left != right and _ID.search(name) and isinstance(left, int) and isinstance(right, int):
        return False
    if left == right or not isinstance(left, str) or not isinstance(right, str):
        return True
    if _is_part(left, right):
        return True
    is_content = name.lower() in _CONTENT or max(len(left), len(right)) > _MAX_IDENTITY
    return is_content and tool_call_likeness(left, right) >= MIN_LIKENESS


def _is_part(one: str, other: str) -> bool:
    """Return whether one name continues the other: `ada@x` was corrected to `ada@x.org`; 1 and 12 are two numbers."""
    shorter, longer = sorted((one, other), key=len)
    return len(shorter) >= MIN_PART and longer.startswith(shorter) and not longer[len(shorter)].isalnum()


def decoded_arguments(text: str) -> dict[str, object] | None:
    """Return the arguments of a call by name; None if they were cut."""
    try:
        value = decode_json(text)
    except msgspec.DecodeError:
        return None
    return value if isinstance(value, dict) else None


def named_values(value: Any, key: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the short texts and the whole numbers in an argument or a record, each with the name of its member."""
    if isinstance(value, dict) and depth < MAX_DEPTH:
        for name, member in value.items():
            yield from named_values(member, str(name), depth + 1)
    elif isinstance(value, list) and depth < MAX_DEPTH:
        for member in value:
            yield from named_values(member, key, depth + 1)
    elif isinstance(value, str) and len(value) <= 200:
        yield key, value
    elif isinstance(value, int) and not isinstance(value, bool):
        yield key, str(value)


def arguments_of(call: EpisodeCall) -> list[tuple[str, str]]:
    """Return the short values of a call's arguments with their names; texts for others are left out."""
    if call.known_values is None:
        call.known_values = list(_short_values(call.arguments))
    return call.known_values


def _short_values(arguments: str) -> Iterator[tuple[str, str]]:
    try:
        value = decode_json(arguments)
    except msgspec.DecodeError:
        return
    for key, text in named_values(value):
        if 2 <= len(text) <= 120 and len(text.split()) <= 4:
            yield key, text


def members(call: EpisodeCall) -> list[tuple[str, str]]:
    """Return the texts and numbers in the arguments of a call, each with the name of its member."""
    if call.known_members is None:
        call.known_members = _all_members(call)
    return call.known_members


def _all_members(call: EpisodeCall) -> list[tuple[str, str]]:
    try:
        value = decode_json(call.arguments)
    except msgspec.DecodeError:
        # Long arguments are kept in part.
        return [("", _unescaped(match[1])) for match in _STRING.finditer(call.arguments)]
    return list(_members("", value))


def _members(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _members(str(key), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _members(name, inner)
    elif isinstance(value, str):
        yield name, value
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, str(value)


def _unescaped(text: str) -> str:
    try:
        return msgspec.json.decode(f'"{text}"', type=str)
    except msgspec.DecodeError:
        return text


def argument_text(call: EpisodeCall) -> str:
    """Return all texts in the arguments of a call."""
    return "\n".join(value for _, value in members(call))


def path_of(call: EpisodeCall) -> str:
    """Return the file that the arguments of a call name; empty if they name none."""
    if call.known_path is None:
        call.known_path = next((value for name, value in members(call) if name.lower() in _PATHS), "")
    return call.known_path
