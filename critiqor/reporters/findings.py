"""What several formats want to know of a finding."""

from __future__ import annotations

from critiqor.model.diagnosis import Finding


def first_step(finding: Finding) -> str:
    """The event, or the line of the timeline, where it began to go wrong; an empty text where nothing is cited."""
    return finding.first_bad_step or next(iter(finding.evidence), "")
