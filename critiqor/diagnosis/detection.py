"""Runs the detectors: passes them the spans of agent runs, sessions and timelines, and collects their findings."""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import NamedTuple

from critiqor.diagnosis.detectors import EXPLAINED_BY
from critiqor.diagnosis.detectors.agent_failure import TYPE as AGENT_FAILURE
from critiqor.diagnosis.detectors.child_process_failure import ChildProcessFailure
from critiqor.diagnosis.detectors.context_pollution import TYPE as CONTEXT_POLLUTION
from critiqor.diagnosis.detectors.latency_stall import LatencyStall
from critiqor.diagnosis.detectors.process_failure import SIGNAL_EXIT_BASE
from critiqor.diagnosis.detectors.process_failure import TYPE as PROCESS_FAILURE
from critiqor.diagnosis.detectors.provider_failure import TYPE as PROVIDER_FAILURE
from critiqor.diagnosis.detectors.slow_provider import TYPE as SLOW_PROVIDER
from critiqor.diagnosis.detectors.slow_provider import SlowTimelineRequest
from critiqor.diagnosis.detectors.slow_startup import SlowStartup
from critiqor.diagnosis.detectors.timeout import TYPE as TIMEOUT
from critiqor.diagnosis.detectors.unresolved_tool_error import TYPE as UNRESOLVED
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.drafts.explained_drafts import without_explained
from critiqor.diagnosis.drafts.merging import Explained, JoinedDrafts
from critiqor.diagnosis.recording import Recording
from critiqor.diagnosis.registry import DetectorRegistry
from critiqor.diagnosis.runs.run_detectors import MAX_SPANS, RunDetectors
from critiqor.diagnosis.runs.session_detectors import SessionDetectors
from critiqor.diagnosis.runs.totals import RunTotals, Totals
from critiqor.diagnosis.waste import Waste
from critiqor.model.timeline import TimelineSummary
from critiqor.spans.agent_run import AgentRun

MAX_KEPT_RUNS = 256
"""Maximum number of agent runs whose detectors are kept between two calls of `Detection.findings`."""
MAX_IDLE_EVENTS = 4096
"""Events of the recording without one of an agent run, after which it is over if it has ended or was superseded. If it
goes on after all, the rest is judged by itself."""
MAX_SESSIONS = 1024
"""Maximum number of sessions whose agent runs are compared with each other: those with the latest agent runs."""
SWEPT_EVERY = 1024
"""Events between two checks of which agent runs are over."""
_FATAL = frozenset((PROVIDER_FAILURE, CONTEXT_POLLUTION, AGENT_FAILURE, TIMEOUT))


class _LongRun(NamedTuple):
    """The detectors and the sums of an agent run, for which its spans are read once."""

    detectors: RunDetectors
    totals: RunTotals


class _Waiting(NamedTuple):
    """A draft of an agent run that is over, which a claim may still explain."""

    draft: Draft
    last_order: int
    """Position of the last event of the agent run."""


