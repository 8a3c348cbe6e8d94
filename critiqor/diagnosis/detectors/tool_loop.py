"""`tool_loop`: the same calls repeatedly, without a new result."""

from __future__ import annotations

from critiqor.diagnosis.detector import RunDetector
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
_EFFECTS = (Kind.CHANGE, Kind.ACTION)
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
        self._is_ordered = False
        """Whether the last request orders repetition, so that it is no loop."""

    def observe(self, span: ToolCall | Message | Moment, /) -> None:
        if not isinstance(span, ToolCall):
            if self._chapter is not None and begins_chapter(span):
                self._end_chapter(self._chapter)
            if isinstance(span, Message) and span.is_user:
                self._is_ordered = span.orders_repetition
        elif span.result and span.kind is not Kind.THOUGHT and not self._is_ordered:
            if self._chapter is None:
                self._chapter = _Chapter()
            self._chapter.add(span)
            if self._chapter.calls >= MAX_CHAPTER:
                self._end_chapter(self._chapter)

    def _end_chapter(self, chapter: _Chapter) -> None:
        for draft in chapter.drafts(self.run.scope):
            self._past.add(draft)
        self._chapter = None

    def findings(self) -> list[Draft]:
        current = self._chapter.drafts(self.run.scope) if self._chapter is not None else []
        return [*self._past.all, *current]


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
