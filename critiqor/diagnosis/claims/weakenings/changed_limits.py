"""Numbers that decide whether a check passes: tolerances, bounds and thresholds that were moved, expected values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import msgspec

from critiqor.diagnosis.claims.weakenings.patterns import pattern

NUMBER = re.compile(r"(?<![\w.])-?\d+(?:[._]\d+)*(?:[eE][+-]?\d+)?%?")
_LITERAL = re.compile(
    r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|(?<![\w.])-?\d+(?:[._]\d+)*(?:[eE][+-]?\d+)?|\b(?:True|False|true|false|None|null)\b"
)
_UPPER = re.compile(r"(?:<=?|\bLess\w*\(.*,|\bLessThan\w*\()\s*$")
_LOWER = re.compile(r"(?:>=?|\bGreater\w*\(.*,|\bGreaterThan\w*\()\s*$")


class MovedLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A number that was moved so that a check is easier to pass."""

    kind: Literal["loosened", "expected"]
    what: str
    values: frozenset[str]


def changed_limits(old: str, new: str) -> list[MovedLimit]:
    """Return the bounds, tolerances and expected values of assertions that differ between two texts of a test."""
    found = []
    for before, after in _pairs(old, new):
        if not pattern("asserting_words").search(before) and "\n" in old:
            continue
        if moved := _moved_bound(before, after):
            found.append(moved)
        elif (
            (was := _expected(before))
            and (now := _expected(after))
            and was != now
            and _subject(before) == _subject(after)
        ):
            what = f"changed the expected value from {_short(was)} to {_short(now)}"
            found.append(MovedLimit(kind="expected", what=what, values=frozenset(now)))
    return found


def eased_limits(old: str, new: str) -> Iterator[MovedLimit]:
    """Yield the limits that were changed in a configuration so that they are easier to meet."""
    for before, after in _pairs(old, new):
        for was, now, place in _differences(before, after):
            key = before[:place]
            if pattern("patience").search(key):
                continue
            floor, ceiling = pattern("floors").search(key) is not None, pattern("ceilings").search(key) is not None
            if (floor and not ceiling and now < was) or (ceiling and not floor and now > was) or (floor and ceiling):
                yield _limit(was, now, key)


def changed_numbers(old: str, new: str) -> Iterator[tuple[float, float, str]]:
    """Yield the numbers, which may be limits, that differ between two texts, and what is before the old one."""
    for before, after in _pairs(old, new):
        for was, now, place in _differences(before, after):
            yield was, now, before[:place]


def _pairs(old: str, new: str) -> Iterator[tuple[str, str]]:
    """Yield the lines that were changed, each with the line that it became."""
    before, after = old.splitlines() or [old], new.splitlines() or [new]
    kept = set(before) & set(after)
    gone = [line for line in before if line not in kept and line.strip()]
    added = [line for line in after if line not in kept and line.strip()]
    for line in gone:
        same = [other for other in added if _skeleton(other) == _skeleton(line)]
        if not same and len(gone) == len(added):
            same = [added[gone.index(line)]]
        if same:
            yield line, same[0]


def _skeleton(line: str) -> str:
    return _LITERAL.sub("#", line).strip()


def _differences(before: str, after: str) -> Iterator[tuple[float, float, int]]:
    """Yield the numbers that differ between two lines with the same words, and their places in the first one."""
    one, other = list(NUMBER.finditer(before)), list(NUMBER.finditer(after))
    if len(one) != len(other) or NUMBER.sub("#", before).strip() != NUMBER.sub("#", after).strip():
        return
    for was, now in zip(one, other, strict=True):
        if was[0] != now[0]:
            yield _value(was[0]), _value(now[0]), was.start()


def _value(text: str) -> float:
    try:
        return float(text.rstrip("%").replace("_", ""))
    except ValueError:
        return 0.0  # a version


def _moved_bound(before: str, after: str) -> MovedLimit | None:
    for was, now, place in _differences(before, after):
        head = before[:place]
        wider = now > was
        if pattern("digits").search(head):
            wider = now < was
        elif _UPPER.search(head) or pattern("tolerances").search(head):
            pass
        elif _LOWER.search(head):
            wider = now < was
        else:
            continue
        if wider:
            return _limit(was, now, head)
    return None


def _limit(was: float, now: float, key: str) -> MovedLimit:
    name = re.findall(r"[A-Za-z_][\w-]*", key)[-1:] or ["a limit"]
    return MovedLimit(kind="loosened", what=f"moved {name[0]} from {was:g} to {now:g}", values=frozenset(_written(now)))


def _written(number: float) -> set[str]:
    return {f"{number:g}", f"{number:,g}", f"{number:g}".replace(".", ","), str(number)}


def _expected(line: str) -> tuple[str, ...]:
    found = pattern("expected_values").search(line)
    if found is None:
        return ()
    part = found["right"] or found["both"]
    return tuple(match[0].strip("'\"`") for match in _LITERAL.finditer(part))


def _subject(line: str) -> str:
    found = pattern("expected_values").search(line)
    head = line[: found.start()] if found else line
    names = re.findall(r"[A-Za-z_][\w.]*", head if found is None or found["right"] else found["both"])
    return " ".join(names[:3])


def _short(values: tuple[str, ...]) -> str:
    return ", ".join(values)[:40]
