"""The history of a session up to an episode: what the user wrote and agreed to, and the calls before a call."""

from __future__ import annotations

from critiqor.diagnosis.claims.episode import Episode, EpisodeCall


def requests_of(episode: Episode) -> list[str]:
    """Return what the user wrote in this and earlier episodes of the session, the first message first."""
    return [text.text for each in (*reversed(episode.earlier), episode) for text in each.requests]


def agreed_text(episode: Episode) -> str:
    """Return what the user wrote, with the messages of the agent to which the user replied."""
    parts: list[str] = []
    for each in reversed(episode.earlier):
        parts += [text.text for text in (*each.requests, *each.messages[-1:])]
    return "\n".join((*parts, episode.request))


def earlier_calls(episode: Episode, call: EpisodeCall) -> list[EpisodeCall]:
    """Return the calls of the session whose results were known when a call was made, in order."""
    before = [each for earlier in reversed(episode.earlier) for each in earlier.calls]
    return before + [each for each in episode.calls if each is not call and each.result_id < call.call_id]
