"""Whether a text admits which items failed, if only some did."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.episode import EpisodeCall
from critiqor.diagnosis.claims.speech import Speech, Stance
from critiqor.diagnosis.claims.values import word_numbers
from critiqor.diagnosis.signals.text import stems, tokens


def item_words(call: EpisodeCall) -> set[str]:
    """Return the words that tell the failed items from the others: `sp3` of `edge-sp3`."""
    if not call.meaning.items:
        return set()
    around = f"{call.arguments} {call.text}".lower()
    found: set[str] = set()
    for item in call.meaning.items:
        words = {word for word in tokens(item.replace("_", " ")) if len(word) >= 2} or {item.lower()}
        counts = {word: around.count(word) for word in (*words, item.lower())}
        rarest = min(counts.values(), default=0)
        found |= {word for word, count in counts.items() if count == rarest}
    return found


MIN_TOLD = 2
"""Minimum number of words of what went wrong that say so without a name: one can be there by chance."""


def admits_named(speech: Speech, names: set[str], others: set[str], subject_words: set[str]) -> bool | None:
    """Return whether a text says that something is wrong with what it names; None if it does not name it.

    A name in a row with those of what worked is claimed like them, whatever else the sentence says.
    """
    naming = [stance for stance in speech.stances if _names(stance.lowered, names)]
    if not naming:
        return None
    for stance in naming:
        if stems(speech.tokens_of(stance)) & subject_words:
            return True
        own = [clause for clause in speech.clauses(stance) if _names(clause.lowered, names)]
        if any(map(_is_caveat, own)) or any(clause.is_question for clause in own):
            return True
        if _is_caveat(stance) and not _names(stance.lowered, others):
            return True
    return any(_is_caveat(stance) and stems(speech.tokens_of(stance)) & subject_words for stance in speech.stances)


def admits_part(speech: Speech, subject_words: set[str], counts: set[int]) -> bool:
    """Return whether a text admits that some items failed without naming them: by a reason, a number or a limit."""
    for stance in speech.stances:
        shared = stems(speech.tokens_of(stance)) & subject_words
        if len(shared) >= MIN_TOLD or any(map(str.isdigit, shared)):
            return True
        if not _is_caveat(stance) or stance.is_plan:
            continue
        if speech.limits_state(stance) or any(
            value.number in counts for value in speech.values_of(stance) if value.readings
        ):
            return True
        if any(value.number in counts for value in word_numbers(stance.statement.text, speech.language)):
            return True
    return False


def admits_items(speech: Speech, items: set[str], subject_words: set[str]) -> bool | None:
    """Return whether a text says that the items failed which it names; None if it names none of them.

    `subject_words` are beginnings of words that tell what is wrong, also without a name.
    """
    naming = [number for number, stance in enumerate(speech.stances) if _names(stance.lowered, items)]
    if not naming:
        return None
    for number in naming:
        if _is_caveat_on_items(speech, speech.stances[number], items, subject_words):
            return True
        # What is wrong with an item is often said in the next sentence.
        following = speech.stances[number + 1 : number + 2]
        if any(after.is_bad_news and not after.is_plan and speech.has(after, "trouble") for after in following):
            return True
    return any(stems(speech.tokens_of(stance)) & subject_words for stance in speech.stances)


def _is_caveat_on_items(speech: Speech, stance: Stance, items: set[str], subject_words: set[str]) -> bool:
    """Return whether a statement that names items says that something is wrong with them, not with something else.

    `Closed on Booking and HRS, nobody can book there any more` names an item, and has bad news for others.
    """
    clauses = speech.clauses(stance)
    own = [number for number, clause in enumerate(clauses) if _names(clause.lowered, items)]
    if any(speech.has(clauses[number], "persists") for number in own):
        return True  # "Carousel.jsx stays a class"
    if not _is_caveat(stance):
        return stance.is_question
    if not own or any(_is_caveat(clauses[number]) for number in own):
        return True
    # A name alone says nothing yet: "HRS: not closed", "HRS, that did not work".
    if any(len(speech.tokens_of(clauses[number]) - items) < MIN_CLAIM for number in own):
        return True
    others = [clause for clause in clauses if _is_caveat(clause)]
    return any(speech.has(other, "trouble") or stems(speech.tokens_of(other)) & subject_words for other in others)


def _names(lowered: str, items: set[str]) -> bool:
    """Return whether a text names one of these items; in scripts without spaces, other letters can follow."""
    return any(item in lowered and re.search(rf"(?<![a-z0-9]){re.escape(item)}(?![a-z0-9])", lowered) for item in items)


MIN_CLAIM = 2
"""Minimum number of words besides names with which a clause claims something."""


def _is_caveat(stance: Stance) -> bool:
    return stance.is_bad_news or stance.is_limited or stance.is_uncertain