class Detection:
    """Runs the given detectors on a recording, while it is recorded or when it has ended.

    An agent run is over once nothing has happened in it for a while, and it has ended or its session has gone on. Its
    findings and its sums are kept then, and its spans are dropped.
    """

    def __init__(self, recording: Recording, detectors: DetectorRegistry, totals: Totals | None = None) -> None:
        self._recording = recording
        self._registered = detectors
        self._totals = totals or Totals()
        self._around = [kind(recording) for kind in detectors.recording_detectors]
        self._past = JoinedDrafts()
        """Findings of agent runs and sessions that are over."""
        self.explained = Explained()
        """Calls of agent runs that are over, which explain failures that claims are about."""
        self._waiting: list[_Waiting] = []
        self._live: dict[AgentRun, SessionDetectors] = {}
        """Agent runs that are not over, in order of start."""
        self._long: dict[AgentRun, _LongRun] = {}
        """Those of which spans were dropped already."""
        self._sessions: dict[object, SessionDetectors] = {}
        """Sessions by key and history, in order of their last agent run."""
        self._latest: AgentRun | None = None
        self._swept = 0
        """Number of events when agent runs were last checked for being over."""
        self._changed: dict[AgentRun, None] | None = None
        """Agent runs with events since the last call of `findings`; None before the first call."""
        self._kept: OrderedDict[AgentRun, RunDetectors] = OrderedDict()
        self._drafts: dict[AgentRun, list[Draft]] = {}
        self._session_drafts: dict[SessionDetectors, list[Draft]] = {}

    def observe(self) -> None:
        """Note that the recording has observed an event of an agent."""
        builder = self._recording.builder
        run = builder.latest
        if run is None:
            return
        if run is not self._latest:
            self._latest = run
            if run not in self._live:
                self._begin(run)
        if self._changed is not None:
            self._changed[run] = None
        if len(run.spans) > MAX_SPANS:
            self._shorten(run)
        elif self._long and run in self._long:
            self._long[run].detectors.settle()
        if builder.events - self._swept >= SWEPT_EVERY:
            self._swept = builder.events
            self._conclude_idle_runs()

    def _begin(self, run: AgentRun) -> None:
        scope = run.scope
        key = scope if scope.session_key is None else (scope.session_key, run.history)
        session = self._sessions.pop(key, None)
        if session is None:
            session = SessionDetectors(self._registered.session_detectors)
        self._sessions[key] = session
        session.runs.append(run)
        self._live[run] = session

    def _shorten(self, run: AgentRun) -> None:
        """Let the detectors observe the spans of a long agent run, and drop them."""
        session = self._live[run]
        while session.runs[0] is not run:
            self._conclude(session.runs[0])
        long = self._long.get(run)
        if long is None:
            detectors = self._kept.pop(run, None) or RunDetectors(run, self._registered.run_detectors)
            long = self._long[run] = _LongRun(detectors, RunTotals(run, self._totals))
        spans = long.detectors.shorten()
        long.totals.add(spans)
        session.conclude(run, spans, is_over=False)
        run.drop(len(spans))

    def _conclude_idle_runs(self) -> None:
        builder = self._recording.builder
        idle_since = builder.events - MAX_IDLE_EVENTS
        for run, session in list(self._live.items()):
            if run.last_order < idle_since and session.runs[0] is run:
                is_superseded = builder.current_run(run.scope.session_key) is not run
                if is_superseded or not run.is_under_way:
                    self._conclude(run)
        self._settle_waiting()
        excess = len(self._sessions) - MAX_SESSIONS
        if excess > 0:
            idle = (key for key, session in self._sessions.items() if not session.runs)
            for key in list(islice(idle, excess)):
                self._conclude_session(key)

    def _conclude(self, run: AgentRun) -> None:
        """Keep the findings and the sums of an agent run, and drop its history."""
        for draft in self._conclude_run(run):
            if draft.type == UNRESOLVED:
                self._waiting.append(_Waiting(draft, run.last_order))
                continue
            if draft.type in EXPLAINED_BY[UNRESOLVED]:
                self.explained.add(draft)
            self._past.add(draft)
        session = self._live.pop(run)
        session.conclude(run, run.spans, is_over=True)
        self._recording.close(run)
        self._kept.pop(run, None)
        self._drafts.pop(run, None)
        if self._changed is not None:
            self._changed.pop(run, None)
            self._session_drafts[session] = session.findings()
        if self._latest is run:
            self._latest = None
        if run.scope.session_key is None:
            self._conclude_session(run.scope)

    def _settle_waiting(self) -> None:
        """Keep the drafts that no claim explains and that none can be about any more."""
        if not self._waiting:
            return
        claims = self._recording.builder.claims
        waiting, settled = [], []
        for each in self._waiting:
            kept = claims.first_kept(each.draft.scope)
            if kept is not None and kept <= each.last_order:
                waiting.append(each)
            else:
                settled.append(each.draft)
        self._waiting = waiting
        unexplained = without_explained(settled, self.explained, claims.judged.explained)
        for draft in settled:
            self.explained.add(draft)
        for draft in unexplained:
            self._past.add(draft)

    def _conclude_run(self, run: AgentRun) -> list[Draft]:
        """Return the findings of an agent run that is over, and add it to the totals."""
        long = self._long.pop(run, None)
        if long is None:
            long = _LongRun(RunDetectors(run, self._registered.run_detectors), RunTotals(run, self._totals))
        drafts = long.detectors.findings(is_over=True)
        long.totals.add(run.spans)
        long.totals.finish()
        return drafts

    def _conclude_session(self, key: object) -> None:
        session = self._sessions.pop(key)
        self._session_drafts.pop(session, None)
        for draft in session.findings():
            self._past.add(draft)

    def findings(self) -> list[Draft]:
        """Return the findings so far. The running time depends only on the new spans of agent runs with new events."""
        changed = self._live if self._changed is None else self._changed
        sessions: dict[SessionDetectors, None] = {}
        for run in changed:
            self._drafts[run] = self._detectors_of(run).findings()
            sessions[self._live[run]] = None
        self._changed = {}
        for session in sessions:
            self._session_drafts[session] = session.findings()
        drafts = [draft for found in self._drafts.values() for draft in found]
        drafts += [draft for found in self._session_drafts.values() for draft in found]
        return self._with_recording([*self._past_drafts(), *drafts])

    def _detectors_of(self, run: AgentRun) -> RunDetectors:
        if run in self._long:
            return self._long[run].detectors
        detectors = self._kept.pop(run, None) or RunDetectors(run, self._registered.run_detectors)
        self._kept[run] = detectors
        if len(self._kept) > MAX_KEPT_RUNS:
            self._kept.popitem(last=False)
        return detectors

    def conclude(self, timing: TimelineSummary | None) -> list[Draft]:
        """Return the findings for the complete recording and its timeline. No more events may follow."""
        for run in () if self._latest is not None else self._recording.runs:
            self._begin(run)
        drafts = self._past_drafts()
        for run in self._live:
            drafts += self._conclude_run(run)
        for session in self._sessions.values():
            drafts += session.findings(is_over=True)
        drafts = self._with_recording(drafts)
        return [*drafts, *_in_timing(timing, self._recording, drafts)] if timing is not None else drafts

    def _past_drafts(self) -> list[Draft]:
        return [*self._past.all, *(each.draft for each in self._waiting)]

    def waste_of(self, drafts: list[Draft]) -> Waste:
        """Return the waste of all these drafts of a complete recording; each call counts once."""
        waste = self._past.waste
        for draft in drafts:
            waste.add_all(draft.wasted_tool_calls, draft.wasted_model_calls)
        return waste

    def _with_recording(self, drafts: list[Draft]) -> list[Draft]:
        """Return the findings of agent runs and sessions, and those about the process and the recording."""
        recording = self._recording
        if recording.error_of("timeout", "limit") is not None:
            # The supervisor ended all agent runs, so a timeout of an agent run is the same failure.
            drafts = [draft for draft in drafts if draft.type != TIMEOUT]
        if (limit := recording.error_of("limit")) is not None:
            # Agent runs that failed after the limit was exceeded did so because they were ended.
            since = str(limit.payload.get("event_id") or limit.event_id)
            drafts = [each for each in drafts if each.type != AGENT_FAILURE or (each.first_bad_step or "") < since]
        if recording.exceeded_limits:
            aborted = {event.payload.get("agent_run_id") for event in recording.exceeded_limits}
            drafts = [each for each in drafts if each.type != AGENT_FAILURE or each.scope.agent_run_id not in aborted]
        around = [draft for detector in self._around for draft in detector.findings()]
        by_itself = (recording.exit_code or 0) < SIGNAL_EXIT_BASE and recording.process_end is not None
        was_ended = recording.error_of("limit") is not None
        if by_itself and not was_ended and _last_run_failed(recording, [*drafts, *around]):
            # An exit code that is explained by the failure of an agent run is reported as that failure.
            around = [draft for draft in around if draft.type != PROCESS_FAILURE]
        return [*drafts, *without_explained(around)]


def _last_run_failed(recording: Recording, drafts: list[Draft]) -> bool:
    """Return whether the agent run of the last event failed."""
    last = recording.builder.latest
    fatal = (draft for draft in drafts if draft.type in _FATAL and draft.severity == "high")
    return last is not None and any(draft.scope == last.scope for draft in fatal)


def _in_timing(timing: TimelineSummary, recording: Recording, drafts: list[Draft]) -> list[Draft]:
    """Return the findings about the timeline: in a profiled run only failed processes, because everything is slow."""
    stalls, startups, requests = LatencyStall(timing), SlowStartup(), SlowTimelineRequest()
    children = ChildProcessFailure(recording)
    if not timing.profiled:
        for stall in timing.stalls:
            stalls.observe(stall)
        for startup in timing.startups:
            startups.observe(startup)
        if timing.providers.slowest is not None and all(draft.type != SLOW_PROVIDER for draft in drafts):
            requests.observe(timing.providers.slowest)
    for child in timing.children.failures:
        children.observe(child)
    return [*stalls.findings(), *startups.findings(), *requests.findings(), *children.findings()]
