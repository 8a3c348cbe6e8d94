"""The agent says that it wrote to, called, asked or informed somebody, and no call can have reached anybody."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.call_arguments import argument_text
from critiqor.diagnosis.claims.checked import CheckedClaim
from critiqor.diagnosis.claims.checks.actions import is_content
from critiqor.diagnosis.claims.deeds.capabilities import can_have_done
from critiqor.diagnosis.claims.deeds.unsupported import unsupported
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.claims.evidence import Evidence
from critiqor.diagnosis.claims.language import normalize, small_words
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.signals.text import stems, tokens

MAX_CLAUSE = 300
"""Maximum number of characters of a clause that is examined."""
MIN_WORD = 4
"""Minimum number of letters of a word that names somebody."""
_NEAR = 16
"""Number of characters around a word in which the person is looked for whom it is about."""
_YOU = re.compile(
    r"\b(?:you|your|dir|dich|euch|vous|ti|usted|você|vocês|je|jij|u|dig|er|ci|cię|wam|pan\w?|вам|вас|вы|тебе|тебя|sana|size|siz)\b"
    r"|[你您]|さん(?:に|へ)お|고객님"
)
"""The user: `as you asked`, `I told you`."""
_AS = re.compile(r"\b(?:as|wie|comme|como|come|zoals|jak|как|som) (?:\w+ )?$")
"""As asked, as requested."""
_PRESENT = re.compile(
    r"\b(?:be|being|gets?|getting|is|are|if|when|wird|werden|wordt|worden|viene|vengono|es|son|é|são|jest|są|est|sont)\b"
)
"""A passive of the present says how something works: the customer is notified by the shop."""
_STATE = re.compile(r"\baware\b|in the loop|op de hoogte|au courant|al corriente|al tanto|al corrente|\bciente|a par\b")
"""Somebody knows something now, so somebody has said it."""


def check_contacts(episode: Episode, evidence: Evidence) -> list[CheckedClaim]:
    """Return the claims of contacts for which there is no call."""
    answer = episode.answer
    if answer is None or not episode.calls or episode.has_dropped:
        return []
    speech = episode.speech(answer)
    if speech.language is None or not speech.mentions("contact"):
        return []
    said = [
        clause
        for stance in speech.stances
        if not (stance.is_question or stance.is_attributed or stance.is_uncertain or stance.statement.cells)
        for clause in speech.clauses(stance)
        if _is_claim(episode, evidence, speech, clause)
    ]
    # The calls are looked at last: most answers speak of no contact.
    if not said or any(can_have_done(call, "send") for call in evidence.calls):
        return []
    effects = [call for call in evidence.calls if call.has_effect]
    return [
        unsupported(
            answer, clause, "contact", reason="no call that could have reached anybody was recorded", kind="action"
        )
        for clause in said
        if not any(_names_same(call, clause) for call in effects)
    ]


def _is_claim(episode: Episode, evidence: Evidence, speech: Speech, clause: Stance) -> bool:
    """Return whether a clause says that somebody else than the user was contacted."""
    if not clause.is_good_news or clause.is_uncertain or len(clause.lowered) > MAX_CLAUSE:
        return False
    words = [word for word in speech.words(clause, "contact") if _is_about_others(clause.lowered, word)]
    known = normalize(episode.request)
    # The user may have done it: I have told Anna already.
    words = [word for word in words if word not in known and not is_content(word, evidence)]
    if not words:
        return False
    # Without any deed of the agent, an answer often tells what others did.
    is_own = speech.is_own_deed(clause)
    if not is_own and _PRESENT.search(clause.lowered) and not _STATE.search(clause.lowered):
        return False
    return is_own or any(call.has_effect for call in episode.calls)


def _is_about_others(lowered: str, word: str) -> bool:
    at = lowered.find(word)
    before, after = lowered[max(0, at - _NEAR) : at], lowered[at + len(word) : at + len(word) + _NEAR]
    return not (_YOU.search(before) or _YOU.search(after) or _AS.search(before))


def _names_same(call: EpisodeCall, clause: Stance) -> bool:
    """Return whether a deed names whom a clause is about: an order or a ticket informs those that it names."""
    said = stems({word for word in tokens(clause.lowered) if len(word) >= MIN_WORD} - small_words())
    return bool(said & stems({word for word in tokens(argument_text(call)) if len(word) >= MIN_WORD}))
