"""Integrity of a run: whether its evidence is still the evidence that was sealed and diagnosed."""

from __future__ import annotations

from typing import Literal

import msgspec

IntegrityState = Literal["intact", "changed", "missing", "not sealed", "other"]


class Integrity(msgspec.Struct, frozen=True, kw_only=True):
    """Result of comparing the evidence of a run with its seal and its diagnosis."""

    state: IntegrityState
    """`other` where the evidence is intact, but the diagnosis is missing or was made from other evidence."""
    explanation: str = msgspec.field(name="told")
    """The state in one sentence, without a full stop."""

    @property
    def is_intact(self) -> bool:
        """Whether the conclusions drawn from the evidence can be proven."""
        return self.state == "intact"
