"""Axes of charts: round values, and round dates in UTC."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

MAX_STEPS = 5
"""Maximum number of steps of an axis of values."""
MAX_DATES = 5
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_DURATIONS = (
    *(seconds * _SECOND for seconds in (1, 2, 5, 10, 20, 30)),
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 20, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
    *(days * _DAY for days in (1, 2, 7, 14)),
)
"""Steps that people count time in, in milliseconds."""
_MONTHS = (1, 3, 6, *(12 * years for years in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)))
_MONTH = 31 * _DAY


class Tick(NamedTuple):
    """A value on an axis."""

    at: float
    label: str


def round_step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is not less than a number."""
    power = math.floor(math.log10(least)) if least > 0 else 0
    # Negative powers of ten are inexact, so the division comes last.
    steps = (times * 10.0**power if power >= 0 else times / 10.0**-power for times in (1, 2, 5, 10))
    return next(step for step in steps if step >= least * (1 - 1e-9))


def number_ticks(highest: float, sign: str = "") -> list[Tick]:
    """Return round values from 0 to at least the highest one; `sign` is written before each."""
    step = round_step(highest / MAX_STEPS)
    return [Tick(step * count, f"{sign}{_short(step * count)}") for count in _counts(highest, step)]


def duration_ticks(highest: float) -> list[Tick]:
    """Return round durations from 0 to at least the longest one, in milliseconds."""
    least = highest / MAX_STEPS
    step = _round_duration(least) if least > _SECOND / 2 else round_step(least)
    size, unit = next(
        (size, unit)
        for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (_SECOND, "s"), (1, "ms"))
        if step >= size or size == 1
    )
    return [Tick(step * count, f"{round(step * count / size, 9):g} {unit}") for count in _counts(highest, step)]


def _counts(highest: float, step: float) -> range:
    return range(max(1, math.ceil(highest / step * (1 - 1e-9))) + 1)


def _short(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size * 10 or (value >= size and value % size == 0):
            return f"{value / size:g}{unit}"
    return f"{round(value, 9):g}"


def _round_duration(least: float) -> float:
    days = least / _DAY
    return next((step for step in _DURATIONS if step >= least), _DAY * round_step(days))


def date_ticks(first: float, last: float) -> list[Tick]:
    """Return round moments between two, in milliseconds since 1970, labelled in UTC."""
    least = (last - first) / MAX_DATES
    step = next((step for step in _DURATIONS if step >= least), None)
    if step is None:
        return _month_ticks(first, last, next((count for count in _MONTHS if count * _MONTH >= least), _MONTHS[-1]))
    # Weeks begin on a Monday, and 1970 began on a Thursday.
    shift = 4 * _DAY if step >= 7 * _DAY else 0
    count = math.ceil((first - shift) / step)
    moments = []
    while shift + count * step <= last:
        moments.append(shift + count * step)
        count += 1
    if len(moments) > 1:
        return [Tick(moment, _moment_label(moment, step)) for moment in moments]
    # One label says nothing about the distance between points.
    return [
        Tick(moment, f"{_utc(moment):{'%H:%M:%S' if last - first < _DAY else '%d %b %H:%M'}}")
        for moment in (first, last)
    ]


def _moment_label(moment: int, step: int) -> str:
    at = _utc(moment)
    if step >= _DAY or moment % _DAY == 0:
        return _day(at)
    return f"{at:%H:%M}" if step >= _MINUTE else f"{at:%H:%M:%S}"


def _month_ticks(first: float, last: float, step: int) -> list[Tick]:
    start, ticks = _utc(first), []
    months = (start.year * 12 + start.month - 1) // step * step
    while months // 12 <= datetime.max.year:
        at = datetime(max(1, months // 12), months % 12 + 1, 1, tzinfo=UTC)
        moment = (at - _EPOCH) / timedelta(milliseconds=1)
        if moment > last:
            break
        if moment >= first:
            ticks.append(Tick(moment, f"{at.year:04}" if step >= 12 or at.month == 1 else f"{at:%b}"))
        months += step
    return ticks


def _day(at: datetime) -> str:
    return f"{at.day} {at:%b}"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _utc(moment: float) -> datetime:
    return _EPOCH + timedelta(milliseconds=moment)


def value_scale(ticks: list[Tick], height: int) -> Callable[[float], float]:
    """Return the function from a value to a position on an axis of this height, with the last tick at the top."""
    top = ticks[-1].at
    return lambda value: round(height - height * value / top, 1)
