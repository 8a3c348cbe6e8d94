"""All hazards of an episode: the entry point of this folder."""

from __future__ import annotations

from critiqor.diagnosis.claims.episode import Episode
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.hazards.destructive_action import find_destructive_actions
from critiqor.diagnosis.hazards.hazard import draft_of
from critiqor.diagnosis.hazards.masked_value import find_masked_values
from critiqor.diagnosis.hazards.prompt_injection import find_prompt_injections
from critiqor.diagnosis.hazards.scope_creep import find_scope_creep

_FINDERS = (find_prompt_injections, find_destructive_actions, find_masked_values, find_scope_creep)


def find_hazards(episode: Episode) -> list[Draft]:
    """Return the hazards of an episode; an agent without a request was not asked for anything and is not judged."""
    if not episode.calls or not (episode.requests or episode.earlier):
        return []
    return [draft_of(episode, hazard) for find in _FINDERS for hazard in find(episode)]
