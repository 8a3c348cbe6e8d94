"""`process_failure`: the program itself died: crash, signal, out of memory, an exit code that is not 0."""

from __future__ import annotations

from critiqor.diagnosis.draft import RUN_AGAIN, Draft, cite
from critiqor.diagnosis.recording import Recording
from critiqor.model import CausalStep, Event, Severity
from critiqor.model.sanitize import excerpt

TYPE = "process_failure"
SIGNALS = 128
"""Exit codes from here on are signals."""
_MEMORY = {
    SIGNALS + 9: " A kill that nobody sent is most often the system running out of memory.",
    SIGNALS + 6: " Node ends itself like this when its memory is full.",
}


def detect(recording: Recording) -> list[Draft]:
    """How the process ended, if not well; a timeout is told by `timeout`."""
    event = recording.error_of("nonzero_exit", "launch_failed", "os_error", "interrupted")
    if event is None:
        return []
    if not recording.was_asked_to_stop:
        return [_draft(recording, event, "critical" if (recording.exit_code or 0) >= SIGNALS else "high")]
    # Ending a program that has nothing to do is how it is meant to end.
    return [_draft(recording, event, "low")] if recording.was_cut_short else []


def _draft(recording: Recording, event: Event, severity: Severity) -> Draft:
    stopped, code = recording.was_asked_to_stop, recording.exit_code
    reason = "stopped" if stopped else str(event.payload.get("reason"))
    waiting = recording.open_steps
    running = f" `{waiting[0].tool}` was running." if waiting else ""
    last = recording.last_agent_event
    return Draft(
        type=TYPE,
        about=(reason,) if stopped else (reason, str(code)),
        severity=severity,
        confidence=100,
        title="The run was interrupted while the agent worked"
        if stopped
        else f"OpenClaw: {excerpt(event.error or 'did not end well', 100)}",
        explanation=f"{_seen(recording, stopped=stopped)}{running}{_MEMORY.get(code or 0, '')}",
        evidence=cite([*(step.call for step in waiting[:3]), event.event_id]),
        first_bad_step=event.event_id,
        chain=[
            *(
                [CausalStep(last.event_id, f"the last sign of life: {last.event_type}", None)]
                if last is not None
                else []
            ),
            CausalStep(
                event.event_id,
                excerpt(event.error or "the process ended", 80),
                "precedes" if last is not None else None,
            ),
        ],
        explains=frozenset([event.event_id, *(step.call for step in waiting)]),
        recommendation=RUN_AGAIN if stopped else _advice(recording, code or 0),
        verification="Run the same task again: OpenClaw ends with exit code 0.",
    )


def _seen(recording: Recording, *, stopped: bool) -> str:
    if recording.last_agent_event is not None or stopped:
        return "Seen by the supervisor, not reported by the agent."
    return (
        "Seen by the supervisor, before any agent was seen at work. What OpenClaw printed is not recorded: it stands "
        "in the terminal, or in the log of the job, that ran it."
    )


def _advice(recording: Recording, code: int) -> str:
    if code in _MEMORY:
        return "Look at the last events before it, at the output of OpenClaw and at the memory of the machine."
    if recording.last_agent_event is None:
        return "Read the last lines that OpenClaw printed, repair what they name, and ask `critiqor doctor`."
    return "Look at the last events before it and at the last lines that OpenClaw printed."
