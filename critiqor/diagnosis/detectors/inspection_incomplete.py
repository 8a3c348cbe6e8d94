"""`inspection_incomplete`: where the recorder was blind, so that a zero does not read as clean."""

from __future__ import annotations

from critiqor.diagnosis.draft import RUN_AGAIN, Draft, cite
from critiqor.diagnosis.recording import Recording
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt

TYPE = "inspection_incomplete"
MUCH = 10
"""Lost records from which conclusions become doubtful."""
_ADVICE = {
    "lost": "See the coverage of the evidence for where records were lost: a full disk, or a process that was killed.",
    "cut": RUN_AGAIN,
}


def detect(recording: Recording) -> list[Draft]:
    """What the recorder did not see; it never costs the agent any trust."""
    coverage = recording.coverage
    if coverage.agent_events == 0:
        why = recording.blindness.error if recording.blindness is not None else None
        note = coverage.notes[0] if coverage.notes else "No event came from an agent."
        return [_draft(recording, "blind", "high", f"The agent was not observed{_ended(recording)}", why or note)]
    drafts = []
    if recording.is_hollow:
        title = "What the agent did was not seen, only that there was one"
        explanation = "Neither a model call nor a tool call nor a message was recorded: that nothing is wrong "
        explanation += "does not follow."
        drafts.append(_draft(recording, "hollow", "high", title, explanation))
    if coverage.sealed_while_running and recording.was_cut_short:
        title = "The recording was sealed while the agent was at work"
        explanation = "How it went on is not in the evidence: that a problem is not in here does not mean that it "
        explanation += "would not have come."
        drafts.append(_draft(recording, "cut", "low", title, explanation))
    lost = coverage.damaged_records + coverage.missing_records
    if lost:
        title = f"{counted(lost, 'record')} of the recorder {'is' if lost == 1 else 'are'} lost"
        explanation = "What they held is unknown: nothing follows from its absence here."
        drafts.append(_draft(recording, "lost", "medium" if lost >= MUCH else "low", title, explanation))
    return drafts


def _ended(recording: Recording) -> str:
    """How the process ended, where that is all that is known."""
    event = recording.error_of("nonzero_exit", "launch_failed", "os_error")
    return f"; OpenClaw: {excerpt(event.error, 100)}" if event is not None and event.error else ""


def _draft(recording: Recording, how: str, severity: Severity, title: str, explanation: str) -> Draft:
    at = recording.last_event if how == "cut" else recording.blindness or recording.process_start
    event_id = at.event_id if at is not None else recording.first_event
    return Draft(
        type=TYPE,
        about=(how,),
        severity=severity,
        confidence=100,
        title=title,
        explanation=explanation,
        evidence=cite([event_id] if event_id else []),
        first_bad_step=event_id,
        chain=[CausalStep(event_id, title, None)] if event_id else [],
        recommendation=_ADVICE.get(how, "Run `critiqor doctor --probe`, then record again."),
        verification="Record again: the agent comes to its end, and then the run is finalized."
        if how == "cut"
        else "Record again: the coverage shows agent events and no lost records.",
    )
