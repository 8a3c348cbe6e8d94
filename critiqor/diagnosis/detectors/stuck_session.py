"""`stuck_session`: work was pending, and nothing happened for a long time."""

from __future__ import annotations

from critiqor.diagnosis.detector import RecordingDetector
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.recording import Recording
from critiqor.model import CausalStep, Event, ms_from_iso
from critiqor.spans.agent_run import AgentRun

TYPE = "stuck_session"
MEANING = "the agent run had not ended, but produced no event for a long time"
MIN_SILENCE_MS = 300_000
"""Minimum time without events of a stuck agent run. OpenClaw does not report a stall earlier either."""


class StuckSession(RecordingDetector):
    """Checks the agent runs that have not ended, which `Recording` keeps.

    It observes no spans, because only the time since the last event of an agent run matters.
    """

    def findings(self) -> list[Draft]:
        recording = self._recording
        end = _end_of(recording)
        until = ms_from_iso(end.timestamp) if end is not None else None
        if end is None or until is None or recording.error_of("timeout", "limit") is not None:
            return []
        drafts = []
        for run in recording.unfinished_runs:
            since = ms_from_iso(run.last_time)
            if since is not None and until - since >= MIN_SILENCE_MS and run.is_under_way:
                drafts.append(_draft(recording, run, end, until - since))
        return drafts


def _end_of(recording: Recording) -> Event | None:
    """Return the event that ends the recording; None if no process was observed, as in an imported transcript."""
    if recording.process_start is None and recording.process_end is None:
        return None
    return recording.process_end or recording.last_event


def _draft(recording: Recording, run: AgentRun, end: Event, silence: int) -> Draft:
    waiting = [call for call in run.tool_calls if call.result is None and not call.wraps]
    first = waiting[0].call if waiting else run.request
    # This wording is part of the cause of the finding and must not change.
    key = f"`{waiting[0].tool}`" if waiting else "the model" if run.request else "the agent itself"
    what = key if waiting or run.request else "the agent run"
    is_over = recording.process_end is not None
    # If the user stopped the program, this was probably because it hung.
    stopped = [event.event_id for event in recording.process_errors] if recording.was_asked_to_stop else []
    return Draft(
        type=TYPE,
        about=(key,),
        # In a recording that was sealed early, the agent run may only have needed more time.
        severity="high" if is_over else "medium",
        confidence=80 if is_over else 60,
        title=f"No activity for {silence // 1000} s while {what} was pending",
        explanation="The agent run had started and not ended, and produced no event "
        + ("until the process ended." if is_over else "until the recording was sealed."),
        evidence=cite_events([*([first] if first else []), run.last_id, end.event_id]),
        first_bad_step=first or run.last_id,
        chain=[
            CausalStep(first or run.last_id, f"Waiting for {what}", None),
            CausalStep(end.event_id, "The process ended" if is_over else "The recording was sealed", "exhausted"),
        ],
        explains=frozenset([end.event_id, *stopped, *(call.call for call in waiting)]),
        scope=run.scope,
        recommendation=f"Set a timeout for {what}, unless it was waiting for an approval.",
        verification="Run the same task again: no silence of several minutes while work is pending.",
    )
