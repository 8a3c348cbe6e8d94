"""`inspection_incomplete`: the recorder saw nothing or not everything, or an imported file was not understood."""

from __future__ import annotations

from critiqor.diagnosis.detector import RecordingDetector
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import RUN_AGAIN, START_AGAIN, Draft
from critiqor.diagnosis.recording import Recording
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt

TYPE = "inspection_incomplete"
MEANING = "the recorder saw nothing, or not everything"
_ADVICE = {
    "not_closed": "See `coverage` in session.json. Usual causes: a killed process, a full disk.",
    "cut": RUN_AGAIN,
    "interrupted": START_AGAIN,
    "idle": "Give the agent a task while it is recorded.",
    "not_understood": "Convert the file to one of the formats in docs/importing.md, and import it again.",
}
_RECORD_AGAIN = "Record again: the coverage block shows agent events and no lost records."
_VERIFICATIONS = {
    "interrupted": "Record again: the coverage block shows agent events.",
    "idle": "Record again: the coverage block shows agent events.",
    "cut": "Record again: let the agent finish, then run `critiqor finalize`.",
    "not_understood": "Import again: the coverage block shows agent events, and no entries that were not understood.",
}


class InspectionIncomplete(RecordingDetector):
    """Reads the gaps of the recording from `Recording`. It observes no spans: the storage counts the coverage."""

    def findings(self) -> list[Draft]:
        recording = self._recording
        coverage = recording.coverage
        if coverage.imported_from is not None and not recording.shows_work:
            title = "Nothing that an agent did was understood in the imported file"
            reasons = "; ".join(coverage.notes) or "it has no events"
            explanation = f"It contains no message, model call or tool call that Critiqor can read: {reasons}"
            return [_draft(recording, "not_understood", "high", title, explanation)]
        if recording.was_stopped_before_agents:
            title = "OpenClaw was interrupted before an agent began"
            return [_draft(recording, "interrupted", "low", title, "Nothing is known about agents: none had started.")]
        if recording.was_idle:
            explanation = "The recorder was attached and lost no record; OpenClaw started no agent run."
            return [_draft(recording, "idle", "low", "No agent run took place", explanation)]
        if coverage.agent_events == 0:
            why = recording.not_attached.error if recording.not_attached is not None else None
            note = coverage.notes[0] if coverage.notes else "No agent event was recorded."
            return [_draft(recording, "blind", "high", f"The agent was not observed{_end_of(recording)}", why or note)]
        drafts = []
        if recording.is_hollow:
            title = "The agent ran, but none of its calls or messages were recorded"
            explanation = "No model call, tool call or message was recorded, so failures cannot be ruled out."
            drafts.append(_draft(recording, "hollow", "high", title, explanation))
        if coverage.sealed_while_running and recording.was_cut_short:
            title = "The recording was sealed while the agent was working"
            explanation = "What happened afterwards is not in the evidence, so later failures cannot be ruled out."
            drafts.append(_draft(recording, "cut", "low", title, explanation))
        witness = coverage.witness
        if witness is not None and witness.unreported:
            title = f"The monitor did not confirm {counted(witness.unreported, 'record')} at the end of a recorder"
            explanation = "The recorder was killed, or went on after its monitor. Somebody else may have added them."
            drafts.append(_draft(recording, "unconfirmed", "medium", title, explanation))
        if coverage.recorders_not_closed or (witness is not None and witness.is_missing):
            title = "How many records are missing at the end of the recording is not known"
            explanation = "The recorder or its monitor was killed, or could not write, before it left its counts."
            drafts.append(_draft(recording, "not_closed", "low", title, explanation))
        return drafts


def _end_of(recording: Recording) -> str:
    """Return the failure of the process, for a title; empty if the process did not fail."""
    event = recording.error_of("nonzero_exit", "launch_failed", "os_error")
    return f"; OpenClaw failed: {excerpt(event.error, 100)}" if event is not None and event.error else ""


def _draft(recording: Recording, how: str, severity: Severity, title: str, explanation: str) -> Draft:
    at = recording.not_attached or recording.process_start
    if how in ("cut", "interrupted", "idle"):
        at = recording.process_end or recording.last_event
    event_id = at.event_id if at is not None else recording.first_event
    return Draft(
        type=TYPE,
        about=(how,),
        severity=severity,
        confidence=100,
        title=title,
        explanation=explanation,
        evidence=cite_events([event_id] if event_id else []),
        first_bad_step=event_id,
        chain=[CausalStep(event_id, title, None)] if event_id else [],
        recommendation=_ADVICE.get(how, "Run `critiqor doctor --probe`, then record again."),
        verification=_VERIFICATIONS.get(how, _RECORD_AGAIN),
    )
