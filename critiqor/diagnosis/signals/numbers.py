"""Validation of reported numbers, so that sums stay finite whatever a provider reports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

MAX_AMOUNT = 1 << 53
"""Exclusive upper limit for numbers of tokens, bytes or milliseconds; above it, a float loses integer precision."""

USAGE_KEYS = ("input", "output", "cacheRead", "cacheWrite")
"""Keys of a reported usage whose values are numbers of tokens."""


def is_plausible(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a plausible amount: a number that is not negative, infinite or too large."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_AMOUNT


def amount(value: object) -> int | None:
    """Return a value as a whole number; None if it is not a plausible amount."""
    return int(value) if is_plausible(value) else None


def price_of(usage: Mapping[str, object]) -> float | None:
    """Return the cost of a model call in US dollars; None if unknown.

    OpenClaw reports a cost of 0 for a model without a configured price, so 0 for a call that used tokens means unknown.
    """
    cost = usage.get("cost")
    total = cost.get("total") if isinstance(cost, dict) else None
    if not is_plausible(total) or (total == 0 and any(amount(usage.get(name)) for name in USAGE_KEYS)):
        return None
    return float(total)
