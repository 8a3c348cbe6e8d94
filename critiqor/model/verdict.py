"""The verdict on a run: its diagnosis, provided that the evidence is still what was sealed (integrity)."""

from __future__ import annotations

from typing import Literal

import msgspec

from critiqor.model.diagnosis import Diagnosis, Readiness

IntegrityState = Literal["intact", "changed", "missing", "not sealed", "other"]


class Integrity(msgspec.Struct, frozen=True, kw_only=True):
    """Result of comparing the evidence of a run with its seal and its diagnosis."""

    state: IntegrityState
    """`other` where the evidence is intact, but the diagnosis is missing or was made from other evidence."""
    explanation: str = msgspec.field(name="told")
    """The state in one sentence, without a full stop."""

    @property
    def is_intact(self) -> bool:
        """Whether evidence and diagnosis agree with the seal, without which there is no verdict."""
        return self.state == "intact"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a run, which every output shows first."""

    readiness: Readiness
    """`unknown` where the evidence is not intact."""
    headline: str
    """The diagnosis in one sentence, or why it is not proven."""
    trust: int | None
    """0 to 100; null where the agent was not observed or the evidence is not intact."""
    confidence: int
    """0 to 100: how much of the run the recorder saw."""
    unknown_trust: str | None = None
    """Why the trust is unknown; null where it is known."""


def verdict_on(diagnosis: Diagnosis, integrity: Integrity) -> Verdict:
    """Return the verdict of a diagnosis; without intact evidence there is none."""
    if not integrity.is_intact:
        return Verdict(
            readiness="unknown",
            headline=f"Not verified: {integrity.explanation} (critiqor verify {diagnosis.run_id})",
            trust=None,
            confidence=diagnosis.confidence_score,
            unknown_trust=integrity.explanation,
        )
    return Verdict(
        readiness=diagnosis.readiness,
        headline=diagnosis.headline,
        trust=diagnosis.trust_score,
        confidence=diagnosis.confidence_score,
        unknown_trust="the agent was not observed" if diagnosis.trust_score is None else None,
    )


def fresh_verdict(diagnosis: Diagnosis) -> Verdict:
    """Return the verdict of a diagnosis that was just made, whose evidence is therefore intact."""
    return verdict_on(diagnosis, Integrity(state="intact", explanation="the evidence was just diagnosed"))


def with_verdict(diagnosis: Diagnosis, verdict: Verdict) -> Diagnosis:
    """Return the diagnosis with the readiness and headline of the verdict.

    Scores and findings are kept, because they still say what to look for.
    """
    return msgspec.structs.replace(diagnosis, readiness=verdict.readiness, headline=verdict.headline)
