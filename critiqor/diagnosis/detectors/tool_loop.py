"""`tool_loop`: the same calls repeatedly, without a new result."""

from __future__ import annotations

from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.drafts.cited_events import CitedEvents
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.drafts.merging import PastDrafts
from critiqor.diagnosis.loops import repetitions
from critiqor.diagnosis.loops.answers import ASKING, EmptySearches, MissingNames, Rewordings, SameAnswers
from critiqor.diagnosis.loops.clusters import LoopCluster, LoopClusters, begins_chapter
from critiqor.diagnosis.loops.cycles import Cycles
from critiqor.diagnosis.loops.repetitions import MIN_STALE_CALLS_WAITING, Repetitions
from critiqor.diagnosis.loops.settled import Settled
from critiqor.diagnosis.signals.tool_calls import runs_commands
from critiqor.model import CausalStep, Scope, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Message, Moment, ToolCall

TYPE = "tool_loop"
MEANING = "the same tool calls repeated without a new result"
MIN_STALE_CALLS_FOR_HIGH = 6
"""Minimum number of stale calls for severity high."""
MAX_CHAPTER = 1024
"""Maximum number of calls that are compared with each other. A chapter with more calls is searched in parts: a loop
that goes on longer is reported in parts too, which become one finding."""
MIN_ORDERED_POLLS = 200
"""Minimum number of looks in a row without anything new that are reported although the user ordered repetition: to
watch something every minute, it takes more than three hours."""
MAX_POLLED = 64
"""Maximum number of different calls between which an agent that watches something alternates."""
_EFFECTS = (Kind.CHANGE, Kind.ACTION)
_LOOKING = (Kind.LOOKUP, Kind.WAIT)
_POLLING = (Kind.LOOKUP, Kind.WAIT, Kind.COMMAND, Kind.OTHER)


class ToolLoop(RunDetector[ToolCall | Message | Moment]):
    """Detects loops within a chapter: the calls between two messages of the user or compactions.

    Repeating calls after one of these is legitimate. Failed calls are reported by `repeated_tool_failure`.
    """

    NEEDS = (ToolCall,)
    OBSERVES = (ToolCall, Message, Moment)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._past = PastDrafts()
        """Loops of earlier chapters."""
        self._chapter: _Chapter | None = None
        self._ordered: _OrderedPolls | None = None
        """The calls since a request that orders repetition, which is no loop unless it never ends."""

    def observe(self, span: ToolCall | Message | Moment, /) -> None:
        if not isinstance(span, ToolCall):
            if self._chapter is not None and begins_chapter(span):
                self._end_chapter(self._chapter)
            if isinstance(span, Message) and span.is_user:
                if self._ordered is not None:
                    self._keep(self._ordered)
                self._ordered = _OrderedPolls() if span.orders_repetition else None
        elif span.result and span.kind is not Kind.THOUGHT:
            if self._ordered is not None:
                self._ordered.add(span)
                return
            if self._chapter is None:
                self._chapter = _Chapter()
            self._chapter.add(span)
            if self._chapter.calls >= MAX_CHAPTER:
                self._end_chapter(self._chapter)

    def _end_chapter(self, chapter: _Chapter) -> None:
        self._keep(chapter)
        self._chapter = None

    def _keep(self, ended: _Chapter | _OrderedPolls) -> None:
        for draft in ended.drafts(self.run.scope):
            self._past.add(draft)

    def findings(self) -> list[Draft]:
        current = self._chapter.drafts(self.run.scope) if self._chapter is not None else []
        ordered = self._ordered.drafts(self.run.scope) if self._ordered is not None else []
        return [*self._past.all, *current, *ordered]


class _OrderedPolls:
    """The latest calls after a request to repeat something, as far as they only look, and bring nothing new."""

    def __init__(self) -> None:
        self._results: dict[bytes, bytes] = {}
        """The result of each call since the last news, as fingerprints: to watch something is often two calls."""
        self._calls: list[ToolCall] = []
        """The first and the last call without news."""
        self._count = 0
        self._cited = CitedEvents()

    def add(self, call: ToolCall) -> None:
        if call.has_failed:
            return  # repeated failures have a detector of their own
        is_look = call.kind in _LOOKING and not call.is_test
        if is_look and self._results.get(call.same_call) == call.same_output:
            self._calls = [*self._calls[:1], call]
            self._count += 1
            self._cited.add(call.evidence)
            return
        if self._count or len(self._results) >= MAX_POLLED or not is_look:
            self._results, self._calls, self._count, self._cited = {}, [], 0, CitedEvents()
        if is_look:
            self._results[call.same_call] = call.same_output

    def drafts(self, scope: Scope) -> list[Draft]:
        if self._count < MIN_ORDERED_POLLS:
            return []
        first, last = self._calls[0], self._calls[-1]
        return [
            Draft(
                type=TYPE,
                about=(first.tool, "ordered"),
                severity="medium",
                confidence=60,
                title=f"{first.name} called {counted(self._count, 'time')} without a new result, as ordered",
                explanation=f"The user wanted it to be repeated, and nothing has changed for {self._count} calls: "
                f"{excerpt(first.arguments, 120)}. Each of them costs a model call.",
                evidence=self._cited.cited(),
                occurrences=self._count,
                first_bad_step=first.call,
                chain=[
                    CausalStep(first.evidence, f"{first.name} returned nothing new", None),
                    CausalStep(last.evidence, f"Repeated {counted(self._count, 'time')} in total", "retried"),
                ],
                scope=scope,
                recommendation="Say until when the agent is to watch, or let a script or a scheduled job watch, and "
                "wake the agent when something changes.",
                verification=f"Run the same task again: `critiqor compare` lists this {TYPE} as gone.",
            )
        ]


