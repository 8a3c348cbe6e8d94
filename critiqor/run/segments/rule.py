"""When a recording is cut: after a time, at a size, or when nothing happens."""

from __future__ import annotations

import msgspec

from critiqor.errors import UsageError
from critiqor.policy.retention import parse_age, parse_size

IDLE_MS = 10 * 60_000
"""Milliseconds without a record after which a recording with the rule `idle` is cut."""
OFF = "off"
"""The rule of a recording that is not cut."""


class SegmentRule(msgspec.Struct, frozen=True):
    """When a segment is over; exactly one of its members is set."""

    max_age_ms: int | None = None
    max_bytes: int | None = None
    idle_ms: int | None = None

    def is_due(self, *, age_ms: int, size: int, idle_ms: int) -> bool:
        """Return whether a segment of this age, with a journal of this size in bytes, is to be cut."""
        limits = ((self.max_age_ms, age_ms), (self.max_bytes, size), (self.idle_ms, idle_ms))
        return any(limit is not None and value >= limit for limit, value in limits)


def parse_segment(text: str | None) -> SegmentRule | None:
    """Return the rule that `24h`, `500MB` or `idle` means; None for `off`. Raise `UsageError` for anything else."""
    if text is None or text == OFF:
        return None
    if text == "idle":
        return SegmentRule(idle_ms=IDLE_MS)
    try:
        return SegmentRule(max_age_ms=parse_age(text))
    except ValueError:
        pass
    try:
        return SegmentRule(max_bytes=parse_size(text))
    except ValueError:
        raise UsageError(f"{text!r} does not say when to cut", fix="--segment 24h, 500MB, idle or off") from None
