"""Durations that are written in several units: `4m 12s`, `2 minutes 12 seconds`, `1 h 30 min`."""

from __future__ import annotations

import re
from typing import NamedTuple

from critiqor.diagnosis.claims.recorded.units import UNITS

_PART = r"(\d+(?:[.,]\d+)?)\s?([^\W\d_]+)"
_JOINT = r"(?:,?\s(?:[^\W\d_]{1,3}\s)?|,?\s?)"
_SEVERAL = re.compile(rf"(?<![\w.,]){_PART}{_JOINT}{_PART}(?:{_JOINT}{_PART})?(?!\w)")


_MINUTE = UNITS["min"]


class Duration(NamedTuple):
    """A duration with its place in a text."""

    start: int
    end: int
    seconds: float


def durations_in(text: str) -> list[Duration]:
    """Return the durations of a text that are written in several units."""
    found = []
    for match in _SEVERAL.finditer(text):
        parts = [(match[at], match[at + 1]) for at in (1, 3, 5) if match[at]]
        units = [_MINUTE if word == "m" else UNITS.get(word.lower()) for _, word in parts]
        if any(unit is None or unit.measure != "time" for unit in units):
            continue
        factors = [unit.factor for unit in units if unit is not None]
        if factors == sorted(factors, reverse=True) and len(set(factors)) == len(factors):
            numbers = [float(number.replace(",", ".")) for number, _ in parts]
            seconds = sum(number * factor for number, factor in zip(numbers, factors, strict=True))
            found.append(Duration(match.start(), match.end(), seconds))
    return found
