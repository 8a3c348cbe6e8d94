"""The tool calls of two runs side by side: which call of one run is which call of the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

Relation = Literal["same", "arguments differ", "result differs", "only before", "only after"]


class AlignedCall(NamedTuple):
    """A tool call, as far as it is compared."""

    tool: str
    arguments: str
    result: str
    is_failed: bool


class CallPair(NamedTuple):
    """A call of the first run and the call of the second run that takes its place, by their positions."""

    before: int | None
    after: int | None
    relation: Relation


def align_calls(before: Sequence[AlignedCall], after: Sequence[AlignedCall]) -> list[CallPair]:
    """Align two lists of calls: equal calls first, then, between them, calls of the same tool, in order."""
    old, new = [call[:2] for call in before], [call[:2] for call in after]
    pairs: list[CallPair] = []
    for tag, first, last, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            pairs += (_pair(before, after, first + place, start + place) for place in range(last - first))
        else:
            pairs += _same_tools(before, after, range(first, last), range(start, end))
    return pairs


def _same_tools(
    before: Sequence[AlignedCall], after: Sequence[AlignedCall], old: range, new: range
) -> Iterator[CallPair]:
    """Pair calls with other arguments by their tools."""
    matcher = SequenceMatcher(
        None, [before[each].tool for each in old], [after[each].tool for each in new], autojunk=False
    )
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag == "equal":
            for place in range(last - first):
                yield _pair(before, after, old[first + place], new[start + place])
        else:
            yield from (CallPair(each, None, "only before") for each in old[first:last])
            yield from (CallPair(None, each, "only after") for each in new[start:end])


def _pair(before: Sequence[AlignedCall], after: Sequence[AlignedCall], old: int, new: int) -> CallPair:
    one, other = before[old], after[new]
    if one.arguments != other.arguments:
        return CallPair(old, new, "arguments differ")
    is_same = (one.result, one.is_failed) == (other.result, other.is_failed)
    return CallPair(old, new, "same" if is_same else "result differs")
