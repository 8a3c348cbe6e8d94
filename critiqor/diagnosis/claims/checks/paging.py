"""A list had more pages that were never read, and the agent speaks of all of it."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.checked import CheckedClaim, Problem
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.model.sanitize import excerpt

TYPE = "unsupported_claim"
_MORE = re.compile(
    r'"(?:next_?page(?:_?token)?|next_?cursor|next|continuation(?:_?token)?)":\s?(?:"[^"]+"|[1-9]\d*)'
    r'|"(?:has_?more|has_?next(?:_?page)?|truncated|incomplete_results)":\s?true',
    re.IGNORECASE,
)


_PAGE = re.compile(
    r"\bpages?\b|\bseiten?\b|p[aá]gin|\bstron|страниц|sayfa|[页頁]|ページ|페이지|صفح|\bfirst \d+|\btop \d+|\bsample"
)
"""Words with which an answer says how much of a list was read."""


def check_paging(episode: Episode) -> list[CheckedClaim]:
    """Return the claim of completeness about a list of which pages were left out."""
    answer = episode.answer
    calls = [call for call in episode.calls if call.text]
    if answer is None or not calls:
        return []
    speech = episode.speech(answer)
    if not speech.mentions("totality"):
        return []
    for number, call in enumerate(calls):
        if not _MORE.search(call.text) or any(later.tool == call.tool for later in calls[number + 1 :]):
            continue
        if any(_PAGE.search(stance.lowered) for stance in speech.stances):
            return []
        for stance in speech.stances:
            totality = speech.has(stance, "totality")
            if stance.is_good_news and totality:
                return [_incomplete(episode, call, stance.statement.start, stance.statement.end)]
    return []


def _incomplete(episode: Episode, call: EpisodeCall, start: int, end: int) -> CheckedClaim:
    answer = episode.answer
    assert answer is not None
    return CheckedClaim(
        text=answer,
        start=start,
        end=end,
        kind="completeness",
        status="unsupported",
        reason=f"{call.name} answered that there is more, and the rest was not read",
        calls=[call],
        problem=Problem(
            type=TYPE,
            about=("paging",),
            severity="high",
            confidence=75,
            title=f"Spoke of everything, but read only a part of what {call.name} found",
            explanation=f"The answer says “{excerpt(answer.text[start:end], 100)}”. The result says that there are "
            "more pages, which no call requested.",
            recommendation="Have the agent read all pages, or say how many it has read.",
        ),
    )
