"""Numbers that others report: a provider tells what it likes, and sums must stay numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

TOO_LARGE = 1 << 53
"""No count of tokens, bytes or milliseconds gets here; beyond it, a float can no longer count."""

USED = ("input", "output", "cacheRead", "cacheWrite")
"""What a usage counts, in tokens."""


def is_plausible(value: object) -> TypeGuard[int | float]:
    """Whether somebody can have meant this as an amount of something."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < TOO_LARGE


def amount(value: object) -> int | None:
    """A whole amount; None where there is none."""
    return int(value) if is_plausible(value) else None


def price_of(usage: Mapping[str, object]) -> float | None:
    """What a model call cost by its usage; None where no price is known.

    For a model without a configured price OpenClaw tells a cost of 0, whatever was used: that is no price.
    """
    cost = usage.get("cost")
    total = cost.get("total") if isinstance(cost, dict) else None
    if not is_plausible(total) or (total == 0 and any(amount(usage.get(name)) for name in USED)):
        return None
    return float(total)
