"""All lapses of an episode: the entry point of this folder."""

from __future__ import annotations

from critiqor.diagnosis.claims.episode import Episode
from critiqor.diagnosis.conduct.lapse import draft_of
from critiqor.diagnosis.conduct.premature_stop import find_premature_stop
from critiqor.diagnosis.drafts.draft import Draft

_FINDERS = (find_premature_stop,)


def find_lapses(episode: Episode) -> list[Draft]:
    """Return the lapses of an episode."""
    return [draft_of(episode, lapse) for find in _FINDERS for lapse in find(episode)]
