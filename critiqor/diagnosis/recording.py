"""A whole recording: the trail of its agents, and what the supervisor saw of the process around them."""

from __future__ import annotations

from critiqor.diagnosis.run_builder import RunBuilder
from critiqor.model import Coverage, Event, EventType
from critiqor.model.event import is_agent_activity
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ToolCall

ASKED_TO_STOP = frozenset((128 + 1, 128 + 2, 128 + 15))
"""Exit codes of a process that was told to end by a signal which asks for it: hang-up, Ctrl-C, `kill`."""

_FORGETTING = ("new", "reset", "idle", "daily", "deleted")
"""Reasons for which a session ends and begins again without its history."""


class Recording:
    """Everything that was observed, event by event."""

    def __init__(self) -> None:
        self.trail = RunBuilder()
        self.process_start: Event | None = None
        self.process_end: Event | None = None
        self.process_errors: list[Event] = []
        self.blindness: Event | None = None
        """Why the recorder was not attached, as the monitor noticed it."""
        self.first_event: str | None = None
        self.last_event: Event | None = None
        """Whoever saw it: where the recording ends."""
        self.last_agent_event: Event | None = None
        self.coverage = Coverage()
        """Known once everything was observed."""

    def observe(self, event: Event) -> None:
        """Take in one event."""
        self.first_event = self.first_event or event.event_id
        self.last_event = event
        if event.source_layer != "supervisor":
            # What the program around the agents does is no sign of their life, nor a part of their time; and what a
            # channel receives reaches an agent as an `input`.
            if is_agent_activity(event.event_type) and event.event_type != "message_received":
                self.trail.observe(event)
                self.last_agent_event = event
            elif event.event_type == "before_reset" or event.payload.get("reason") in _FORGETTING:
                self.trail.reset_session(event.session_key)
        elif event.event_type == EventType.PROCESS_START:
            self.process_start = event
        elif event.event_type == EventType.PROCESS_END:
            self.process_end = event
        elif event.event_type == EventType.ERROR:
            if event.payload.get("reason") == "recorder_not_attached":
                self.blindness = event
            else:
                self.process_errors.append(event)

    @property
    def runs(self) -> list[AgentRun]:
        """The agent runs, in the order in which they began."""
        return list(self.trail.runs.values())

    @property
    def open_steps(self) -> list[ToolCall]:
        """Calls that were running when the recording ended, in order."""
        steps = [step for run in self.runs if run.is_under_way for step in run.actions if step.result is None]
        return sorted(steps, key=lambda step: step.order)

    @property
    def is_hollow(self) -> bool:
        """Whether it is over, and nothing is known of what the agents did but that there were some."""
        runs = self.trail.runs.values()
        if any(run.tool_calls or run.model_calls or run.messages or run.lookups or run.request for run in runs):
            return False
        return self.process_end is not None or any(run.last_end is not None for run in runs)

    @property
    def exit_code(self) -> int | None:
        """How the process ended; None where that was not seen."""
        code = self.process_end.payload.get("exit_code") if self.process_end is not None else None
        return code if isinstance(code, int) and not isinstance(code, bool) else None

    @property
    def was_asked_to_stop(self) -> bool:
        """Whether somebody ended the process on purpose."""
        return self.error_of("interrupted") is not None or self.exit_code in ASKED_TO_STOP

    @property
    def was_cut_short(self) -> bool:
        """Whether the last agent run was at work when the recording ended, or was stopped with its process."""
        last = max(self.runs, key=lambda run: run.last_order, default=None)
        stopped = last is not None and last.was_stopped and self.was_asked_to_stop
        return stopped or any(run.is_under_way for run in self.runs)

    def error_of(self, *reasons: str) -> Event | None:
        """What the supervisor said of the process, for one of these reasons."""
        return next((event for event in self.process_errors if event.payload.get("reason") in reasons), None)
