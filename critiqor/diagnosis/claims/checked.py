"""The result of a check: a claim with its status, and the finding that it leads to."""

from __future__ import annotations

import msgspec

from critiqor.diagnosis.claims.episode import EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.stance import Stance
from critiqor.model import ClaimKind, ClaimStatus, Severity


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

    @property
    def quote(self) -> str:
        """The text of the claim."""
        return self.text.text[self.start : self.end].strip()


def claim_on(text: EpisodeText, stance: Stance | None) -> tuple[int, int]:
    """Return the place of a statement in its text; that of the whole text without one."""
    if stance is None:
        return 0, min(len(text.text), 400)
    return stance.statement.start, stance.statement.end
