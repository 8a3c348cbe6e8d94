"""The events that a finding cites."""

from __future__ import annotations

from critiqor.model.diagnosis import Finding


def first_step(finding: Finding) -> str:
    """Return the id of the event or timeline line where it began to go wrong; empty where nothing is cited."""
    return finding.first_bad_step or next(iter(finding.evidence), "")


def cited_by(finding: Finding) -> list[str]:
    """Return the ids of everything it cites, each once: where it began, its causal chain, its evidence."""
    first = [finding.first_bad_step] if finding.first_bad_step else []
    return list(dict.fromkeys([*first, *(step.event_id for step in finding.causal_chain), *finding.evidence]))
