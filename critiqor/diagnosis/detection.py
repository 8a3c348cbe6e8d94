"""Runs the detectors: passes them the spans of agent runs, sessions and timelines, and collects their findings."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from critiqor.diagnosis.detector import Need, RunDetector, SessionDetector
from critiqor.diagnosis.detectors import EXPLAINED_BY
from critiqor.diagnosis.detectors.agent_failure import TYPE as AGENT_FAILURE
from critiqor.diagnosis.detectors.child_process_failure import ChildProcessFailure
from critiqor.diagnosis.detectors.context_pollution import TYPE as CONTEXT_POLLUTION
from critiqor.diagnosis.detectors.context_pollution import ContextPollution
from critiqor.diagnosis.detectors.cost_explosion import CostExplosion
from critiqor.diagnosis.detectors.latency_stall import LatencyStall
from critiqor.diagnosis.detectors.process_failure import SIGNAL_EXIT_BASE
from critiqor.diagnosis.detectors.process_failure import TYPE as PROCESS_FAILURE
from critiqor.diagnosis.detectors.provider_failure import TYPE as PROVIDER_FAILURE
from critiqor.diagnosis.detectors.slow_provider import TYPE as SLOW_PROVIDER
from critiqor.diagnosis.detectors.slow_provider import SlowTimelineRequest
from critiqor.diagnosis.detectors.slow_startup import SlowStartup
from critiqor.diagnosis.detectors.timeout import TYPE as TIMEOUT
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.recording import Recording
from critiqor.diagnosis.registry import DetectorRegistry
from critiqor.model.timeline import TimelineSummary
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Moment, RunSpan, ToolCall

MAX_HELD = 64
"""Maximum number of spans that a tool call without a result holds back."""
MAX_KEPT_RUNS = 256
"""Maximum number of agent runs whose detectors are kept between two calls of `Detection.findings`."""
_FATAL = frozenset((PROVIDER_FAILURE, CONTEXT_POLLUTION, AGENT_FAILURE, TIMEOUT))

Observer = Callable[[Any], None]


class _SpanCursor:
    """Iterates over the spans of one agent run in order of start, each once it is complete.

    A tool call without a result holds back all spans that started after it, because detectors compare calls in the
    order in which the agent made them. It is passed on without a result when the agent run ends or when `MAX_HELD`
    spans have followed. If its result arrives later, the cursor is stale, and the spans must be read again from the
    start.
    """

    __slots__ = ("_ended", "_open", "_scanned", "next", "run", "seen")

    def __init__(self, run: AgentRun) -> None:
        self.run = run
        self.next = 0
        """Number of spans that were passed on."""
        self._scanned = 0
        self._ended = 0
        """Number of spans up to the last end of the agent run."""
        self._open: list[ToolCall] = []
        """Tool calls that were passed on without a result."""
        self.seen: set[Need] = set()
        """Needs of detectors that are met by the spans passed on so far."""

    @property
    def settled(self) -> int:
        """Number of spans that can be passed on."""
        spans = self.run.spans
        length = len(spans)
        for number in range(self._scanned, length):
            span = spans[number]
            if isinstance(span, Moment) and span.event_type == "agent_end":
                self._ended = number + 1
        self._scanned = length
        for number in range(max(self._ended, length - MAX_HELD), length):
            span = spans[number]
            if isinstance(span, ToolCall) and span.result is None and not span.wraps:
                return number
        return length

    @property
    def is_stale(self) -> bool:
        """Whether a tool call has changed since it was passed on without a result."""
        return any(call.result is not None or call.wraps for call in self._open)

    def advance(self, until: int) -> list[RunSpan]:
        """Return the spans before index `until` that were not passed on yet, without calls that only wrap others."""
        spans: list[RunSpan] = []
        seen = self.seen
        for span in self.run.spans[self.next : until]:
            if type(span) is not ToolCall:
                seen.add(type(span))
            elif span.wraps:
                continue
            else:
                seen.add(ToolCall)
                if span.failed:
                    seen.add("failed call")
                if span.kind is Kind.ACTION:
                    seen.add("action")
                if span.result is None:
                    self._open.append(span)
            spans.append(span)
        self.next = until
        return spans


class _RunDetectors:
    """The detectors of one agent run. A detector is created once the agent run has a span that it needs."""

    def __init__(self, run: AgentRun, kinds: Sequence[type[RunDetector[Any]]]) -> None:
        self._run = run
        self._kinds = kinds
        self._restart()

    def _restart(self) -> None:
        self._cursor = _SpanCursor(self._run)
        self._detectors: dict[type[RunDetector[Any]], RunDetector[Any]] = {}
        self._observers: dict[type, list[Observer]] = {}
        self._seen: set[Need] = set()

    def findings(self, *, is_over: bool = False) -> list[Draft]:
        """Return the findings for the spans so far. If the recording has ended, no spans are held back."""
        cursor = self._cursor
        settled = len(self._run.spans) if is_over else cursor.settled
        if cursor.is_stale or cursor.next > settled:
            self._restart()
            cursor = self._cursor
        past = cursor.next
        spans = cursor.advance(settled)
        if cursor.seen != self._seen:
            self._seen = cursor.seen.copy()
            self._create_detectors(past)
        observers = self._observers
        for span in spans:
            for observe in observers.get(type(span), ()):
                observe(span)
        cost = self._detectors.get(CostExplosion)
        drafts = _without_explained(
            [draft for detector in self._in_order() if detector is not cost for draft in detector.findings()]
        )
        if not isinstance(cost, CostExplosion):
            return drafts
        context = self._detectors.get(ContextPollution)
        giants = context.giants if isinstance(context, ContextPollution) else []
        return [*drafts, *cost.findings_beside(drafts, giants)]

    def _in_order(self) -> Iterator[RunDetector[Any]]:
        return (self._detectors[kind] for kind in self._kinds if kind in self._detectors)

    def _create_detectors(self, past: int) -> None:
        """Create the detectors that are needed by now, and pass them the spans that the others have observed."""
        for kind in self._kinds:
            if kind in self._detectors or self._seen.isdisjoint(kind.NEEDS):
                continue
            detector = self._detectors[kind] = kind(self._run)
            for span in self._run.spans[:past]:
                if isinstance(span, kind.OBSERVES) and not (isinstance(span, ToolCall) and span.wraps):
                    detector.observe(span)
            for observed in kind.OBSERVES:
                self._observers.setdefault(observed, []).append(detector.observe)


class _SessionDetectors:
    """The detectors of one session. They observe its agent runs one after the other."""

    def __init__(self, runs: list[AgentRun], kinds: Sequence[type[SessionDetector[Any]]]) -> None:
        self._runs = runs
        """The agent runs that share a history. The list may grow."""
        self._kinds = kinds
        self._restart()

    def _restart(self) -> None:
        self._cursors: list[_SpanCursor] = []
        self._detectors: list[SessionDetector[Any]] = []
        self._observers: dict[type, list[Observer]] = {}

    def findings(self, *, is_over: bool = False) -> list[Draft]:
        """Return the findings for the spans so far."""
        runs = self._runs
        needed = [kind for kind in self._kinds if kind.is_needed(runs)]
        if not needed:
            return []
        cursors = self._cursors
        last = None if is_over or not runs else (cursors[-1] if len(cursors) == len(runs) else _SpanCursor(runs[-1]))
        settled = last.settled if last is not None else len(runs[-1].spans)
        # Agent runs can overlap: new spans of an earlier agent run must be observed before those of the next one.
        late = any(cursor.next != len(cursor.run.spans) for cursor in cursors[:-1])
        fed = cursors[-1].next if len(cursors) == len(runs) else 0
        is_new = [type(detector) for detector in self._detectors] != needed
        if is_new or late or fed > settled or any(cursor.is_stale for cursor in cursors):
            self._restart()
            self._detectors = [kind() for kind in needed]
            for detector in self._detectors:
                for observed in detector.OBSERVES:
                    self._observers.setdefault(observed, []).append(detector.observe)
        for number in range(max(0, len(self._cursors) - 1), len(runs)):
            self._pass_on(number, settled if number == len(runs) - 1 else len(runs[number].spans))
        return [draft for detector in self._detectors for draft in detector.findings()]

    def _pass_on(self, number: int, until: int) -> None:
        run = self._runs[number]
        if number == len(self._cursors):
            self._cursors.append(_SpanCursor(run))
            for detector in self._detectors:
                detector.begin_run(run)
        for span in self._cursors[number].advance(until):
            for observe in self._observers.get(type(span), ()):
                observe(span)


class Detection:
    """Runs the given detectors on a recording, while it is recorded or when it has ended."""

    def __init__(self, recording: Recording, detectors: DetectorRegistry) -> None:
        self._recording = recording
        self._registered = detectors
        self._around = [kind(recording) for kind in detectors.recording_detectors]
        self._changed: dict[AgentRun, None] | None = None
        """Agent runs with events since the last call of `findings`; None before the first call."""
        self._kept: OrderedDict[AgentRun, _RunDetectors] = OrderedDict()
        self._drafts: dict[AgentRun, list[Draft]] = {}
        self._sessions: dict[object, _SessionDetectors] = {}
        self._session_runs: dict[object, list[AgentRun]] = {}
        self._session_drafts: dict[object, list[Draft]] = {}

    def observe(self) -> None:
        """Note that the recording has observed an event of an agent."""
        if self._changed is not None and (run := self._recording.builder.latest) is not None:
            self._changed[run] = None

    def findings(self) -> list[Draft]:
        """Return the findings so far. The running time depends only on the new spans of agent runs with new events."""
        changed = dict.fromkeys(self._recording.runs) if self._changed is None else self._changed
        self._changed = {}
        sessions = []
        for run in changed:
            session = (run.scope.session_key, run.history) if run.scope.session_key is not None else run.scope
            if run not in self._drafts:
                self._session_runs.setdefault(session, []).append(run)
            self._drafts[run] = self._detectors_of(run).findings()
            sessions.append(session)
        for session in dict.fromkeys(sessions):
            kinds = self._registered.session_detectors
            detectors = self._sessions.setdefault(session, _SessionDetectors(self._session_runs[session], kinds))
            self._session_drafts[session] = detectors.findings()
        drafts = [draft for found in self._drafts.values() for draft in found]
        drafts += [draft for found in self._session_drafts.values() for draft in found]
        return self._with_recording(drafts)

    def _detectors_of(self, run: AgentRun) -> _RunDetectors:
        detectors = self._kept.pop(run, None) or _RunDetectors(run, self._registered.run_detectors)
        self._kept[run] = detectors
        if len(self._kept) > MAX_KEPT_RUNS:
            self._kept.popitem(last=False)
        return detectors

    def conclude(self, timing: TimelineSummary | None) -> list[Draft]:
        """Return the findings for the complete recording and its timeline."""
        drafts: list[Draft] = []
        for run in self._recording.runs:
            drafts += _RunDetectors(run, self._registered.run_detectors).findings(is_over=True)
        for runs in self._recording.builder.sessions:
            drafts += _SessionDetectors(runs, self._registered.session_detectors).findings(is_over=True)
        drafts = self._with_recording(drafts)
        return [*drafts, *_in_timing(timing, self._recording, drafts)] if timing is not None else drafts

    def _with_recording(self, drafts: list[Draft]) -> list[Draft]:
        """Return the findings of agent runs and sessions, and those about the process and the recording."""
        recording = self._recording
        if recording.error_of("timeout") is not None:
            # The supervisor ended all agent runs, so a timeout of an agent run is the same failure.
            drafts = [draft for draft in drafts if draft.type != TIMEOUT]
        around = [draft for detector in self._around for draft in detector.findings()]
        by_itself = (recording.exit_code or 0) < SIGNAL_EXIT_BASE and recording.process_end is not None
        if by_itself and _last_run_failed(recording, [*drafts, *around]):
            # An exit code that is explained by the failure of an agent run is reported as that failure.
            around = [draft for draft in around if draft.type != PROCESS_FAILURE]
        return [*drafts, *_without_explained(around)]


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


def _without_explained(drafts: list[Draft]) -> list[Draft]:
    """Return the drafts without those whose events are explained by other drafts."""
    by_type: dict[str, list[Draft]] = defaultdict(list)
    for draft in drafts:
        by_type[draft.type].append(draft)
    return [draft for draft in drafts if not _is_explained(draft, by_type)]


def _is_explained(draft: Draft, by_type: dict[str, list[Draft]]) -> bool:
    """Return whether other drafts explain at least four fifths of the events of a draft."""
    types = EXPLAINED_BY.get(draft.type, ())
    others = [other for type_ in types if type_ in by_type for other in by_type[type_]]
    if not others:
        return False
    events = draft.explains or frozenset(draft.evidence)
    explained = sum(any(event in other.explains for other in others) for event in events)
    return explained * 5 >= len(events) * 4
