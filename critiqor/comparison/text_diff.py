"""Differences between two texts: by lines, or by words if both are short."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

MAX_PARTS = 1500
"""Maximum number of lines or words of a text that are compared; the rest is left out."""
MAX_SHORT = 400
"""Maximum length in characters of texts that are compared word by word."""
MIN_SIMILARITY = 0.6
"""Short texts that are less alike are shown one after the other: common words between different ones say nothing."""
CONTEXT = 2
"""Number of equal lines that are kept beside a difference."""


class DiffPiece(NamedTuple):
    """A part of two compared texts."""

    kind: Literal["same", "removed", "added", "gap"]
    """`gap`: equal lines that are left out."""
    text: str


def text_diff(before: str, after: str) -> list[DiffPiece]:
    """Return the parts of two texts in order: what both have, what only the first has, what only the second has."""
    if before == after:
        return [DiffPiece("same", before)] if before else []
    by_words = "\n" not in before + after and max(len(before), len(after)) <= MAX_SHORT
    split = _words if by_words else _lines
    old, new = split(before), split(after)
    pieces: list[DiffPiece] = []
    matcher = SequenceMatcher(None, old[:MAX_PARTS], new[:MAX_PARTS], autojunk=False)
    if by_words and matcher.ratio() < MIN_SIMILARITY:
        return [
            DiffPiece("removed", before),
            DiffPiece("same", " " if before and after else ""),
            DiffPiece("added", after),
        ]
    changes = matcher.get_opcodes()
    for place, (tag, first, last, start, end) in enumerate(changes):
        if tag == "equal":
            pieces += _equal(old[first:last], place == 0, place == len(changes) - 1, by_words=by_words)
            continue
        if last > first:
            pieces.append(DiffPiece("removed", "".join(old[first:last])))
        if end > start:
            pieces.append(DiffPiece("added", "".join(new[start:end])))
    left_out = max(0, len(old) - MAX_PARTS) + max(0, len(new) - MAX_PARTS)
    return [*pieces, DiffPiece("gap", f"{left_out} more are not compared\n")] if left_out else pieces


def _equal(parts: Sequence[str], is_first: bool, is_last: bool, *, by_words: bool) -> Iterator[DiffPiece]:
    """Yield equal parts; of many lines, only those beside a difference."""
    head, tail = 0 if is_first else CONTEXT, 0 if is_last else CONTEXT
    if by_words or len(parts) <= head + tail + 1:
        yield DiffPiece("same", "".join(parts))
        return
    if head:
        yield DiffPiece("same", "".join(parts[:head]))
    count = len(parts) - head - tail
    yield DiffPiece("gap", f"{count} equal lines\n")
    if tail:
        yield DiffPiece("same", "".join(parts[-tail:]))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+|\s+|[^\w\s]", text)


def _lines(text: str) -> list[str]:
    return [f"{line}\n" for line in text.split("\n")]
