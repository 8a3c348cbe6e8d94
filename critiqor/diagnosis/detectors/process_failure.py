"""`process_failure`: the program itself died: crash, signal, out of memory, non-zero exit code."""

from __future__ import annotations

from critiqor.diagnosis.detector import RecordingDetector
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import RUN_AGAIN, Draft
from critiqor.diagnosis.recording import Recording
from critiqor.model import CausalStep, Event, Severity
from critiqor.model.event import USER_STOP
from critiqor.model.sanitize import excerpt

TYPE = "process_failure"
MEANING = "the OpenClaw process crashed, was killed or exited with an error"
SIGNAL_EXIT_BASE = 128
"""Minimum exit code of a process that a signal ended: 128 plus the number of the signal."""
SHOWN_LINES = 3
"""Lines of OpenClaw's output that are quoted."""
MAX_QUOTED = 300
MAX_LOOKED_AT = 8_000
"""Maximum number of characters of the output that are looked at."""
_MEMORY = {
    SIGNAL_EXIT_BASE + 9: " If nobody sent the SIGKILL, the system probably ran out of memory.",
    SIGNAL_EXIT_BASE + 6: " Node aborts like this when its heap is full.",
}


class ProcessFailure(RecordingDetector):
    """Reads how the process ended from `Recording`, which observes the supervisor's events."""

    def findings(self) -> list[Draft]:
        recording = self._recording
        if (limit := recording.error_of("limit")) is not None:
            return [_stopped_by_limit(recording, limit)]
        event = recording.error_of("nonzero_exit", "launch_failed", "os_error", "interrupted")
        if event is None:
            return [_unrecorded_end(recording)] if recording.coverage.end_not_recorded else []
        if not recording.was_asked_to_stop:
            return [_draft(recording, event, "critical" if (recording.exit_code or 0) >= SIGNAL_EXIT_BASE else "high")]
        # Stopping a program that has nothing to do is normal.
        return [_draft(recording, event, "low")] if recording.was_cut_short else []


def _stopped_by_limit(recording: Recording, event: Event) -> Draft:
    """Return the draft for a process that Critiqor ended because of a limit of the user's policy."""
    title = f"Critiqor stopped the run: {excerpt(event.error or 'a limit was exceeded', 200)}"
    is_of_user = event.payload.get("limit") == USER_STOP
    policy = "The policy of this run says that exceeding the limit ends the agent."
    cause = event.payload.get("event_id")
    first = cause if isinstance(cause, str) else event.event_id
    waiting = recording.open_calls
    return Draft(
        type=TYPE,
        about=("limit", str(event.payload.get("limit"))),
        severity="low" if is_of_user else "medium",
        confidence=100,
        title=title,
        explanation=f"{'The user had the agent stopped.' if is_of_user else policy} Work in progress was lost.",
        evidence=cite_events([first, *(call.call for call in waiting[:3]), event.event_id]),
        first_bad_step=first,
        chain=[
            *([CausalStep(first, "The limit was exceeded", None)] if first != event.event_id else []),
            CausalStep(event.event_id, "Critiqor ended the process", "caused" if first != event.event_id else None),
        ],
        explains=frozenset([event.event_id, *(call.call for call in waiting)]),
        recommendation="Look at what the agent did before it was stopped."
        if is_of_user
        else "Fix what made the agent exceed the limit. If it was needed for the task, raise the limit.",
        verification="Run the same task again: it ends by itself.",
    )


def _unrecorded_end(recording: Recording) -> Draft:
    """Return the draft for a process that is gone together with its monitor."""
    last = recording.last_agent_event or recording.process_start
    event_id = last.event_id if last is not None else None
    title = "OpenClaw and its monitor ended without a record of how"
    return Draft(
        type=TYPE,
        about=("end_not_recorded",),
        severity="high" if recording.was_cut_short else "medium",
        confidence=90,
        title=title,
        explanation="Neither was alive when the run was finalized. Both were killed, the machine went down, or the end "
        "could not be written. What happened after the last record is not known.",
        evidence=cite_events([event_id] if event_id else []),
        first_bad_step=event_id,
        chain=[CausalStep(event_id, title, None)] if event_id else [],
        recommendation="Look at the log of the system for that moment: out of memory, a restart, a full disk.",
        verification="Record again: OpenClaw ends with exit code 0.",
    )


def _draft(recording: Recording, event: Event, severity: Severity) -> Draft:
    stopped, code = recording.was_asked_to_stop, recording.exit_code
    reason = "stopped" if stopped else str(event.payload.get("reason"))
    waiting = recording.open_calls
    running = f" `{waiting[0].tool}` was running." if waiting else ""
    last = recording.last_agent_event
    lines = "" if stopped else _last_lines(recording.process_output)
    printed = f" The last lines that it printed: “{lines}”." if lines else ""
    output = [recording.process_output.event_id] if lines and recording.process_output is not None else []
    return Draft(
        type=TYPE,
        about=(reason,) if stopped else (reason, str(code)),
        severity=severity,
        confidence=100,
        title="OpenClaw was interrupted while the agent was working"
        if stopped
        else f"OpenClaw failed: {excerpt(event.error or 'it did not end normally', 100)}",
        explanation=f"{_observed(recording, stopped=stopped)}{running}{_MEMORY.get(code or 0, '')}{printed}",
        evidence=cite_events([*(call.call for call in waiting[:3]), *output, event.event_id]),
        first_bad_step=event.event_id,
        chain=[
            *([CausalStep(last.event_id, f"Last agent event: {last.event_type}", None)] if last is not None else []),
            CausalStep(
                event.event_id,
                excerpt(event.error or "The process ended", 80),
                "precedes" if last is not None else None,
            ),
        ],
        explains=frozenset([event.event_id, *(call.call for call in waiting)]),
        recommendation=RUN_AGAIN if stopped else _advice(recording, code or 0),
        verification="Run the same task again: OpenClaw ends with exit code 0.",
    )


def _observed(recording: Recording, *, stopped: bool) -> str:
    if recording.last_agent_event is not None or stopped:
        return "Critiqor's supervisor saw the process end; the agent itself did not report it."
    seen = "Critiqor's supervisor saw the process end before any agent activity."
    if recording.process_output is not None:
        return seen
    return f"{seen} OpenClaw's output is not recorded: look at the terminal, or at the log of the job that ran it."


def _last_lines(output: Event | None) -> str:
    """Return the last lines of what OpenClaw printed, on one line."""
    text = output.payload.get("text") if output is not None else None
    lines = [line for line in text[-MAX_LOOKED_AT:].split("\n") if line.strip()] if isinstance(text, str) else []
    return excerpt(" / ".join(line.strip() for line in lines[-SHOWN_LINES:]), MAX_QUOTED)


def _advice(recording: Recording, code: int) -> str:
    if code in _MEMORY:
        return "Check the last events before the crash, OpenClaw's output, and the free memory of the machine."
    if recording.last_agent_event is None:
        return "Read the last lines of OpenClaw's output and fix what they name, then run `critiqor doctor`."
    return "Check the last events before the failure and the last lines of OpenClaw's output."
