"""What an agent reports as done or checked, and whose recorded result says how it ended."""

from __future__ import annotations

from collections.abc import Iterator

from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.disclosure import COMMON, DEEDS
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall, EpisodeText
from critiqor.diagnosis.claims.language import small_words
from critiqor.diagnosis.claims.outcomes.check_classes import CHECKS, check_classes, gives_result
from critiqor.diagnosis.claims.outcomes.repairs import unresolved_failures
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.signals.text import stems, tokens
from critiqor.model import ClaimKind
from critiqor.spans.calls import Kind

MIN_WORD = 3
"""Minimum number of letters of a word by which a clause and a call are compared."""


def check_confirmations(episode: Episode) -> list[CheckedClaim]:
    """Return the clauses that report a check, a deed or an inspection for which a call was recorded.

    They are never problems: a clause without such a call, or with one that failed, is left to the other checks.
    """
    if not episode.lists_all or not episode.calls:
        return []
    calls = _Calls(episode)
    claims = []
    for text in (*episode.messages[-1:], *episode.outgoing):
        speech = episode.speech(text)
        for clause in _reports(speech):
            claims += _confirmed(text, speech, clause, calls)
    return claims


def _reports(speech: Speech) -> Iterator[Stance]:
    for stance in speech.stances:
        if stance.marks and not (stance.is_question or stance.is_attributed):
            for clause in speech.clauses(stance):
                if clause.is_good_news and not (clause.is_uncertain or clause.is_limited):
                    yield clause


class _Calls:
    """The calls of an episode that can confirm a report."""

    def __init__(self, episode: Episode) -> None:
        self.all = episode.calls
        self._failed = {call.call_id for call in unresolved_failures(episode)}
        self.checks = [call for call in episode.calls if call.is_check]
        self.last_change = max((call.order for call in episode.calls if call.kind is Kind.CHANGE), default=-1)

    def best(self, clause: Stance, *, with_effect: bool) -> EpisodeCall | None:
        """Return the call whose arguments share most words with a clause; of several, the last.

        What an argument only says to others is no evidence of it.
        """
        said = stems({word for word in tokens(clause.lowered) if len(word) >= MIN_WORD} - COMMON - small_words())
        scores = [(len(said & stems(tokens(call.facts))), call) for call in self.all if call.has_effect == with_effect]
        score, best = max(scores, key=lambda pair: (pair[0], pair[1].order), default=(0, None))
        return best if score and best is not None and best.call_id not in self._failed else None


def _confirmed(text: EpisodeText, speech: Speech, clause: Stance, calls: _Calls) -> list[CheckedClaim]:
    checked = {name for name in CHECKS if speech.has(clause, f"subjects.{name}")}
    if gives_result(speech, clause, checked):
        own = [call for call in calls.checks if checked & check_classes(call)]
        # A check before the last change says nothing about the state that is reported.
        current = own[-1] if own and own[-1].order > calls.last_change else None
        return _claim(text, clause, "check", current)
    if any(speech.has(clause, f"actions.{name}") for name in DEEDS):
        return _claim(text, clause, "action", calls.best(clause, with_effect=True))
    if speech.has(clause, "actions.inspect"):
        return _claim(text, clause, "inspection", calls.best(clause, with_effect=False))
    return []


def _claim(text: EpisodeText, clause: Stance, kind: ClaimKind, call: EpisodeCall | None) -> list[CheckedClaim]:
    if call is None or call is text.call or call.meaning.state in ("failure", "not_final"):
        return []
    # To have read something is shown by its output, whatever that says.
    is_shown = call.meaning.state == "success" or kind == "inspection"
    place = clause.statement
    return [
        CheckedClaim(
            text=text,
            start=place.start + len(place.text) - len(place.text.lstrip()),
            end=place.end,
            kind=kind,
            status="supported" if is_shown else "unverifiable",
            reason=_reason(call, is_shown=is_shown),
            calls=[call],
        )
    ]


def _reason(call: EpisodeCall, *, is_shown: bool) -> str:
    if not is_shown:
        return f"the result of {call.name} does not say how it ended"
    return f"{call.name}: {call.meaning.reason}" if call.meaning.reason else f"{call.name} returned it"
