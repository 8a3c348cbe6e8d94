"""Subagents that failed or did only a part of their work, and a parent that reports the whole."""

from __future__ import annotations

import re

import msgspec

from critiqor.diagnosis.claims.call_arguments import argument_text
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.claims.language import language_of
from critiqor.diagnosis.claims.speech import Speech
from critiqor.diagnosis.conduct.lapse import Lapse
from critiqor.diagnosis.conduct.wording import content_stems
from critiqor.model.sanitize import excerpt

TYPE = "subagent_failure"
MAX_REPORT = 4_000
"""Maximum number of characters of the report of a subagent that are examined."""
_TOOL = re.compile(
    r"spawn|sub_?-?agent|delegate|^sessions?_(?:history|wait|yield|result)|^(?:run_)?task$|agent_run", re.I
)
_BAD = re.compile(
    r'"(?:status|state|outcome)"\s*:\s*"(?:timeout|timed_out|error|failed|failure|aborted|killed|cancell?ed|incomplete'
    r'|partial)"',
    re.IGNORECASE,
)
_SHARE = re.compile(
    r"(?<![\w./:-])(\d{1,6})\s?(?:/|of(?: the)?|out of|von|de|sur|di|van(?: de)?|z|из|ud af)\s?(\d{1,6})(?![\w/.:-])",
    re.IGNORECASE,
)
_KEY = re.compile(r"agent:[\w.-]+:(?:subagent|acp):[\w.-]+")


class Unfinished(msgspec.Struct, frozen=True):
    """A subagent that did not do all of its work."""

    call: EpisodeCall
    why: str
    numbers: tuple[str, ...] = ()
    """How much it did, and how much is left: an answer that mentions one of them admits it."""


def find_unfinished_children(episode: Episode) -> list[Lapse]:
    """Return the subagents whose work is incomplete, if the answer reports it as complete."""
    answer = episode.answer
    calls = [call for call in episode.calls if _TOOL.search(call.tool)]
    if answer is None or not calls:
        return []
    speech = episode.speech(answer)
    if any(stance.is_bad_news or stance.is_uncertain or stance.is_question for stance in speech.stances):
        return []
    if not any(stance.is_good_news for stance in speech.stances):
        return []
    for unfinished in filter(None, map(_unfinished, calls)):
        if unfinished.call.order > answer.order or _was_repeated(unfinished.call, calls):
            continue
        if any(re.search(rf"(?<!\d){number}(?!\d)", answer.text) for number in unfinished.numbers):
            continue
        if not unfinished.numbers and any(stance.is_limited for stance in speech.stances):
            continue
        return [_lapse(unfinished, answer.event_id, answer.text)]
    return []


def _unfinished(call: EpisodeCall) -> Unfinished | None:
    """Return what a subagent left undone, according to its result."""
    text = call.text[:MAX_REPORT]
    for match in _SHARE.finditer(text):
        done, all_ = int(match[1]), int(match[2])
        if 0 <= done < all_ and all_ > 1 and _is_about_progress(text, match):
            return Unfinished(call, excerpt(_line(text, match), 100), (match[1], str(all_ - done)))
    if bad := _BAD.search(text):
        return Unfinished(call, excerpt(_line(text, bad), 100))
    return None


def _is_about_progress(text: str, match: re.Match[str]) -> bool:
    """Return whether the sentence around a share says that something was left or went wrong."""
    sentence = text[max(0, match.start() - 120) : match.end() + 160]
    stances = Speech(sentence, language_of(sentence)).stances
    return any(stance.is_bad_news or stance.is_limited for stance in stances)


def _line(text: str, match: re.Match[str]) -> str:
    start = text.rfind("\n", 0, match.start()) + 1
    return text[max(start, match.start() - 60) : match.end() + 80].strip()


def _was_repeated(call: EpisodeCall, calls: list[EpisodeCall]) -> bool:
    """Return whether a later subagent with a similar task succeeded."""
    keys = set(_KEY.findall(call.arguments))
    spawned = [each for each in calls if keys & set(_KEY.findall(each.text))] if keys else []
    task = content_stems(" ".join(argument_text(each) for each in (call, *spawned)))
    others = [each for each in calls if each is not call and each not in spawned and each.order < call.order]
    # What only this subagent was to deal with: its country, its file.
    own = task - {stem for each in others for stem in content_stems(argument_text(each))}
    for later in calls:
        if later.order > call.order and later.meaning.state != "failure" and _unfinished(later) is None:
            given = content_stems(argument_text(later))
            if given & own or len(given & task) > MIN_SAME_TASK * len(given | task):
                return True
    return False


MIN_SAME_TASK = 0.4
"""Minimum share of common words of two tasks of which the second repeats the first, perhaps in a smaller form."""


def _lapse(unfinished: Unfinished, event_id: str, text: str) -> Lapse:
    return Lapse(
        type=TYPE,
        about=("unreported",),
        severity="high",
        confidence=75,
        title=f"A subagent did not finish its work, and the answer reports the whole: {unfinished.why}",
        explanation=f"The answer does not mention it: “{excerpt(text, 140)}”",
        recommendation="Have the parent check how each subagent ended, and say which part is missing.",
        verification="Run the same task again: the answer covers what the subagents did, and names what they did not.",
        causes=[(unfinished.call.result_id, f"The subagent reported: {unfinished.why}")],
        event_id=event_id,
        happened="Reported as complete",
        calls=[unfinished.call],
    )
