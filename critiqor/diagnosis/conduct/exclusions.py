"""What notes exclude: an ingredient that somebody must not have, a weekday, or a value that no longer counts."""

# ruff: noqa: RUF001 - punctuation of several languages
from __future__ import annotations

import re

from critiqor.diagnosis.claims.call_arguments import members
from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.conduct.wording import content_stems
from critiqor.diagnosis.hazards.session_history import linked_cells
from critiqor.diagnosis.hazards.words import words
from critiqor.diagnosis.signals.text import tokens

MAX_EXCLUDED = 2
"""Maximum number of words that are excluded by one clause: no red meat."""
MAX_CLAUSE = 4
"""Maximum number of words behind a negation of such a clause: a longer one names a condition."""
MIN_ALLERGEN = 3
"""Number of characters that the name of an allergen exceeds."""
_PART = re.compile(r"[,;:()\n/]|[.!?]\s|\s[–—-]\s|[，。；：、（）]|\\n")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")
_PEOPLE = frozenset(
    ("name", "names", "attendees", "guests", "guest", "to", "recipient", "contact", "person", "for", "passenger")
)


def excluded_in(notes: str) -> list[tuple[str, frozenset[str]]]:
    """Return the clauses of notes that exclude an ingredient, each with the beginnings of its words."""
    if not (words("allergy").may_be_within(notes) or words("exclude").may_be_within(notes)):
        return []
    found = []
    for clause in _PART.split(notes):
        stems = _allergens(clause) or _unwanted(clause)
        if stems:
            found.append((clause.strip(), frozenset(stems)))
    return found


def _allergens(clause: str) -> set[str]:
    """Return what a clause says that somebody is allergic to: the words next to the allergy."""
    hits = words("allergy").find(clause)
    if not hits:
        return set()
    start, end = hits[0]
    before, after = clause[:start].split()[-MAX_EXCLUDED:], clause[end:].split()[: MAX_EXCLUDED + 1]
    # Somebody's name often stands before it: Bea has a peanut allergy.
    around = (*(word for word in before[:-1] if not word.istitle()), *before[-1:], clause[start:end], *after)
    known = content_stems(" ".join(clause[first:last] for first, last in hits))
    return {stem for stem in content_stems(" ".join(around)) if stem not in known}


def _unwanted(clause: str) -> set[str]:
    """Return what a short clause excludes: no pork. All its words together are what is excluded."""
    hits = words("exclude").find(clause)
    if not hits or any(map(str.isdigit, clause)):
        return set()
    rest = clause[hits[0][1] :] if not _UNSPACED.search(clause) else clause[: hits[0][0]] + clause[hits[0][1] :]
    if len(rest.split()) > MAX_CLAUSE:
        return set()
    stems = content_stems(rest)
    return stems if 0 < len(stems) <= MAX_EXCLUDED else set()


def contains_excluded(
    episode: Episode, call: EpisodeCall, excluded: list[tuple[str, frozenset[str]]], asked: set[str]
) -> str | None:
    """Return the clause that excludes something which an action contains, by its arguments or what they stand for.

    `asked` are the beginnings of words that the user wants all the same.
    """
    if not excluded:
        return None
    values = [value.strip() for name, value in members(call) if name.lower() not in _PEOPLE and value.strip()]
    if any(_takes_care(value, excluded) for value in values):
        return None
    cells = [*values, *(cell for value in values for cell in linked_cells(episode, call, value.lower()))]
    # Without the order number: that is how something is to be looked up, not what is in it.
    named = content_stems(" ".join(name.replace("_", " ") for name, _ in members(call)))
    excluded = [each for each in excluded if not each[1] <= named]
    for cell in cells:
        if words("exclude").within(cell):
            continue  # a dish without it
        stems = content_stems(cell)
        for clause, wanted in excluded:
            is_allergy = words("allergy").within(clause)
            shared = wanted & stems - asked
            if (shared or _is_kind_of(cell, wanted - asked)) if is_allergy else shared == wanted:
                return clause
    return None


def _is_kind_of(cell: str, allergens: frozenset[str]) -> bool:
    """Return whether a word of a cell is a compound of an allergen: a walnut is a nut."""
    ends = tuple(stem.rstrip("s") for stem in allergens if len(stem) > MIN_ALLERGEN)
    return any(word.rstrip("s").endswith(ends) for word in tokens(cell)) if ends else False


def _takes_care(value: str, excluded: list[tuple[str, frozenset[str]]]) -> bool:
    """Return whether an argument passes the exclusion on: a note for the kitchen."""
    if not (words("exclude").within(value) or words("allergy").within(value)):
        return False
    return any(content_stems(value) & stems for _, stems in excluded)
