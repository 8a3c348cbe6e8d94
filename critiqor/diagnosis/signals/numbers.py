"""Checks of reported numbers: a provider may report anything, and sums must stay numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

MAX_AMOUNT = 1 << 53
"""Larger than any count of tokens, bytes or milliseconds; beyond it, a float can no longer count."""

USAGE_KEYS = ("input", "output", "cacheRead", "cacheWrite")
"""Keys of a usage that count tokens."""


def is_plausible(value: object) -> TypeGuard[int | float]:
    """Return whether a value can be an amount of something."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_AMOUNT


def amount(value: object) -> int | None:
    """Return a value as a whole amount; None if it is none."""
    return int(value) if is_plausible(value) else None


def price_of(usage: Mapping[str, object]) -> float | None:
    """Return the cost of a model call in dollars; None where no price is known.

    For a model without a configured price OpenClaw reports a cost of 0, whatever was used: that is not a price.
    """
    cost = usage.get("cost")
    total = cost.get("total") if isinstance(cost, dict) else None
    if not is_plausible(total) or (total == 0 and any(amount(usage.get(name)) for name in USAGE_KEYS)):
        return None
    return float(total)
