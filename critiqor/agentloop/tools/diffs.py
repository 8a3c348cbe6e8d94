"""Diff of an edit, in numbered lines."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import NamedTuple

_CONTEXT_LINES = 4
_MAX_COMPARED_LINES = 1_000
"""Maximum lines of a compared block; a larger one is shown as removed and added, because comparing does not take linear
time."""


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


def apply_replacements(text: str, replacements: list[Replacement]) -> str:
    """Return the text with all replacements made; they must be sorted and must not overlap."""
    pieces: list[str] = []
    position = 0
    for replacement in replacements:
        pieces += (text[position : replacement.start], replacement.text)
        position = replacement.end
    return "".join([*pieces, text[position:]])


def line_diff(text: str, replacements: list[Replacement]) -> LineDiff:
    """Return the changed lines with a few lines of context."""
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
