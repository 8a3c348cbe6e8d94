"""What an edit changed, in numbered lines."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import NamedTuple

_CONTEXT_LINES = 4
_MOST_COMPARED_LINES = 1_000
"""Comparing costs more than linearly; a larger block is shown as taken out and put in."""


class Replacement(NamedTuple):
    """Some characters of a text, and what stands in their place."""

    start: int
    end: int
    text: str


class Difference(NamedTuple):
    """Lines with `-`, `+` or nothing before their number, and where they begin."""

    diff: str
    first_changed_line: int


class _Change(NamedTuple):
    first: int
    """Line of the old text, from 0."""
    last: int
    """The line after its end."""
    new: list[str]


def apply(text: str, replacements: list[Replacement]) -> str:
    """The text with everything replaced; the replacements are in order and do not overlap."""
    pieces: list[str] = []
    position = 0
    for replacement in replacements:
        pieces += (text[position : replacement.start], replacement.text)
        position = replacement.end
    return "".join([*pieces, text[position:]])


def difference(text: str, replacements: list[Replacement]) -> Difference:
    """What replacing changes, line by line, with a little of what is around it."""
    old = text.split("\n")
    lines: list[str] = []
    shown, shift, first_changed = 0, 0, 0
    for change in (part for block in _blocks(text, replacements) for part in _narrowed(old, block)):
        first_changed = first_changed or change.first + 1 + shift
        start = max(shown, change.first - _CONTEXT_LINES)
        # What follows the last change, and a gap, before what precedes this one.
        following = min(start, shown + _CONTEXT_LINES) if lines else shown
        lines += _numbered(" ", old[shown:following], shown + 1)
        if start > following and lines:
            lines.append("   ...")
        lines += _numbered(" ", old[max(start, following) : change.first], max(start, following) + 1)
        lines += _numbered("-", old[change.first : change.last], change.first + 1)
        lines += _numbered("+", change.new, change.first + 1 + shift)
        shift += len(change.new) - (change.last - change.first)
        shown = change.last
    # What follows the last line end is no line.
    rest = old[shown : shown + _CONTEXT_LINES] if old[-1] else old[shown:-1][:_CONTEXT_LINES]
    lines += _numbered(" ", rest, shown + 1)
    return Difference("\n".join(lines), first_changed)


def _blocks(text: str, replacements: list[Replacement]) -> list[_Change]:
    """Whole lines that are touched; replacements that share a line are one block."""
    blocks: list[tuple[int, int, list[Replacement]]] = []
    for replacement in replacements:
        start = text.rfind("\n", 0, replacement.start) + 1
        end = text.find("\n", replacement.end)
        end = len(text) if end < 0 else end
        if blocks and start <= blocks[-1][1]:
            begun, _, inside = blocks.pop()
            blocks.append((begun, end, [*inside, replacement]))
        else:
            blocks.append((start, end, [replacement]))
    changes = []
    for start, end, inside in blocks:
        new = apply(text[start:end], [Replacement(one.start - start, one.end - start, one.text) for one in inside])
        first = text.count("\n", 0, start)
        changes.append(_Change(first, first + text.count("\n", start, end) + 1, new.split("\n")))
    return changes


def _narrowed(old: list[str], block: _Change) -> list[_Change]:
    before = old[block.first : block.last]
    if len(before) + len(block.new) > _MOST_COMPARED_LINES:
        return [block]
    found = SequenceMatcher(None, before, block.new, autojunk=False).get_opcodes()
    return [
        _Change(block.first + start, block.first + end, block.new[new_start:new_end])
        for kind, start, end, new_start, new_end in found
        if kind != "equal"
    ]


def _numbered(mark: str, lines: list[str], first: int) -> list[str]:
    return [f"{mark}{number} {line}" for number, line in enumerate(lines, first)]
