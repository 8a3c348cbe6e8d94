"""`records_lost`: records were produced and never reached the evidence, so failures in them cannot be ruled out."""

from __future__ import annotations

from critiqor.diagnosis.detector import RecordingDetector
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted

TYPE = "records_lost"
MEANING = "records were produced and never reached the evidence"
MAX_SHARE_FOR_LOW = 0.01
"""Share of lost records up to which a loss of a few of them is of low severity."""
MAX_FOR_LOW = 3


class RecordsLost(RecordingDetector):
    """Reads the losses from the coverage, which the storage counts. It observes no spans."""

    def findings(self) -> list[Draft]:
        recording = self._recording
        coverage = recording.coverage
        lost = coverage.damaged_records + coverage.missing_records
        if not lost:
            return []
        title = f"The recorder lost {counted(lost, 'record')}"
        event_id = recording.first_event
        return [
            Draft(
                type=TYPE,
                about=("lost",),
                severity=_severity(lost, coverage.agent_events),
                confidence=100,
                title=title,
                explanation="Their content is unknown, so failures in them cannot be ruled out.",
                evidence=cite_events([event_id] if event_id else []),
                occurrences=lost,
                first_bad_step=event_id,
                chain=[CausalStep(event_id, title, None)] if event_id else [],
                recommendation="See `coverage` in session.json for where records were lost. Usual causes: a full disk, "
                "a killed process, a runs folder that was removed or became read-only.",
                verification="Record again: the coverage block shows no lost records.",
            )
        ]


def _severity(lost: int, kept: int) -> Severity:
    if not kept:
        return "medium"  # `inspection_incomplete` is high, and says that nothing of the agent is known
    if lost > kept:
        return "high"
    return "low" if lost <= MAX_FOR_LOW and lost <= MAX_SHARE_FOR_LOW * kept else "medium"
