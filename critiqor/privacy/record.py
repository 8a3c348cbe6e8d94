"""Anonymized heads of run records."""

from __future__ import annotations

import msgspec

from critiqor.model import Metadata, RunHead, Seal, Timestamps, Transition
from critiqor.privacy import replacements
from critiqor.privacy.replacements import AGENT, WITHHELD


def anonymous_head(head: RunHead) -> RunHead:
    """Return the head of a run record without agent, tenant, owner and headline."""
    chosen = {
        name: replacements.metadata_word(name, getattr(head.metadata, name))
        for name in ("framework", "benchmark_id", "difficulty_tier")
    }
    times, seal = head.timestamps, head.seal
    return RunHead(
        run_id=head.run_id,
        status=head.status,
        lifecycle=[Transition(step.state, replacements.timestamp(step.timestamp)) for step in head.lifecycle],
        timestamps=Timestamps(
            replacements.timestamp(times.created_at),
            _optional_time(times.started_at),
            _optional_time(times.finalized_at),
        ),
        metadata=Metadata(agent_id=AGENT, tenant_id=WITHHELD, visibility=head.metadata.visibility, **chosen),
        cut=None if head.cut is None else msgspec.structs.replace(head.cut, fixed_at=None),
        seal=None
        if seal is None
        else Seal(replacements.digest(seal.digest), seal.bytes, seal.events, replacements.timestamp(seal.sealed_at)),
        trust_score=head.trust_score,
        confidence_score=head.confidence_score,
    )


def _optional_time(text: str | None) -> str | None:
    return None if text is None else replacements.timestamp(text)
