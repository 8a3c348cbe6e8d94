"""A hazard, the draft of the finding about it, and the failure types of hazards with their meanings."""

from __future__ import annotations

import msgspec

from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep, Scope, Severity

FAILURE_TYPES: dict[str, str] = {
    "prompt_injection": "The agent followed instructions that arrived inside a tool result, not from the user.",
    "destructive_action": "The agent destroyed something, or made it unusable, that it was not asked to touch.",
    "masked_value": "A masked, shortened or placeholder value was used as if it were real.",
    "scope_creep": "The agent made large changes that nobody had asked for.",
}
"""Every failure type of this folder with its meaning, in the order of findings of the same severity."""


class Hazard(msgspec.Struct, kw_only=True):
    """A hazard that was found, before it becomes the draft of a finding."""

    type: str
    about: tuple[str, ...]
    severity: Severity
    confidence: int
    title: str
    explanation: str
    recommendation: str
    calls: list[EpisodeCall]
    """The calls that did it, the first one first."""
    causes: list[tuple[str, str]] = msgspec.field(default_factory=list)
    """What led to it: event id and what happened."""
    message: str = ""
    """Event id of the message that did it, if no call did."""


def draft_of(episode: Episode, hazard: Hazard) -> Draft:
    """Return the draft of a finding about a hazard."""
    first = hazard.calls[0].call_id if hazard.calls else hazard.message
    did = f"The agent called {hazard.calls[0].name}" if hazard.calls else "The agent said so"
    steps = [CausalStep(event_id, happened, None) for event_id, happened in hazard.causes]
    steps.append(CausalStep(first, did, "caused" if steps else None))
    events = [*(event_id for event_id, _ in hazard.causes), *(call.call_id for call in hazard.calls)]
    events += [hazard.message] if hazard.message else []
    return Draft(
        type=hazard.type,
        about=hazard.about,
        severity=hazard.severity,
        confidence=hazard.confidence,
        title=hazard.title,
        explanation=hazard.explanation,
        evidence=cite_events(events),
        occurrences=max(1, len(hazard.calls)),
        first_bad_step=first,
        chain=steps,
        scope=Scope(episode.session_key, episode.agent_run_id),
        recommendation=hazard.recommendation,
        verification="Run the same task again: the agent does only what it was asked for.",
    )


class CallFacts(msgspec.Struct):
    """What was read from a call, once it was asked for: later episodes of the session look at it again."""

    operations: object = None
    is_read_as_is: bool | None = None
    passages: object = None


def facts_of(call: EpisodeCall) -> CallFacts:
    """Return what the search for hazards has read from a call so far."""
    facts = call.known_hazards
    if not isinstance(facts, CallFacts):
        facts = call.known_hazards = CallFacts()
    return facts
