"""`tool_loop`: the same calls repeatedly, without a new result."""

from __future__ import annotations

from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.drafts.merging import PastDrafts
from critiqor.diagnosis.loops import Loop, LoopCluster, LoopClusters, begins_chapter
from critiqor.diagnosis.signals.text import fingerprint, words
from critiqor.diagnosis.signals.tools import runs_commands, subject_of_call
from critiqor.model import CausalStep, Scope, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Message, Moment, ToolCall

TYPE = "tool_loop"
MEANING = "the same tool calls repeated without a new result"
MIN_STALE_CALLS = 2
"""Minimum number of calls without a new result: one call made three times, or a cycle of two repeated once."""
MIN_STALE_CALLS_WAITING = 10
"""The same if the agent waited in between, because a state that changes by itself may still change."""
MIN_SAME_ANSWERS = 4
"""Minimum number of consecutive calls of one tool, not all identical, that returned the same result."""
MIN_SAME_ANSWER_BYTES = 200
"""Minimum size in bytes of a result that different calls do not return by coincidence."""
MIN_STALE_CALLS_FOR_HIGH = 6
"""Minimum number of stale calls for severity high."""
MIN_MISSES = 4
"""Minimum number of results that say that the same name does not exist."""
MAX_CHAPTER = 1024
"""Maximum number of calls that are compared with each other. A chapter with more calls is searched in parts: a loop
that goes on longer is reported in parts too, which become one finding."""
MIN_QUESTION_WORDS = 5
"""Minimum number of words for arguments to count as a question, not as a name or a path."""
_EFFECTS = (Kind.CHANGE, Kind.ACTION)
_READING = (Kind.LOOKUP, Kind.WAIT)
_ASKING = (Kind.LOOKUP, Kind.COMMAND)


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

    def observe(self, span: ToolCall | Message | Moment, /) -> None:
        if not isinstance(span, ToolCall):
            if self._chapter is not None and begins_chapter(span):
                self._end_chapter(self._chapter)
        elif span.result and span.kind is not Kind.THOUGHT:
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
    """The calls between two messages of the user or compactions, searched for four kinds of loops."""

    def __init__(self) -> None:
        self.calls = 0
        """Number of calls."""
        self._clusters = LoopClusters()
        self._repetitions = _Repetitions(self._clusters)
        self._rewordings = _Rewordings(self._clusters)
        self._same_answers = _SameAnswers(self._clusters)
        self._missing_names = _MissingNames(self._clusters)

    def add(self, call: ToolCall) -> None:
        self.calls += 1
        self._repetitions.add(call)
        if call.failed:
            return
        has_effect = call.kind in _EFFECTS
        if call.kind is Kind.LOOKUP and "search" in call.tool and not _is_memory(call):
            self._rewordings.add(call)
        if has_effect:
            self._same_answers.end_sequences()
        elif call.kind in _ASKING and not _is_memory(call):
            self._same_answers.add(call)
        if has_effect or call.missed:
            self._missing_names.add(call)

    def drafts(self, scope: Scope) -> list[Draft]:
        return [_draft(scope, cluster) for cluster in self._clusters.all() if _is_reported(cluster)]


class _Repetitions:
    """Repetitions of a call with the same result, and no new call or result in between.

    A stretch is a sequence of calls that all repeat earlier ones. If a new call follows, the calls of the stretch stay
    counted. If a repeated call returns something else, they are dropped, because the agent was waiting for that.
    """

    def __init__(self, clusters: LoopClusters) -> None:
        self._clusters = clusters
        self._number = 0
        self._seen: dict[bytes, tuple[int, ToolCall]] = {}
        self._loops: dict[bytes, Loop] = {}
        self._changed = -1
        """Order of the last call that may have changed something."""
        self._start = 0
        """Index of the call before the stretch."""
        self._pending: list[tuple[int, ToolCall, ToolCall]] = []
        """Calls of the stretch that do not complete a cycle yet: index, call, and the previous identical call."""
        self._before: dict[bytes, tuple[int, int]] = {}
        """Number of stale calls of each loop before the stretch, and its minimum then."""
        self._waits = False
        """Whether the agent waited in the stretch."""

    def add(self, call: ToolCall) -> None:
        number = self._number
        self._number += 1
        before = self._seen.get(call.same_call)
        self._seen[call.same_call] = (number, call)
        if before is not None and before[1].same_output == call.same_output:
            self._repeat(number, call, *before)
            return
        if before is not None:
            self._drop_stretch()
            loop = self._loops.get(call.same_call)
            if loop is not None and loop.stale[-1].order > self._changed:
                # The result changed by itself: the agent was waiting for this, not looping.
                self._clusters.drop(self._loops.pop(call.same_call))
        self._before.clear()
        self._pending.clear()
        self._waits = False
        if call.kind not in _READING:
            self._changed = call.order
        self._start = number

    def _repeat(self, number: int, call: ToolCall, last: int, before: ToolCall) -> None:
        if call.kind is Kind.WAIT and not self._waits:
            self._waits = True
            for same_call in self._before:
                self._raise_minimum(self._loops[same_call])
        self._pending.append((number, call, before))
        if last >= self._start:
            # A cycle is complete: this call and all calls since its previous occurrence are repetitions.
            for at, again, known in self._pending:
                if at > last:
                    self._add_stale(again, known)
            self._pending.clear()

    def _add_stale(self, call: ToolCall, before: ToolCall) -> None:
        """Count a stale call, unless it failed, is an action, or is a wait that found nothing."""
        if call.failed or call.kind is Kind.ACTION or (call.kind is Kind.WAIT and call.nothing_found):
            return
        loop = self._loops.get(call.same_call)
        if loop is None:
            loop = self._loops[call.same_call] = Loop(before, "the same result each time", 0, 0)
        self._before.setdefault(call.same_call, (len(loop.stale), loop.min_stale))
        loop.stale.append(call)
        self._raise_minimum(loop)

    def _raise_minimum(self, loop: Loop) -> None:
        loop.min_stale = max(loop.min_stale, MIN_STALE_CALLS_WAITING if self._waits else MIN_STALE_CALLS)
        self._clusters.grow(loop)

    def _drop_stretch(self) -> None:
        for same_call, (length, min_stale) in self._before.items():
            if not length:
                self._clusters.drop(self._loops.pop(same_call))
                continue
            loop = self._loops[same_call]
            del loop.stale[length:]
            loop.min_stale = min_stale
            self._clusters.shrink(loop)


