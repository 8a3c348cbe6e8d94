"""The claim of a deed for which no call was made, as the checks of this folder report it."""

from __future__ import annotations

from critiqor.diagnosis.claims.checked import CheckedClaim, Problem
from critiqor.diagnosis.claims.episode import EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.speech import Stance
from critiqor.model import ClaimKind
from critiqor.model.sanitize import excerpt

TYPE = "unsupported_claim"


def unsupported(
    text: EpisodeText,
    stance: Stance,
    about: str,
    *,
    reason: str = "no call that could have done this was recorded",
    kind: ClaimKind = "inspection",
    calls: tuple[EpisodeCall, ...] = (),
) -> CheckedClaim:
    """Return a claim that no call supports."""
    said = excerpt(stance.statement.text, 120)
    return CheckedClaim(
        text=text,
        start=stance.statement.start,
        end=stance.statement.end,
        kind=kind,
        status="unsupported",
        reason=reason,
        calls=[*calls, *([text.call] if text.call is not None else [])],
        problem=Problem(
            type=TYPE,
            about=(about,),
            severity="high",
            confidence=70,
            title=f"Claimed without any call for it: {excerpt(stance.statement.text, 60)}",
            explanation=f"The text says “{said}”, but {reason}.",
            recommendation="Have the agent report only what it did, and do what it reports.",
        ),
    )
