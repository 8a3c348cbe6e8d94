"""`stuck_session`: work was pending, and for a long time nothing happened."""

from __future__ import annotations

from critiqor.diagnosis.draft import Draft, cite
from critiqor.diagnosis.recording import Recording
from critiqor.model import CausalStep, Event, ms_from_iso
from critiqor.spans.agent_run import AgentRun

TYPE = "stuck_session"
SILENCE_MS = 300_000
"""Silence of an agent run that is under way. OpenClaw itself calls a run stalled no sooner."""


def detect(recording: Recording) -> list[Draft]:
    """Agent runs that were under way when the recording ended, and had long been silent by then."""
    end = _end_of(recording)
    if end is None or recording.error_of("timeout") is not None:
        return []
    until = ms_from_iso(end.timestamp)
    drafts = []
    for run in recording.runs:
        since = ms_from_iso(run.last_time)
        if until is None or since is None or until - since < SILENCE_MS or not run.is_under_way:
            continue
        drafts.append(_draft(recording, run, end, until - since))
    return drafts


def _end_of(recording: Recording) -> Event | None:
    """Where the recording ends; None where nobody watched until then, as in a transcript that was imported later."""
    if recording.process_start is None and recording.process_end is None:
        return None
    return recording.process_end or recording.last_event


def _draft(recording: Recording, run: AgentRun, end: Event, silence: int) -> Draft:
    waiting = [step for step in run.actions if step.result is None]
    first = waiting[0].call if waiting else run.request
    what = f"`{waiting[0].tool}`" if waiting else "the model" if run.request else "the agent itself"
    is_over = recording.process_end is not None
    # Somebody who ends a program that hangs has seen the same.
    given_up = [event.event_id for event in recording.process_errors] if recording.was_asked_to_stop else []
    return Draft(
        type=TYPE,
        about=(what,),
        # Somebody who seals a recording while it goes on may just not have waited long enough.
        severity="high" if is_over else "medium",
        confidence=80 if is_over else 60,
        title=f"Nothing happened for {silence // 1000} s while {what} was pending",
        explanation="The agent run had begun and not ended, and nothing more came from it "
        + ("until the process ended." if is_over else "until the recording was sealed."),
        evidence=cite([*([first] if first else []), run.last_id, end.event_id]),
        first_bad_step=first or run.last_id,
        chain=[
            CausalStep(first or run.last_id, f"waiting for {what}", None),
            CausalStep(end.event_id, "the process ended" if is_over else "the recording was sealed", "exhausted"),
        ],
        explains=frozenset([end.event_id, *given_up, *(step.call for step in waiting)]),
        scope=run.scope,
        recommendation=f"Give {what} a timeout, unless it was waiting for somebody's approval.",
        verification="Run the same task again: no silence of minutes with work pending.",
    )
