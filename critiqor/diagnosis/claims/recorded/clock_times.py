"""Times of day, and moments with date and time, that a text states."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise

_CLOCK = re.compile(r"(?<![\d:.])(\d{1,2}):([0-5]\d)(?::([0-5]\d)(?:[.,](\d+))?)?(?![\d:])")
_MAY_BE_TIME = re.compile(r":[0-5]\d")
_MINUTES = re.compile(r"(?<![\d:.])(\d{1,3}):([0-5]\d)[.,](\d+)")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:?\d\d)?")


def times_of_day(text: str) -> list[float]:
    """Return the times of day in a text, in seconds."""
    if ":" not in text:
        return []
    return [float(one[1]) * 3600 + float(one[2]) * 60 + float(one[3] or 0) for one in _CLOCK.finditer(text)]


def moments_in(text: str) -> Iterator[float]:
    """Yield the moments of a text that are written with date and time, in seconds; without a zone, as UTC."""
    for found in _MOMENT.findall(text) if ":" in text else ():
        with suppress(ValueError):
            moment = datetime.fromisoformat(found)
            yield (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def clock_seconds(line: str) -> list[float]:
    """Return the times of day in a line, in seconds, and the differences of neighbouring ones."""
    if ":" not in line or not _MAY_BE_TIME.search(line):
        return []
    times = times_of_day(line)
    minutes = [float(match[1]) * 60 + float(f"{match[2]}.{match[3]}") for match in _MINUTES.finditer(line)]
    hours = [hour for match in _CLOCK.finditer(line) for hour in (float(match[1]), float(match[1]) + 12)]
    return [*times, *minutes, *hours, *(abs(later - before) for before, later in pairwise(times))]
