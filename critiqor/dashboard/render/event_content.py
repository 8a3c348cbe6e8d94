"""The content of an event as people read it: texts as texts, JSON as a tree, edits as differences."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from critiqor.comparison.text_diff import DiffPiece, text_diff
from critiqor.diagnosis.collections.fingerprints import canonical_json
from critiqor.diagnosis.signals.text import plain_text
from critiqor.model import Event
from critiqor.model.sanitize import excerpt, remove_escape_sequences
from critiqor.search.terms import searchable_text

_MAX_EXCERPT = 240
"""Maximum length of one value of an event in characters."""
_MAX_SEARCHED = 50_000
"""Maximum number of characters of an event in which the match of a search is located."""

MAX_VALUES = 20
"""Maximum number of arguments of a call that are shown one by one."""
MAX_NODES = 600
"""Maximum number of values of a tree."""
MAX_DEPTH = 12
"""Maximum nesting of a tree; what is nested deeper is shown as text."""
MAX_LEAF = 4000
"""Maximum length of a value of a tree in characters; the recorded JSON has all of it."""
MAX_PARSED = 200_000
"""Maximum length in characters of a text that is read as JSON."""
_EDITED = (("oldText", "newText"), ("old_string", "new_string"), ("oldString", "newString"), ("old_str", "new_str"))
"""Names of the arguments of a call that replaces a text by another one."""


class TreeNode(NamedTuple):
    """A value of a JSON document."""

    name: str
    text: str
    """The value, or how many values are inside."""
    children: list[TreeNode]
    left_out: int = 0
    """Number of values inside that are not shown."""


class Content(NamedTuple):
    """One value of an event: as text, as a tree, or as a difference."""

    name: str
    text: str = ""
    tree: TreeNode | None = None
    edit: Sequence[DiffPiece] = ()


def event_contents(event: Event) -> list[Content]:
    """Return arguments, results and words of an event, with line breaks and without escape sequences of terminals."""
    payload = event.payload
    found = list(_arguments(payload.get("arguments")))
    found += [_content(name, payload[name]) for name in ("result", "output", "text") if payload.get(name)]
    return [each for each in found if each.text or each.tree or each.edit]


def _arguments(arguments: object) -> Iterator[Content]:
    if not isinstance(arguments, dict):
        if arguments is not None:
            yield _content("arguments", arguments)
        return
    edits, used = _edits(arguments)
    for number, (before, after) in enumerate(edits, 1):
        name = "edit" if len(edits) == 1 else f"edit {number}"
        yield Content(name, edit=text_diff(_clean(before), _clean(after)))
    rest = {name: value for name, value in arguments.items() if name not in used}
    for name, value in list(rest.items())[:MAX_VALUES]:
        yield _content(f"argument {name}", value)


def _edits(arguments: dict[str, Any]) -> tuple[list[tuple[str, str]], set[str]]:
    """Return the texts that a call replaces and what replaces them, and the names of the arguments with them."""
    for old, new in _EDITED:
        if isinstance(arguments.get(old), str) and isinstance(arguments.get(new), str):
            return [(arguments[old], arguments[new])], {old, new}
    several = arguments.get("edits")
    if isinstance(several, list) and several:
        found = [_edits(each)[0] for each in several[:MAX_VALUES] if isinstance(each, dict) and "edits" not in each]
        if len(found) == len(several) and all(found):
            return [each for edits in found for each in edits], {"edits"}
    return [], set()


def _content(name: str, value: object) -> Content:
    parsed = _parsed(plain_text(value) if _is_message(value) else value)
    if isinstance(parsed, dict | list) and parsed:
        return Content(name, tree=_Trees().node("", parsed, 0))
    return Content(name, _clean(plain_text(value)))


def _is_message(value: object) -> bool:
    """Return whether a value is a text in the form in which tools return it, which is shown as a text."""
    content = value.get("content") if isinstance(value, dict) else value
    return isinstance(content, list) and any(isinstance(part, dict) and part.get("type") == "text" for part in content)


def _parsed(value: object) -> object:
    """Return a value, or the document in it if it is a text with JSON."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if len(text) > MAX_PARSED or text[:1] not in ("{", "["):
        return value
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return value


def _clean(text: str) -> str:
    return remove_escape_sequences(text)


class _Trees:
    """Builds a tree of bounded size."""

    def __init__(self) -> None:
        self._left = MAX_NODES

    def node(self, name: str, value: object, depth: int) -> TreeNode:
        self._left -= 1
        if not isinstance(value, dict | list) or not value:
            return TreeNode(name, self._leaf(value), [])
        if depth == MAX_DEPTH:
            return TreeNode(name, _clean(plain_text(value))[:MAX_LEAF], [])
        items = (
            list(value.items()) if isinstance(value, dict) else [(str(place), each) for place, each in enumerate(value)]
        )
        children = []
        for key, each in items:
            if self._left <= 0:
                break
            children.append(self.node(_clean(str(key))[:MAX_LEAF], each, depth + 1))
        what = f"{{{len(items)}}}" if isinstance(value, dict) else f"[{len(items)}]"
        return TreeNode(name, what, children, len(items) - len(children))

    def _leaf(self, value: object) -> str:
        text = _clean(value) if isinstance(value, str) else json.dumps(value)
        return text if len(text) <= MAX_LEAF else f"{text[:MAX_LEAF]}…"


def informative_values(event: Event, search: re.Pattern[str] | None = None) -> list[tuple[str, str]]:
    """Return the content of an event in short: one line per value; the match of a search is always among them."""
    payload = event.payload
    lines = []
    if payload.get("arguments") is not None:
        lines.append(("arguments", excerpt(canonical_json(payload["arguments"]), _MAX_EXCERPT)))
    if event.error:
        lines.append(("error", excerpt(remove_escape_sequences(event.error), _MAX_EXCERPT)))
    for name in ("result", "text"):
        if payload.get(name):
            text = plain_text(payload[name])[: 4 * _MAX_SEARCHED]
            lines.append((name, excerpt(remove_escape_sequences(text), _MAX_EXCERPT)))
    usage = payload.get("usage")
    if isinstance(usage, dict):
        counted = ((usage.get(name), way) for name, way in (("input", "in"), ("output", "out")))
        parts = [f"{count} tokens {way}" for count, way in counted if isinstance(count, int | float)]
        lines += [("usage", ", ".join(parts))] if parts else []
    if search is not None:
        lines += _found(event, search, lines)
    return lines


def _found(event: Event, search: re.Pattern[str], lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the first match of a search that the lines do not show, as one more line."""
    shown = {match[0].lower() for _, text in lines for match in search.finditer(text)}
    text = searchable_text(event)[:_MAX_SEARCHED]
    for match in search.finditer(text, len(event.event_type)):
        if match[0].lower() not in shown:
            return [("found", excerpt(text[max(0, match.start() - 80) : match.end() + _MAX_EXCERPT], _MAX_EXCERPT))]
    return []
