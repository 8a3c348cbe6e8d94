"""The observed state of a recording: its agent runs, and the process around them as the supervisor saw it."""

from __future__ import annotations

import math
from collections.abc import Callable

from critiqor.diagnosis.run_builder import RunBuilder
from critiqor.diagnosis.runs.past_runs import PastRuns
from critiqor.model import Coverage, Event, EventType, ms_from_iso
from critiqor.model.event import HOUSEKEEPING
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ToolCall

STOP_EXIT_CODES = frozenset((128 + 1, 128 + 2, 128 + 15))
"""Exit codes of a process that was stopped by a signal: hang-up, Ctrl-C, `kill`."""

STARTUP_MS = 60_000
"""Milliseconds in which OpenClaw loads the recorder; if it is stopped earlier, a missing recorder is no fault."""
MAX_LIMITS = 1000
"""Maximum number of exceeded limits that are kept."""
_RUN_EVENTS = frozenset(("agent_start", "agent_end", EventType.TOOL_OUTPUT))
"""Events after which an agent run may have begun, ended or started a subagent, besides those of subagents."""
_BLIND_REASONS = frozenset(("recorder_not_attached", "records_not_written"))
"""Reasons of errors that are about the recorder, and not about the launched process."""
_RESET_REASONS = ("new", "reset", "idle", "daily", "deleted")
"""Reasons for which a session ends and begins again without its history."""


