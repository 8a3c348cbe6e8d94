"""The agent gives up at a redirect although the answer names where the thing is now."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.conduct.lapse import Lapse
from critiqor.model.sanitize import excerpt

TYPE = "premature_stop"
MAX_OUTPUT = 4_000
"""Maximum number of characters of a result that is only a redirect."""
_REDIRECT = re.compile(
    r"(?<![\w.])30[12378](?![\w.])(?:\s+(?:Moved|Found|See Other|Temporary|Permanent)|[^\n]{0,20}https?://)"
    r"|\bmoved (?:permanently|temporarily|to)\b|\bredirect(?:ed|s|ing)?(?: to|:)|^location:\s*https?://",
    re.IGNORECASE | re.MULTILINE,
)
_ADDRESS = re.compile(r"https?://[^\s\"'<>)\]}]+")


def find_unfollowed_redirects(episode: Episode) -> list[Lapse]:
    """Return that the agent reports failure after a redirect whose target it never requested, at most one."""
    answer = episode.answer
    if answer is None or not episode.is_over or not episode.calls:
        return []
    last = episode.calls[-1]
    target = _target(last)
    if target is None or any(target in call.arguments for call in episode.calls):
        return []
    stances = episode.speech(answer).stances
    if not any(stance.is_bad_news for stance in stances) or target in answer.text:
        return []
    return [
        Lapse(
            type=TYPE,
            about=("redirect",),
            confidence=70,
            title="The agent gave up at a redirect, and never requested the address that it names",
            explanation=f"{last.name} returned the new address {excerpt(target, 100)}, and no call uses it.",
            recommendation="Instruct the agent to follow redirects, or give it a tool that does.",
            verification="Run the same task again: the agent requests the new address.",
            causes=[(last.result_id, f"The new address is {excerpt(target, 60)}")],
            event_id=answer.event_id,
            happened="The agent gave up",
            calls=[last],
        )
    ]


def _target(call: EpisodeCall) -> str | None:
    """Return the address to which the result of a call redirects."""
    if len(call.text) > MAX_OUTPUT or "://" not in call.text or not _REDIRECT.search(call.text):
        return None
    requested = set(_ADDRESS.findall(call.arguments))
    return next((found for found in _ADDRESS.findall(call.text) if found not in requested), None)