class _Chapter:
    """The calls between two messages of the user or compactions, searched for several kinds of loops."""

    def __init__(self) -> None:
        self.calls = 0
        """Number of calls."""
        self._clusters = LoopClusters()
        self._repetitions = Repetitions(self._clusters)
        self._rewordings = Rewordings(self._clusters)
        self._same_answers = SameAnswers(self._clusters)
        self._missing_names = MissingNames(self._clusters)
        self._empty_searches = EmptySearches(self._clusters)
        self._settled = Settled(self._clusters)
        self._cycles = Cycles(self._clusters)

    def add(self, call: ToolCall) -> None:
        self.calls += 1
        self._repetitions.add(call)
        self._cycles.add(call)
        if call.has_failed:
            return
        has_effect = call.kind in _EFFECTS
        if has_effect:
            self._settled.end()
        elif call.kind in _POLLING:
            self._settled.add(call)
        self._empty_searches.add(call)
        if call.kind is Kind.LOOKUP and "search" in call.tool:
            self._rewordings.add(call)
        if has_effect:
            self._same_answers.end_sequences()
        elif call.kind in ASKING or call.listing is not None:
            self._same_answers.add(call)
        if has_effect or call.missed:
            self._missing_names.add(call)

    def drafts(self, scope: Scope) -> list[Draft]:
        return [_draft(scope, cluster) for cluster in self._clusters.all() if _is_reported(cluster)]


def _is_reported(cluster: LoopCluster) -> bool:
    if len(cluster.stale) >= cluster.min_stale or cluster.is_certain:
        return True
    # One repetition is enough if something named was looked up again, without waiting in between.
    call = cluster.stale[0]
    is_named = '":"' in call.arguments and not runs_commands(call.tool)
    return cluster.min_stale == repetitions.MIN_STALE_CALLS and call.kind is Kind.LOOKUP and is_named


def _draft(scope: Scope, loop: LoopCluster) -> Draft:
    if loop.draft is not None:
        return loop.draft
    first, stale, names, reason = loop.first, loop.stale, loop.names, loop.loops[0].reason
    wasted, different = len(stale), len(loop.distinct)
    severity: Severity = (
        "low"
        if wasted < 2
        else "high"
        if wasted >= MIN_STALE_CALLS_FOR_HIGH and loop.min_stale < MIN_STALE_CALLS_WAITING
        else "medium"
    )
    shape = f"A cycle of {different} calls" if different > 1 else "A repeated call"
    loop.draft = Draft(
        type=TYPE,
        about=tuple(sorted(loop.tools)),
        severity=severity,
        confidence=90 if wasted >= 4 else 75 if wasted >= 2 else 55,
        title=f"{names} called {counted(len(loop.counted), 'time')}, {wasted} of them without a new result",
        explanation=f"{shape} returned nothing new ({reason}): {excerpt(first.arguments, 120)}. "
        "Nothing changed in between that could have led to another result.",
        evidence=loop.citations.cited(),
        occurrences=wasted,
        first_bad_step=stale[0].call,
        chain=[
            CausalStep(first.evidence, f"{first.name} returned a result", None),
            CausalStep(stale[0].evidence, f"Called again: {reason}", "retried"),
            *(
                [CausalStep(stale[-1].evidence, f"Repeated {counted(wasted, 'time')} in total", "retried")]
                if wasted > 1
                else []
            ),
        ],
        wasted_tool_calls=loop.wasted,
        explained_calls=loop.calls,
        scope=scope,
        recommendation="Tell the agent what to do when a result does not change (stop, ask, or try something else), "
        f"and limit how often {names} may be called with the same arguments.",
        verification=f"Run the same task again: `critiqor compare` lists this {TYPE} as gone, with fewer tool calls.",
    )
    return loop.draft
