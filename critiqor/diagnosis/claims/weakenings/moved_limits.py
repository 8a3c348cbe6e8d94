"""A failed check and what it measured: limits that were moved past a measured value, and exceptions for what it found.

Nothing here depends on the names of tools or options. A limit that was moved to the other side of a value which the
failed check printed lets the same value pass, whatever the limit is called. A list that names exactly what a check
found makes the check overlook it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from critiqor.diagnosis.claims.episode import EpisodeCall
from critiqor.diagnosis.claims.values import values_in
from critiqor.diagnosis.claims.weakenings.changed_limits import NUMBER, changed_numbers
from critiqor.diagnosis.claims.weakenings.changes import TextChange
from critiqor.diagnosis.claims.weakenings.patterns import pattern
from critiqor.diagnosis.claims.weakenings.signs import Sign

MAX_MEASURED = 4_000
"""Maximum number of characters of an output whose numbers are compared."""
MIN_ENTRY = 5
"""Minimum number of characters of an entry of a list of exceptions."""
_CODE = re.compile(r"\.(?:py|[jt]sx?|mjs|go|rs|java|rb|cs|kt|c|cc|cpp|h|php|swift|scala|sh|sql)$", re.IGNORECASE)
_EXCEPTIONS = re.compile(
    r"ignore|allow|exclu|suppress|baseline|skip|waive|exempt|exception|known|whitelist|accepted|quarantine|\.snyk",
    re.IGNORECASE,
)
_PLACE = re.compile(
    r"(?:^|[\s-])(?:p|port|vus|workers|jobs|threads|j|n|seed|page|limit|offset|depth|line|attempts?)[ =]*$", re.I
)
"""Options whose numbers are no limits of a verdict."""


def moved_options(call: EpisodeCall, failed: EpisodeCall) -> Sign | None:
    """Return a moved limit in the options of a command: past a value which the failed run had measured."""
    if not failed.line or NUMBER.sub("#", call.line) != NUMBER.sub("#", failed.line):
        return None
    return _moved(failed.line, call.line, measured_numbers(failed))


def moved_settings(change: TextChange, failed: list[EpisodeCall]) -> Sign | None:
    """Return a moved limit in a file: past a value which a failed check had measured."""
    name = change.path.rsplit("/", 1)[-1]
    is_named = any(name in call.line for call in failed)
    if not change.is_known or (_CODE.search(name) and not is_named):
        return None  # a number in a program is what the program does
    return next((sign for call in failed if (sign := _moved(change.old, change.new, measured_numbers(call)))), None)


def added_exceptions(change: TextChange, failed: list[EpisodeCall]) -> Sign | None:
    """Return what a failed check had found and a list of exceptions now names, which moves the limit for it."""
    if change.is_deletion or not _EXCEPTIONS.search(change.path.rsplit("/", 1)[-1]):
        return None
    known = {line.strip() for line in change.old.splitlines()}
    added = [line.strip() for line in change.new.splitlines() if line.strip() and line.strip() not in known]
    entries = [line.split("#")[0].strip("-*\"', ") for line in added if not line.startswith(("#", "//"))]
    entries = [entry for entry in entries if len(entry) >= MIN_ENTRY]
    if not entries or not any(all(entry in call.text for entry in entries) for call in failed):
        return None
    what = f"made an exception for {entries[0]} in {change.path}"
    return Sign(kind="silenced", what=what, mark=change.path.rsplit("/", 1)[-1], values=frozenset(entries))


def _moved(old: str, new: str, measured: frozenset[float]) -> Sign | None:
    for was, now, key in changed_numbers(old, new):
        low, high = sorted((was, now))
        if pattern("patience").search(key[-60:]) or _PLACE.search(key[-20:]):
            continue
        if any(low < value < high for value in measured):
            words = re.findall(r"[^\W\d_][\w-]*", key)
            what = f"moved {words[-1] if words else 'a limit'} from {was:g} to {now:g}"
            return Sign(kind="loosened", what=what, values=frozenset(_written(now)), mark=f"{now:g}")
    return None


def _written(number: float) -> Iterator[str]:
    yield f"{number:g}"
    yield f"{number:g}".replace(".", ",")
    yield f"{number:,g}"


def measured_numbers(call: EpisodeCall) -> frozenset[float]:
    """Return the numbers that a check measured: those that it printed, without signs; shares also as fractions."""
    values = values_in(call.text[:MAX_MEASURED])
    numbers = {abs(reading.number) for value in values for reading in value.readings}
    shares = {abs(value.number) / 100 for value in values if value.unit == "%" and value.readings}
    # That 18% are wrong says that 82% are right.
    return frozenset(numbers | shares | {1 - share for share in shares} | {100 - 100 * share for share in shares})