class Recording:
    """Collects the observed state of a recording, event by event."""

    def __init__(self) -> None:
        self.builder = RunBuilder()
        self.process_start: Event | None = None
        self.process_end: Event | None = None
        self.process_output: Event | None = None
        """The last that OpenClaw printed."""
        self.process_errors: list[Event] = []
        self.not_attached: Event | None = None
        """The event with which the monitor reported that the recorder was not attached, or could not write."""
        self.exceeded_limits: list[Event] = []
        """Limits because of which agent runs were aborted, or should have been; only the first ones."""
        self.first_event: str | None = None
        """Id of the first event."""
        self.last_event: Event | None = None
        """The last event of any source: where the recording ends."""
        self.last_agent_event: Event | None = None
        self.past_runs = PastRuns()
        """Agent runs that are over, and that are not among the others any more."""
        self.on_removed: Callable[[AgentRun], None] | None = None
        """Called with each of them."""
        self.coverage = Coverage()
        """Set by the diagnoser before it requests findings."""
        self.is_complete = False
        """Set by the diagnoser if no more events follow."""
        self.carried_until = 0
        """Position of the last event from before the recording."""
        self._known_runs = 0
        self._unfinished: dict[AgentRun, None] = {}
        self._with_subagents: dict[AgentRun, None] = {}
        self._last_closed: AgentRun | None = None
        """Of the closed agent runs that had ended, the last one: its end is the outcome if no other one ends."""
        self._last_closed_at = 0
        """Position of its last event."""

    def observe(self, event: Event) -> None:
        """Process one event."""
        if not self.first_event:
            self.first_event = event.event_id
        self.last_event = event
        kind = event.event_type
        if event.source_layer != "supervisor":
            # Events of the program around the agents are not agent activity, and a message that a channel received
            # is passed to an agent as an `input`.
            if kind not in HOUSEKEEPING and kind != "message_received":
                self.builder.observe(event)
                self.last_agent_event = event
                is_new = self.builder.begun > self._known_runs
                if is_new or kind in _RUN_EVENTS or kind.startswith("subagent_"):
                    self._update_runs(kind)
            elif kind == "before_reset" or event.payload.get("reason") in _RESET_REASONS:
                self.builder.reset_session(event.session_key)
        elif kind == EventType.PROCESS_START:
            self.process_start = event
        elif kind == EventType.PROCESS_END:
            self.process_end = event
        elif kind == EventType.PROCESS_OUTPUT:
            self.process_output = event
        elif kind == "limit_exceeded":
            if len(self.exceeded_limits) < MAX_LIMITS:
                self.exceeded_limits.append(event)
        elif kind == EventType.ERROR:
            if str(event.payload.get("reason")) in _BLIND_REASONS:
                self.not_attached = event
            else:
                self.process_errors.append(event)

    def _update_runs(self, event_type: str) -> None:
        """Update the agent runs that have not ended, and those that started or report subagents."""
        run = self.builder.latest
        if run is None:
            return
        runs = self.builder.begun
        if event_type == "agent_end":
            self._unfinished.pop(run, None)
        elif event_type == "agent_start" or runs > self._known_runs:
            self._unfinished[run] = None
        self._known_runs = runs
        if event_type.startswith("subagent_") or (event_type == EventType.TOOL_OUTPUT and run.children):
            self._with_subagents[run] = None

    @property
    def runs(self) -> list[AgentRun]:
        """The agent runs in order of start, except for those in `past_runs`."""
        return list(self.builder.runs.values())

    @property
    def ended_run(self) -> AgentRun | None:
        """The agent run with an end that did something last; None if no end was recorded."""
        ended = (run for run in self.builder.runs.values() if run.last_end is not None)
        return max(ended, key=lambda run: run.last_order, default=None)

    def close(self, run: AgentRun) -> None:
        """Drop the history of an agent run that is over, except for what detectors of the recording read."""
        self.builder.forget(run)
        is_last = run.last_end is not None and run.last_order > self._last_closed_at
        has_subagents = run in self._with_subagents
        is_open = run in self._unfinished and run.is_under_way
        run.close(keeps_state=is_last or is_open or has_subagents, keeps_reply=has_subagents)
        if is_last:
            past, self._last_closed = self._last_closed, run
            if past is not None and past.last_order == self._last_closed_at and past not in self._with_subagents:
                past.close()
                self._remove(past)
            self._last_closed_at = run.last_order
        elif not is_open and not has_subagents:
            self._remove(run)

    def _remove(self, run: AgentRun) -> None:
        """Keep only the sums of an agent run that is over, if its session has gone on with another one."""
        key = run.scope.session_key
        if key is None or run in self._unfinished or self.builder.current_run(key) is run:
            return
        if run.last_order > self.carried_until:
            self.past_runs.add(run)
        self.builder.remove(run)
        if self.on_removed is not None:
            self.on_removed(run)

    @property
    def unfinished_runs(self) -> list[AgentRun]:
        """The agent runs whose last start has no end yet."""
        return list(self._unfinished)

    @property
    def runs_with_subagents(self) -> list[AgentRun]:
        """The agent runs that started or report a subagent."""
        return list(self._with_subagents)

    @property
    def open_calls(self) -> list[ToolCall]:
        """Tool calls that were running when the recording ended, in order."""
        runs = (run for run in self._unfinished if run.is_under_way)
        calls = [call for run in runs for call in run.tool_calls if call.result is None and not call.wraps]
        return sorted(calls, key=lambda call: call.order)

    @property
    def shows_work(self) -> bool:
        """Whether anything is known about what the agents did, or at least that one of them failed."""
        return self.past_runs.have_worked or any(run.has_worked for run in self.builder.runs.values())

    @property
    def is_hollow(self) -> bool:
        """Whether the recording has ended, and nothing is known about its agents except that they existed."""
        if self.shows_work:
            return False
        if self.process_end is not None or (self.is_complete and not self._was_watched):
            return True
        return self.ended_run is not None

    @property
    def can_be_judged(self) -> bool:
        """Whether there is a trust score: an agent was observed at work, or watched while it did nothing."""
        is_observed = self.coverage.agent_events > 0 and (self.shows_work or self._was_watched)
        return is_observed and not self.was_stopped_before_agents

    @property
    def _was_watched(self) -> bool:
        """Whether Critiqor recorded it: only then does a silent recording mean that nothing happened."""
        return self.process_start is not None or self.coverage.recorder_attached

    @property
    def exit_code(self) -> int | None:
        """Exit code of the process; None if its end was not observed."""
        code = self.process_end.payload.get("exit_code") if self.process_end is not None else None
        return code if isinstance(code, int) and not isinstance(code, bool) else None

    @property
    def was_asked_to_stop(self) -> bool:
        """Whether the process was stopped deliberately."""
        return self.error_of("interrupted", "limit") is not None or self.exit_code in STOP_EXIT_CODES

    @property
    def was_stopped_before_agents(self) -> bool:
        """Whether the process was stopped before any agent began, so that there was nothing to observe."""
        if self.process_start is None or not self.was_asked_to_stop:
            return False
        if self.past_runs or any(run.has_begun for run in self.builder.runs.values()):
            return False
        return self.coverage.recorder_attached or self._lived_ms < STARTUP_MS

    @property
    def was_idle(self) -> bool:
        """Whether the recorder was attached and worked, and no agent run took place."""
        coverage = self.coverage
        if not coverage.recorder_attached or coverage.agent_events or coverage.imported_from is not None:
            return False
        is_whole = not coverage.damaged_records and not coverage.missing_records
        is_trusted = coverage.witness is None or not coverage.witness.is_tampered
        has_failed = self.error_of("nonzero_exit", "launch_failed", "os_error") is not None
        return is_whole and is_trusted and not has_failed and self.not_attached is None

    @property
    def _lived_ms(self) -> float:
        """How long the process ran in milliseconds."""
        if self.process_start is None or self.process_end is None:
            return math.inf
        started, ended = ms_from_iso(self.process_start.timestamp), ms_from_iso(self.process_end.timestamp)
        return math.inf if started is None or ended is None else ended - started

    @property
    def was_cut_short(self) -> bool:
        """Whether an agent was working when the recording ended, or the last agent run was stopped with its process."""
        return bool(self.cut_short_runs)

    @property
    def cut_short_runs(self) -> list[AgentRun]:
        """The agent runs that were working when the recording ended, and the last one if its process was stopped."""
        last = self.builder.latest
        stopped = [last] if last is not None and last.was_stopped and self.was_asked_to_stop else []
        return [*stopped, *(run for run in self._unfinished if run.is_under_way)]

    def error_of(self, *reasons: str) -> Event | None:
        """Return the first error that the supervisor reported for one of these reasons."""
        return next((event for event in self.process_errors if event.payload.get("reason") in reasons), None)
