"""All lapses of an episode: the entry point of this folder."""

from __future__ import annotations

from critiqor.diagnosis.claims.episode import Episode
from critiqor.diagnosis.conduct.children import find_unfinished_children
from critiqor.diagnosis.conduct.forgotten_prohibitions import find_forgotten_prohibitions
from critiqor.diagnosis.conduct.ignored_output import find_ignored_output
from critiqor.diagnosis.conduct.lapse import draft_of
from critiqor.diagnosis.conduct.memory import (
    find_contradicted_memories,
    find_forgotten_statements,
    find_repeated_questions,
)
from critiqor.diagnosis.conduct.premature_stop import find_premature_stop
from critiqor.diagnosis.conduct.unstarted import find_unstarted_work
from critiqor.diagnosis.drafts.draft import Draft

_FINDERS = (
    find_premature_stop,
    find_forgotten_prohibitions,
    find_contradicted_memories,
    find_repeated_questions,
    find_forgotten_statements,
    find_unfinished_children,
    find_ignored_output,
    find_unstarted_work,
)


def find_lapses(episode: Episode) -> list[Draft]:
    """Return the lapses of an episode; one that is under way may still do what is missing."""
    if not episode.has_ended and episode.following is None:
        return []
    return [draft_of(episode, lapse) for find in _FINDERS for lapse in find(episode)]
