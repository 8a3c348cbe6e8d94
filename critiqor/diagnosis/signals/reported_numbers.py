"""Validation of reported numbers, so that sums stay finite whatever a provider reports."""

from __future__ import annotations

from typing import TypeGuard

MAX_AMOUNT = 1 << 53
"""Exclusive upper limit for numbers of tokens, bytes or milliseconds; above it, a float loses integer precision."""
_NUMBERS = (int, float)


def is_plausible(value: object) -> TypeGuard[int | float]:
    """Return whether a reported value is a plausible number: not negative, infinite or too large."""
    return isinstance(value, _NUMBERS) and not isinstance(value, bool) and 0 <= value < MAX_AMOUNT


def amount(value: object) -> int | None:
    """Return a reported value as a whole number; None if it is not a plausible number."""
    if type(value) is int:  # nearly always
        return value if 0 <= value < MAX_AMOUNT else None
    return int(value) if is_plausible(value) else None
