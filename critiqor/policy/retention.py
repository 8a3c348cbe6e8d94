"""Retention: the rules that say how long runs are kept, and which runs they remove."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from critiqor.model.formatting import counted, format_size

UNSAFE_FACTOR = 4
"""Unsafe runs are kept this many times as long as others, unless the rules name an age for them."""
_AGE = re.compile(r"(\d{1,6})\s*(m|h|d|w)")
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)\s*(KB|MB|GB|TB)", re.IGNORECASE)
_MINUTE = 60_000
_AGE_UNITS = {"m": _MINUTE, "h": 60 * _MINUTE, "d": 24 * 60 * _MINUTE, "w": 7 * 24 * 60 * _MINUTE}
_SIZE_UNITS = {"KB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000, "TB": 1_000_000_000_000}


class Retention(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[retention]`, and the options of `critiqor prune`. What is not set removes nothing."""

    keep_journal: bool = False
    """Whether the journal of a run is kept although its sealed evidence contains all of it."""
    max_age: str | None = None
    """Age from which runs are removed: `90m`, `24h`, `30d`, `8w`."""
    max_age_unsafe: str | None = None
    """The same for unsafe runs. [default: four times max_age]"""
    max_size: str | None = None
    """Size of all runs on disk from which the oldest are removed: `500MB`, `20GB`."""
    max_runs: Annotated[int, Meta(ge=1)] | None = None
    """Number of runs from which the oldest are removed."""

    @property
    def removes_runs(self) -> bool:
        """Whether there is a rule that removes runs."""
        return any(rule is not None for rule in (self.max_age, self.max_age_unsafe, self.max_size, self.max_runs))


class Candidate(NamedTuple):
    """A run that may be removed."""

    run_id: str
    ended_ms: int
    """When the run was sealed, or began if it was not, in milliseconds since 1970."""
    size: int
    """Bytes on disk."""
    is_unsafe: bool
    """Whether its verdict is unsafe, or its evidence was changed."""


class Removal(NamedTuple):
    """A run that the rules remove."""

    run_id: str
    size: int
    reason: str


def parse_retention(table: Any) -> Retention:
    """Return the rules of a table. Raise `ValueError` that says what is wrong with it."""
    try:
        rules = msgspec.convert(table, Retention)
    except msgspec.ValidationError as error:
        what, _, key = str(error).replace("`", "").partition(" - at $.")
        raise ValueError(f"{key}: {what[:1].lower()}{what[1:]}" if key else what) from error
    for age in (rules.max_age, rules.max_age_unsafe):
        if age is not None:
            parse_age(age)
    if rules.max_size is not None:
        parse_size(rules.max_size)
    return rules


def parse_age(text: str) -> int:
    """Return an age such as `24h` in milliseconds."""
    match = _AGE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not an age such as 90m, 24h, 30d or 8w")
    return int(match[1]) * _AGE_UNITS[match[2]]


def parse_size(text: str) -> int:
    """Return a size such as `500MB` in bytes."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a size such as 500MB or 20GB")
    return round(float(match[1]) * _SIZE_UNITS[match[2].upper()])


def removals(candidates: Iterable[Candidate], rules: Retention, now_ms: int) -> list[Removal]:
    """Return the runs that the rules remove, in the order of removal.

    The rules for number and size remove the oldest runs first, and unsafe ones only when no others are left. The newest
    run is always kept.
    """
    left = sorted(candidates, key=lambda run: (run.is_unsafe, run.ended_ms, run.run_id))
    newest = max(left, key=lambda run: run.ended_ms, default=None)
    others = [run for run in left if run is not newest]
    removed = [Removal(run.run_id, run.size, reason) for run in others if (reason := _too_old(run, rules, now_ms))]
    gone = {each.run_id for each in removed}
    return removed + _too_many([run for run in left if run.run_id not in gone], newest, rules)


def _too_old(run: Candidate, rules: Retention, now_ms: int) -> str | None:
    """Return why a run is too old; None if it is not."""
    age, factor = rules.max_age, 1
    if run.is_unsafe and rules.max_age_unsafe is not None:
        age = rules.max_age_unsafe
    elif run.is_unsafe:
        factor = UNSAFE_FACTOR
    if age is None or now_ms - run.ended_ms <= factor * parse_age(age):
        return None
    limit = age if factor == 1 else f"{factor} times {age}"
    return f"unsafe, older than {limit}" if run.is_unsafe else f"older than {limit}"


def _too_many(left: Sequence[Candidate], newest: Candidate | None, rules: Retention) -> list[Removal]:
    """Return the runs beyond the allowed number and size; `left` is in the order of removal."""
    size, number = sum(run.size for run in left), len(left)
    max_size = parse_size(rules.max_size) if rules.max_size is not None else None
    removed = []
    for run in left:
        if run is newest:
            continue
        if rules.max_runs is not None and number > rules.max_runs:
            reason = f"more than {counted(rules.max_runs, 'run')}"
        elif max_size is not None and size > max_size:
            reason = f"all runs take more than {format_size(max_size)}"
        else:
            break
        removed.append(Removal(run.run_id, run.size, reason))
        number -= 1
        size -= run.size
    return removed
