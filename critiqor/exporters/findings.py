"""What several formats want to know of a finding."""

from __future__ import annotations

from critiqor.model.diagnosis import Finding


def first_step(finding: Finding) -> str:
    """The event, or the line of the timeline, where it began to go wrong; an empty text where nothing is cited."""
    return finding.first_bad_step or next(iter(finding.evidence), "")


def cited_by(finding: Finding) -> list[str]:
    """All that it rests on, each once: where it began, its chain, then its evidence."""
    first = [finding.first_bad_step] if finding.first_bad_step else []
    return list(dict.fromkeys([*first, *(step.event_id for step in finding.causal_chain), *finding.evidence]))
