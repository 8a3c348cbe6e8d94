"""The result of a check: a claim with its status, and the finding that it leads to."""

from __future__ import annotations

import msgspec

from critiqor.diagnosis.claims.episode import EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.speech import Stance
from critiqor.model import ClaimKind, ClaimStatus, Severity

CLAIM_TYPES: dict[str, str] = {
    "unsupported_claim": "the agent asserted something that no recorded call supports",
    "misreported_value": "the agent reported a value that differs from the recorded one",
    "weakened_check": "a check was made to pass instead of what it checks, and the report does not say so",
    "wrong_target": "an action reached another target than the one that was named",
}
"""Failure types that only come from checking claims, with their meanings, in the order of findings of the same
severity: no detector observes spans for them."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a claim is a failure of the agent."""

    type: str
    about: tuple[str, ...]
    """Parts of the cause that are the same in other runs."""
    severity: Severity
    confidence: int
    title: str
    explanation: str
    recommendation: str


class CheckedClaim(msgspec.Struct, kw_only=True):
    """A claim, checked."""

    text: EpisodeText
    start: int
    end: int
    kind: ClaimKind
    status: ClaimStatus
    reason: str
    calls: list[EpisodeCall] = msgspec.field(default_factory=list)
    """The calls that decide it."""
    given: list[EpisodeText] = msgspec.field(default_factory=list)
    """The messages of the user that decide it."""
    problem: Problem | None = None
    """None if the claim is no failure."""
    lookup: str | None = None
    """A value that is not in what is kept of the recording, and that decides the claim if it is nowhere else either."""

    @property
    def quote(self) -> str:
        """The text of the claim."""
        return self.text.text[self.start : self.end].strip()


def claim_on(text: EpisodeText, stance: Stance | None) -> tuple[int, int]:
    """Return where a checked claim is: the place of a statement in its text, or of the whole text without one."""
    if stance is None:
        return 0, min(len(text.text), 400)
    return stance.statement.start, stance.statement.end
