"""A call failed, or never finished, and the agent reports success or passes over it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from critiqor.diagnosis.claims.call_arguments import MIN_LIKENESS
from critiqor.diagnosis.claims.checked import CheckedClaim, Problem, claim_on
from critiqor.diagnosis.claims.deeds.capabilities import can_have_done, capabilities
from critiqor.diagnosis.claims.disclosure import COMMON, DEEDS, asks_about, is_disclosed
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.language import small_words
from critiqor.diagnosis.claims.outcomes.alternatives import is_reported_instead
from critiqor.diagnosis.claims.outcomes.check_classes import CHECKS, check_classes
from critiqor.diagnosis.claims.outcomes.parts import RULE as PARTS
from critiqor.diagnosis.claims.outcomes.repairs import repeats, resolves, unresolved_failures
from critiqor.diagnosis.claims.outcomes.series import calls_missing_in_series
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.signals.errors import error_line
from critiqor.diagnosis.signals.text import stems, tokens
from critiqor.diagnosis.signals.tool_calls import tool_call_likeness
from critiqor.model import ClaimKind, Severity
from critiqor.model.sanitize import excerpt, quotation
from critiqor.spans.calls import Kind

TYPE = "false_success_claim"
UNMENTIONED = "unresolved_tool_error"
"""The type of a failure that the answer passes over, while what it reports is something else."""
MIN_SCORE_BESIDE_QUESTION = 3
"""Minimum number of words that a claim shares with a failed call in an answer that also asks the user something."""


def check_failures(episode: Episode) -> list[CheckedClaim]:
    """Return the claims that are contradicted by calls that failed."""
    answer = episode.answer
    if answer is None:
        return []
    claims = []
    failures = unresolved_failures(episode)
    if (missing := calls_missing_in_series(episode)) and _is_all_good(episode, answer):
        failures = [*failures, *missing]
    admitted: list[EpisodeCall] = []
    is_final = not any(call.order > answer.order and call.kind is not Kind.ACTION for call in episode.calls)
    last_effect = next((call.order for call in reversed(episode.calls) if call.has_effect), None)
    for call in failures:
        later = [text for text in episode.texts if text.order > call.order]
        if not later or not answer.order > call.order:
            continue
        if is_disclosed(episode, call, answer):
            admitted.append(call)
            continue
        if any(tool_call_likeness(call.arguments, other.arguments) >= MIN_LIKENESS for other in admitted):
            continue  # another attempt at what is admitted
        disclosing = [text for text in later if text is not answer and is_disclosed(episode, call, text)]
        if _is_taken_back(episode, call) or is_reported_instead(episode, call, answer):
            continue
        open_texts = [text for text in later if not disclosing or text.order > disclosing[-1].order]
        if not open_texts:
            continue  # a text for others, after the answer, tells of it
        claim = _claim(episode, call, open_texts, answer if is_final else None)
        asks = any(one.is_question or one.is_plan for one in episode.speech(answer).stances[-2:])
        following = episode.following.calls if episode.following is not None else []
        if asks and any(repeats(one, call) or resolves(one, call) or _names_item(one, call) for one in following):
            continue  # the user was asked, and it was done then
        asks = asks_about(episode, call, answer)
        if not is_final and not claim.is_about_call:
            continue  # the agent was still at work when it wrote its last text, and passes over nothing
        if (disclosing and not claim.is_about_call) or (asks and claim.score < MIN_SCORE_BESIDE_QUESTION):
            continue
        checked = _checked(call, claim, is_last=call.order == last_effect)
        claims.append(checked if _is_readable(episode, claim) else _doubtful(checked))
    return claims


def admitted_failures(episode: Episode) -> list[CheckedClaim]:
    """Return what an answer admits: failures that were recorded and not repaired."""
    answer = episode.answer
    if answer is None:
        return []
    return [
        CheckedClaim(
            text=answer,
            start=0,
            end=len(answer.text),
            kind="check" if call.is_check else "action",
            status="supported",
            reason=f"{call.name} failed, and the answer says so",
            calls=[call],
        )
        for call in unresolved_failures(episode)
        if is_disclosed(episode, call, answer)
    ][:1]


_OUTCOMES = stems(
    {
        *("done", "finished", "ready", "works", "working", "worked", "succeeded", "success", "successful", "solved"),
        *("successfully", "implemented", "handled", "sorted", "green", "clean", "good", "fine", "okay", "correct"),
        *("right", "perfect", "great", "task", "work", "job", "fix", "fixes", "issue", "problem", "bug", "result"),
    }
)
"""Words of a sentence about the outcome of a task, besides those of the language files."""


def is_beside(episode: Episode, checked: CheckedClaim) -> bool:
    """Return whether a sentence that is checked alone says nothing about the failed calls that were held against it.

    It reports no deed, no check and no outcome, and shares no word with the requests and the calls. For an answer, that
    does not matter: a failure that it does not mention is passed over.
    """
    if checked.problem is None or checked.problem.type not in (TYPE, UNMENTIONED):
        return False
    if not checked.calls or any(call.meaning.state == "success" for call in checked.calls):
        return False
    speech = episode.speech(checked.text)
    if speech.language is None or speech.language.name != "English":
        return False  # the words for outcomes are not known
    lists = [f"actions.{name}" for name in (*DEEDS, *CHECKS)] + [f"subjects.{name}" for name in CHECKS]
    if any(speech.has(stance, name) for stance in speech.stances for name in (*lists, "totality", "overcome")):
        return False
    known = [one.text for one in episode.requests]
    known += [part for call in episode.calls for part in (call.tool, call.arguments, call.text[:2000])]
    said = stems(tokens(checked.text.text) - COMMON - small_words())
    return not said & (stems(tokens("\n".join(known))) | _OUTCOMES)


def _names_item(later: EpisodeCall, call: EpisodeCall) -> bool:
    """Return whether a later call does something to the file or the address that an error message names."""
    names = _NAME.findall(call.meaning.quote or error_line(call.text))
    return later.has_effect and later.meaning.state != "failure" and any(name in later.arguments for name in names)


_NAME = re.compile(r"[\w.@-]*[/@][\w./@-]{4,}\w")
"""A path or an address."""
_DONE = re.compile(r"[\u2705\u2714\u2611\U0001f389]")
"""Marks that say in every language that something is done."""


def _is_readable(episode: Episode, claim: _Statement) -> bool:
    """Return whether the language of a claim is known, so that an admission would have been recognized."""
    stance = claim.stance
    if episode.speech(claim.text).language is not None:
        return True
    return stance is not None and _DONE.search(stance.statement.text) is not None


def _doubtful(checked: CheckedClaim) -> CheckedClaim:
    """Return a claim in a language that is not known: what looks like one may be an admission."""
    problem = checked.problem
    if problem is None:
        return checked
    doubtful = msgspec.structs.replace(problem, severity="low", confidence=MAX_DOUBTFUL)
    return msgspec.structs.replace(checked, problem=doubtful)


MAX_DOUBTFUL = 40
"""Confidence of a finding about a statement that could not be read."""


def _is_all_good(episode: Episode, answer: EpisodeText) -> bool:
    """Return whether no statement of an answer says that something is missing, partial or uncertain."""
    stances = episode.speech(answer).stances
    return not any(one.is_bad_news or one.is_limited or one.is_uncertain or one.is_question for one in stances)


def _is_taken_back(episode: Episode, call: EpisodeCall) -> bool:
    """Return whether the agent admits the failure when the user asks again, before it does anything else."""
    following = episode.following
    if following is None or following.answer is None or any(each.has_effect for each in following.calls):
        return False
    return is_disclosed(following, call, following.answer)


class _Statement(NamedTuple):
    """The statement that says most clearly that a call worked, and how much it is about that call."""

    text: EpisodeText
    stance: Stance | None
    score: int
    """Number of words that it shares with the call."""
    is_general: bool
    """Whether it speaks of the whole task: `Done`, `Everything works`, `All tests pass`; or nothing else was done."""

    @property
    def is_about_call(self) -> bool:
        """Whether the statement is about what the call was to do."""
        return self.stance is not None and (self.score > 0 or self.is_general)


def _claim(episode: Episode, call: EpisodeCall, texts: list[EpisodeText], last: EpisodeText | None) -> _Statement:
    """Return the statement of the texts that is most about a call. `last` is the text with which the work ended."""
    effects = [each for each in episode.calls if each.has_effect]
    worked = [each for each in effects if each.meaning.state == "success" and each.call_id != call.call_id]
    not_failed = [each for each in effects if each.meaning.state != "failure" and each.call_id != call.call_id]
    checked = any(each.is_check and each.meaning.state in ("success", "unknown") for each in episode.calls)
    is_alone = all(each.meaning.state == "failure" for each in effects)
    others = stems({word for each in worked for word in tokens(each.arguments)})
    named = tokens(f"{call.arguments} {call.text[:2000]}") - COMMON - small_words()
    about = stems({word for word in named if len(word) >= 3}) - others
    best = _Statement(texts[-1], None, 0, is_general=False)
    for text in texts:
        speech = episode.speech(text)
        for stance in _good_news(speech):
            if _is_about_other_check(speech, stance, call, checked=checked):
                continue
            words = stems(speech.tokens_of(stance))
            is_general = _is_general(speech, stance, call, others, words, is_last=text is last or text.call is not None)
            # If nothing else was done, a deed that is reported is what the call was to do.
            is_general = is_general or (is_alone and any(speech.has(stance, f"actions.{name}") for name in DEEDS))
            score = len(words & about) + DEED_SCORE * _is_deed_of(speech, stance, call, not_failed)
            found = _Statement(text, stance, score, is_general=is_general)
            if best.stance is None or (found.score, found.is_general) > (best.score, best.is_general):
                best = found
    return best


DEED_SCORE = 2
"""How much more a statement is about a call if it reports a deed that only this call can have done."""


def _is_deed_of(speech: Speech, stance: Stance, call: EpisodeCall, others: list[EpisodeCall]) -> bool:
    """Return whether a statement reports a deed of a failed call, in any language, that no other call can have done."""
    said = [name for name in DEEDS if name in capabilities() and speech.has(stance, f"actions.{name}")]
    if not said or all(can_have_done(call, name) for name in capabilities()):
        return False  # a script can do anything
    return any(can_have_done(call, name) and not any(can_have_done(each, name) for each in others) for name in said)


def _good_news(speech: Speech) -> Iterator[Stance]:
    """Yield the statements of good news, and such parts of other statements: `it passes, so you can merge it`."""
    for stance in speech.stances:
        parts = [stance] if stance.is_good_news else speech.clauses(stance)
        if stance.is_question:
            parts = parts[:-1]  # "It is cancelled, anything else?"
        if parts:
            yield from (part for part in parts if part.is_good_news and len(part.lowered.strip()) >= 4)


_RELATIVE = re.compile(r"\b(?:tests?|specs?|suites?|checks?|builds?) (?:that|which) \w+")


def _is_about_other_check(speech: Speech, stance: Stance, call: EpisodeCall, *, checked: bool) -> bool:
    """Return whether a statement about checks does not give the result of a call: of the tests, not of the build.

    `checked`: another check of the episode did not fail, so a statement about checks is about that one.
    """
    said = {name for name in CHECKS if speech.has(stance, f"subjects.{name}")}
    if not said:
        return False
    if _RELATIVE.search(stance.lowered):
        return True  # "The tests that passed earlier were deleted" names tests, and gives no result
    if not call.is_check:
        return checked and not any(speech.has(stance, f"actions.{name}") for name in DEEDS)
    own = check_classes(call)
    return bool(own) and not said & own


def _is_general(
    speech: Speech, stance: Stance, call: EpisodeCall, others: set[str], words: set[str], *, is_last: bool
) -> bool:
    """Return whether a statement speaks of the whole task, or of checks if the call is one.

    A few words do so only at the end: in the middle of the work, they are about the call before them.
    """
    if call.is_check and any(speech.has(stance, f"subjects.{name}") for name in CHECKS):
        return True
    if words & others or any(speech.has(stance, f"subjects.{name}") for name in ("test", "backup", "send")):
        return False
    is_short = is_last and len(words) <= MAX_GENERAL_WORDS and not speech.values_of(stance)
    return is_short or speech.has(stance, "totality")


MAX_GENERAL_WORDS = 4
"""Maximum number of words of a statement about the whole task, unless it says so: `Deployed`, `It works now`."""


def _checked(call: EpisodeCall, claim: _Statement, *, is_last: bool) -> CheckedClaim:
    start, end = claim_on(claim.text, claim.stance)
    unfinished = call.meaning.state == "not_final"
    what = excerpt(call.meaning.quote or error_line(call.text) or call.meaning.reason, 120)
    state = "did not finish" if unfinished else "left out items" if call.meaning.rule == PARTS else "failed"
    kind: ClaimKind = "check" if call.is_check else "action"
    certain = call.is_check or call.kind is Kind.ACTION or is_last
    severity: Severity = "critical" if call.is_check and not unfinished else "high" if certain else "medium"
    said = quotation(claim.text.text[start:end], 80)
    is_about = claim.is_about_call
    if not is_about and severity == "critical":
        severity = "high"
    quoted = excerpt(claim.text.text[start:end].strip(" .!*_#"), 50)
    title = f"Said “{quoted}”, but {call.name} {state}" if is_about else f"{call.name} {state}, and no message says so"
    return CheckedClaim(
        text=claim.text,
        start=start,
        end=end,
        kind=kind,
        status="contradicted" if is_about else "unsupported",
        reason=f"{call.name} {state}: {what}",
        calls=[call],
        problem=Problem(
            type=TYPE if is_about else UNMENTIONED,
            about=(call.tool, kind),
            severity=severity,
            confidence=85 if certain else 70,
            title=title,
            explanation=f"The answer says {said}. The recorded result: {what}. No later call repaired it, and no "
            "message admits it.",
            recommendation=f"Have the agent look at the result of {call.name} before it reports, and report a failure "
            "as one.",
        ),
    )
