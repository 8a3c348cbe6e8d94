"""`evidence_tampered`: records or files of the run were changed, removed, added or suppressed while it was recorded."""

from __future__ import annotations

from critiqor.diagnosis.detector import RecordingDetector
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep
from critiqor.model.evidence import WitnessFacts
from critiqor.model.formatting import counted

TYPE = "evidence_tampered"
MEANING = "records or files of the run were altered while it was recorded"


class EvidenceTampered(RecordingDetector):
    """Reads what the monitor knows about the records from the coverage. It observes no spans."""

    def findings(self) -> list[Draft]:
        facts = self._recording.coverage.witness
        if facts is None or not facts.is_tampered:
            return []
        at = facts.examples[:1] or [event for event in (self._recording.first_event,) if event]
        title = f"The evidence of this run was altered: {', '.join(_describe(facts))}"
        return [
            Draft(
                type=TYPE,
                about=("journal",),
                severity="critical",
                confidence=95,
                title=title,
                explanation="Critiqor's monitor counted the records in its own memory while they were written, and the "
                "files of the run do not agree with it. Something that runs as the same user has changed them: the "
                "agent, one of its tools, or another program. What the record says about its work may be wrong.",
                evidence=cite_events(facts.examples or at),
                occurrences=max(1, facts.changed + facts.removed + facts.inserted),
                first_bad_step=at[0] if at else None,
                chain=[CausalStep(at[0], title, None)] if at else [],
                recommendation="Do not rely on this run. Find the command that wrote into the runs folder among the "
                "tool calls, and run the agent as another user, or in a sandbox without access to that folder.",
                verification="Record again: `critiqor finalize` reports no altered evidence.",
            )
        ]


def _describe(facts: WitnessFacts) -> list[str]:
    parts = {
        "changed": facts.changed,
        "removed": facts.removed,
        "added": facts.inserted,
    }
    described = [f"{counted(number, 'record')} {how}" for how, number in parts.items() if number]
    if facts.unknown_recorders:
        described.append("records of an unknown writer")
    if facts.silenced_recorders:
        described.append("a recorder was stopped by a forged seal")
    if facts.irregular_reports:
        described.append("forged reports to the monitor")
    if facts.lifecycle_changed:
        described.append("lifecycle events changed")
    return described + facts.altered