class _Rewordings:
    """The same query with its words in another order: a search does not find more the second time."""

    def __init__(self, clusters: LoopClusters) -> None:
        self._clusters = clusters
        self._questions: dict[bytes, ToolCall] = {}
        self._loops: dict[bytes, Loop] = {}

    def add(self, call: ToolCall) -> None:
        if call.arguments.count(" ") < MIN_QUESTION_WORDS - 1:
            return
        question = words(call.arguments)
        if len(question) < MIN_QUESTION_WORDS:
            return
        key = fingerprint(call.tool, *sorted(question))
        first = self._questions.setdefault(key, call)
        if call.same_call != first.same_call:
            loop = self._loops.get(key)
            if loop is None:
                loop = self._loops[key] = Loop(first, "the same words in another order", 1)
            loop.stale.append(call)
            self._clusters.grow(loop)


class _Sequence:
    """Consecutive calls of one tool with the same result."""

    def __init__(self, first: ToolCall) -> None:
        self.loop = Loop(first, "other arguments, the same result", 2)
        self._distinct = {first.same_call}
        self._subjects: set[str] = set()
        self._compared = -1
        """Number of stale calls whose subject was compared; -1 before the first comparison."""

    def add(self, call: ToolCall) -> None:
        self.loop.stale.append(call)
        self._distinct.add(call.same_call)

    @property
    def is_loop(self) -> bool:
        first, stale = self.loop.first, self.loop.stale
        if len(stale) + 1 < MIN_SAME_ANSWERS or len(self._distinct) == 1:
            return False
        # A short result that is the same for calls about different things is an answer to each of them.
        return first.output_size >= MIN_SAME_ANSWER_BYTES or (first.kind is Kind.LOOKUP and self._is_about_one_thing())

    def _is_about_one_thing(self) -> bool:
        if self._compared < 0:
            self._subjects.add(subject_of_call(self.loop.first.arguments))
            self._compared = 0
        while len(self._subjects) == 1 and self._compared < len(self.loop.stale):
            self._subjects.add(subject_of_call(self.loop.stale[self._compared].arguments))
            self._compared += 1
        return len(self._subjects) == 1


class _SameAnswers:
    """Rephrased or paginated queries that return the same result each time."""

    def __init__(self, clusters: LoopClusters) -> None:
        self._clusters = clusters
        self._last: dict[str, ToolCall] = {}
        """The last call of each tool."""
        self._sequences: dict[str, _Sequence] = {}
        """Sequences of at least two calls, by tool."""

    def add(self, call: ToolCall) -> None:
        last = self._last.get(call.tool)
        self._last[call.tool] = call
        if last is None:
            return
        if last.same_output != call.same_output:
            self._sequences.pop(call.tool, None)
            return
        sequence = self._sequences.get(call.tool)
        if sequence is None:
            sequence = self._sequences[call.tool] = _Sequence(last)
        sequence.add(call)
        if sequence.is_loop:
            self._clusters.grow(sequence.loop)
        else:
            self._clusters.drop(sequence.loop)

    def end_sequences(self) -> None:
        """End all sequences, because a call changed something: the same result afterwards is new information."""
        self._sequences.clear()
        self._last.clear()


class _MissingNames:
    """A name that does not exist and is searched for in different ways."""

    def __init__(self, clusters: LoopClusters) -> None:
        self._clusters = clusters
        self._searches: dict[str, Loop] = {}
        self._most: Loop | None = None
        """The loop of the name with the most searches."""

    def add(self, call: ToolCall) -> None:
        if call.kind in _EFFECTS:
            self._searches.clear()
        for name in call.missed:
            loop = self._searches.get(name)
            if loop is None:
                loop = self._searches[name] = Loop(call, f"`{name}` was never found", 3)
            else:
                loop.stale.append(call)
            if self._most is None:
                self._most = loop
            elif len(loop.stale) > len(self._most.stale):
                self._clusters.drop(self._most)
                self._most = loop
            if loop is self._most and len(loop.stale) + 1 >= MIN_MISSES:
                self._clusters.grow(loop)


def _is_reported(cluster: LoopCluster) -> bool:
    if len(cluster.stale) >= cluster.min_stale:
        return True
    # One repetition is enough if something named was looked up again, without waiting in between.
    call = cluster.stale[0]
    is_named = '":"' in call.arguments and not runs_commands(call.tool)
    return cluster.min_stale == MIN_STALE_CALLS and call.kind is Kind.LOOKUP and is_named


def _is_memory(call: ToolCall) -> bool:
    return call.tool.startswith("memory_")


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
