"""Subagents that failed or did only a part of their work, and a parent that reports the whole."""

# ruff: noqa: RUF001 - punctuation of several languages
from __future__ import annotations

import re

import msgspec

from critiqor.diagnosis.claims.call_arguments import argument_text, members
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.claims.language import language_of
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.conduct.lapse import Lapse
from critiqor.diagnosis.conduct.wording import content_stems
from critiqor.diagnosis.hazards.words import words
from critiqor.diagnosis.results.state_words import state_of_word
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind

TYPE = "subagent_failure"
MAX_LAST_REPORT = 1_500
"""Maximum number of characters at the end of a report in which a subagent says how it ended."""
MAX_REPORT = 4_000
"""Maximum number of characters of the report of a subagent that are examined."""
_TOOL = re.compile(
    r"spawn|delegate|^sessions?_(?:history|wait|yield|result)|^(?:run_)?tasks?(?:_(?:result|output|wait|status))?$"
    r"|(?:^|[._-])(?:sub_?-?agents?|agents?|workers?|helpers?|child(?:ren)?)(?:[._-]|$)",
    re.IGNORECASE,
)
_STATE = re.compile(r'"(?:status|state|outcome)"\s*:\s*"([\w -]{2,30})"', re.IGNORECASE)
_UNFINISHED = frozenset(
    ("timeout", "timed_out", "incomplete", "partial", "killed", "crashed", "interrupted", "truncated")
)
_SHARE = re.compile(
    r"(?<![\w./:-])(\d{1,6})\s?(?:/|of(?: the)?|out of|von|de|sur|di|van(?: de)?|z|из|ud af)\s?(\d{1,6})(?![\w/.:-])",
    re.IGNORECASE,
)
_END = re.compile(r"[.!?;]\s|[。！？；]")
_KEY = re.compile(r"agent:[\w.-]+:(?:subagent|acp):[\w.-]+|(?<=[\"'])(?:sub|child|task|run)[:_-][\w.:-]+")


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
    if any(stance.is_question for stance in speech.stances):
        return []
    for unfinished in filter(None, map(_unfinished, calls)):
        call = unfinished.call
        if call.order > answer.order or _was_repeated(call, calls) or _was_done_by_parent(episode, call, calls):
            continue
        about = _own_subject(call, calls) | content_stems(_sentence(unfinished.why))
        # Of a share, the number is what has to be mentioned: "only two places" is about something else.
        stances = [one for one in speech.stances if one.is_bad_news or one.is_uncertain or not unfinished.numbers]
        finished = [each for each in calls if each.kind is not Kind.WAIT and _unfinished(each) is None]
        others = {stem for each in finished for stem in _own_subject(each, calls)} - about
        if any(_admits(speech, stance, about, others) for stance in stances):
            continue
        if any(re.search(rf"(?<!\d){number}(?!\d)", answer.text) for number in unfinished.numbers):
            continue
        return [_lapse(unfinished, answer.event_id, answer.text)]
    return []


def _admits(speech: Speech, stance: Stance, about: set[str], others: set[str]) -> bool:
    """Return whether a statement may tell the user that something is missing.

    `about` are the beginnings of the words of the task and the report: that nothing was found may be the good news. It
    is if it was found nowhere, so that words of the tasks of `others`, which finished, are in the statement too.
    """
    if stance.is_uncertain or speech.has(stance, "trouble"):
        return stance.is_uncertain or stance.is_bad_news
    if stance.statement.cells and not stance.is_limited:
        return False  # a `no` in a table is a value
    said = content_stems(stance.lowered)
    return (stance.is_limited or (stance.is_bad_news and not others & said)) and bool(about & said)


def _unfinished(call: EpisodeCall) -> Unfinished | None:
    """Return what a subagent left undone, according to its result."""
    text = call.text[:MAX_REPORT]
    for match in _SHARE.finditer(text):
        done, all_ = int(match[1]), int(match[2])
        if 0 <= done < all_ and all_ > 1 and _is_about_progress(text, match):
            return Unfinished(call, excerpt(_line(text, match), 100), (match[1], str(all_ - done)))
    for state in _STATE.finditer(text):
        if state_of_word(state[1]) == "failure" or state[1].lower() in _UNFINISHED:
            return Unfinished(call, excerpt(_line(text, state), 100))
    return _admission(call)


def _admission(call: EpisodeCall) -> Unfinished | None:
    """Return that a subagent says in its report that it failed or guessed."""
    if call.meaning.state == "failure" or not words("admission").may_be_within(call.text):
        return None
    report = call.text[-MAX_LAST_REPORT:]
    stances = Speech(report, language_of(report)).stances
    for stance in stances:
        text = stance.statement.text
        is_bad = stance.is_bad_news or stance.is_uncertain or stance.is_limited
        if is_bad and not stance.is_question and words("admission").within(text):
            return Unfinished(call, excerpt(text.strip(), 100))
    return None


def _is_about_progress(text: str, match: re.Match[str]) -> bool:
    """Return whether the sentence around a share says that something was left or went wrong."""
    sentence = text[max(0, match.start() - 120) : match.end() + 160]
    stances = Speech(sentence, language_of(sentence)).stances
    return any(stance.is_bad_news or stance.is_limited for stance in stances) or words("admission").within(sentence)


def _line(text: str, match: re.Match[str]) -> str:
    start = text.rfind("\n", 0, match.start()) + 1
    return text[max(start, match.start() - 60) : match.end() + 80].strip()


def _sentence(text: str) -> str:
    """Return a line up to the end of its first sentence: the findings that follow it are no gap."""
    return _END.split(text, 1)[0]


def _spawned(call: EpisodeCall, calls: list[EpisodeCall]) -> list[EpisodeCall]:
    """Return the calls that started the subagent whose report a call fetches."""
    keys = set(_KEY.findall(call.arguments))
    if keyed := [each for each in calls if each is not call and keys & set(_KEY.findall(each.text))]:
        return keyed
    # Where they have names, only one other call has the same.
    names = set(members(call))
    named = [
        each for each in calls if each.order < call.order and each.tool != call.tool and names & set(members(each))
    ]
    return named if len(named) == 1 else []


def _own_subject(call: EpisodeCall, calls: list[EpisodeCall]) -> set[str]:
    """Return the words of what only one subagent was to deal with: its country, its file."""
    spawned = _spawned(call, calls)
    others = [each for each in calls if each is not call and each not in spawned]
    task = content_stems(" ".join(argument_text(each) for each in (call, *spawned)))
    return task - {stem for each in others for stem in content_stems(argument_text(each))}


def _was_repeated(call: EpisodeCall, calls: list[EpisodeCall]) -> bool:
    """Return whether a later subagent with a similar task succeeded."""
    spawned = _spawned(call, calls)
    task = content_stems(" ".join(argument_text(each) for each in (call, *spawned)))
    own = _own_subject(call, calls)
    for later in calls:
        if later.order > call.order and later.meaning.state != "failure" and _unfinished(later) is None:
            given = content_stems(argument_text(later))
            if not own and len(given & task) > MIN_SAME_TASK * len(given | task):
                return True
    return False


def _was_done_by_parent(episode: Episode, call: EpisodeCall, calls: list[EpisodeCall]) -> bool:
    """Return whether the parent looked itself, after the report, at what only that subagent was to deal with."""
    own = _own_subject(call, calls)
    later = (each for each in episode.calls if each.order > call.order and each not in calls)
    looks = (each for each in later if not each.has_effect or (each.line and each.kind is not Kind.WAIT))
    return any(own & content_stems(f"{argument_text(each)} {each.line}") for each in looks if each.text)


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
