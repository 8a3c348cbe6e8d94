"""What the reasons for stopping too early share: the lapse, and whether the user had to urge the agent."""

from __future__ import annotations

from critiqor.diagnosis.claims.episode import Episode, EpisodeText
from critiqor.diagnosis.conduct.lapse import Lapse
from critiqor.model.sanitize import excerpt

TYPE = "premature_stop"
MAX_URGING = 6
"""Maximum number of words of a message with which a user only urges the agent to go on."""


def only_urges(episode: Episode) -> bool:
    """Return whether the request of an episode only urges the agent to go on with the one before."""
    return len(episode.request.split()) <= MAX_URGING


def stop(episode: Episode, answer: EpisodeText, how: str, title: str, explanation: str) -> Lapse:
    """Return that the agent stopped too early with an answer."""
    request = episode.requests[-1] if episode.requests else None
    return Lapse(
        type=TYPE,
        about=(how,),
        confidence=70,
        title=title,
        explanation=explanation,
        recommendation="Instruct the agent to go on until the request is fulfilled, and to end with what it did.",
        verification="Run the same task again: the last message reports results and announces no more work.",
        causes=[(request.event_id, f"The user asked: {excerpt(request.text, 80)}")] if request is not None else [],
        event_id=answer.event_id,
        happened=title,
    )
