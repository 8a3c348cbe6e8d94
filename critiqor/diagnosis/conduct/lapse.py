"""A lapse in the way an agent works, and the draft of the finding about it."""

from __future__ import annotations

import msgspec

from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.collections.orders import Orders
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep, Scope, Severity


class Lapse(msgspec.Struct, kw_only=True):
    """A lapse that was found, before it becomes the draft of a finding."""

    type: str
    about: tuple[str, ...]
    severity: Severity = "medium"
    confidence: int = 65
    title: str
    explanation: str
    recommendation: str
    verification: str
    causes: list[tuple[str, str]] = msgspec.field(default_factory=list)
    """What the agent knew or was asked: event id and what happened."""
    event_id: str
    """The event with which the agent went wrong."""
    happened: str
    calls: list[EpisodeCall] = msgspec.field(default_factory=list)
    """Other calls that prove it."""


def draft_of(episode: Episode, lapse: Lapse) -> Draft:
    """Return the draft of a finding about a lapse."""
    steps = [CausalStep(event_id, happened, None) for event_id, happened in lapse.causes[:2]]
    steps.append(CausalStep(lapse.event_id, lapse.happened, "ignored" if steps else None))
    events = [*(event_id for event_id, _ in lapse.causes), lapse.event_id, *(call.result_id for call in lapse.calls)]
    return Draft(
        type=lapse.type,
        about=lapse.about,
        severity=lapse.severity,
        confidence=lapse.confidence,
        title=lapse.title,
        explanation=lapse.explanation,
        evidence=cite_events(sorted(set(events))),
        first_bad_step=lapse.event_id,
        chain=steps,
        explained_calls=Orders(call.order for call in lapse.calls),
        scope=Scope(episode.session_key, episode.agent_run_id),
        recommendation=lapse.recommendation,
        verification=lapse.verification,
    )
