"""`tool_loop`: the same calls again and again, without any new result."""

from __future__ import annotations

from bisect import bisect_right, insort
from operator import attrgetter

from critiqor.diagnosis.detector import RunDetector, begins_chapter
from critiqor.diagnosis.draft import CallGroup, Draft
from critiqor.diagnosis.signals.text import fingerprint, subject, words
from critiqor.diagnosis.signals.tools import runs_commands
from critiqor.model import CausalStep, Scope, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Message, Moment, ToolCall

TYPE = "tool_loop"
MEANING = "the same calls again and again, without any new result"
STALE_CALLS = 2
"""Calls that brought nothing new: one call three times, or a cycle of two repeated once."""
PATIENCE = 10
"""The same, where the agent waited in between: what moves by itself may still move."""
SAME_ANSWERS = 4
"""Different calls in a row that returned the very same result."""
WHOLE_ANSWER = 200
"""Bytes from which it is no coincidence that different calls return the same result."""
HIGH = 6
MISSES = 4
"""Results that say that the same name does not exist."""
FREE_TEXT_WORDS = 5
"""Words that make an argument a question, and not a name or a path."""
_EFFECTS = (Kind.CHANGE, Kind.ACTION)
_READING = (Kind.LOOKUP, Kind.WAIT)
_ASKING = (Kind.LOOKUP, Kind.COMMAND)

_order = attrgetter("order")
_key = attrgetter("key")


class _Loop:
    """Calls that brought nothing new, after a first one that did."""

    __slots__ = ("cluster", "enough", "first", "is_dropped", "key", "reason", "stale", "taken")

    def __init__(self, first: ToolCall, reason: str, rank: int, enough: int = 1) -> None:
        self.first = first
        self.stale: list[ToolCall] = []
        self.reason = reason
        self.enough = enough
        """Stale calls without which it is no loop."""
        self.key = (first.order, rank)
        """Place among all loops: of those that begin with the same call, the one with the lowest rank comes first."""
        self.is_dropped = False
        self.cluster: _Cluster | None = None
        self.taken = 0
        """Number of stale calls that its cluster knows."""


class _Cluster(CallGroup):
    """Loops that overlap, as one: A, B, A, B. It has the first call of the first loop, and all stale calls in order."""

    __slots__ = ("counted", "draft", "end", "enough", "loops", "orders", "waiting")

    def __init__(self, loop: _Loop) -> None:
        super().__init__(loop.first)
        self.evidence.clear()  # the first call brought something
        self.orders = {loop.first.order}
        """Orders of its calls."""
        self.counted = {loop.first.order}
        """The same, and those of the first call of each loop."""
        self.loops: list[_Loop] = []
        self.enough = 0
        self.end = 0
        """Order of the last stale call."""
        self.waiting: list[ToolCall] = []
        """Stale calls that are still to be added."""
        self.draft: Draft | None = None
        """The draft of it, as long as nothing was added since."""

    @property
    def key(self) -> tuple[int, int]:
        return self.loops[0].key

    def join(self, loop: _Loop) -> None:
        """Take in a loop that is in no cluster yet."""
        loop.cluster, loop.taken = self, 0
        self.loops.append(loop)
        self.counted.add(loop.first.order)
        self.update(loop)

    def update(self, loop: _Loop) -> None:
        """Take in what is new in one of its loops."""
        self.waiting += loop.stale[loop.taken :]
        loop.taken = len(loop.stale)
        self.end = max(self.end, loop.stale[-1].order)
        self.enough = max(self.enough, loop.enough)
        self.draft = None

    def absorb(self, other: _Cluster) -> None:
        """Take in a cluster that begins before this one ends."""
        for loop in other.loops:
            loop.cluster = self
            self.counted.add(loop.first.order)
        self.loops += other.loops
        self.waiting += other.again
        self.waiting += other.waiting
        self.end = max(self.end, other.end)
        self.enough = max(self.enough, other.enough)
        self.draft = None

    def add_waiting(self) -> bool:
        """Add the calls that wait, and return whether they come after all others: calls are only added in order."""
        known = self.last.order
        self.waiting.sort(key=_order)
        for call in self.waiting:
            if call.order in self.orders:
                continue
            if call.order < known:
                return False
            self.add(call)
            self.orders.add(call.order)
            self.counted.add(call.order)
        self.waiting.clear()
        return True

    @property
    def is_reported(self) -> bool:
        return len(self.again) >= self.enough or self._is_immediate

    @property
    def _is_immediate(self) -> bool:
        """Whether one repetition is enough: a named thing was read, and the next call reads it again."""
        call = self.again[0]
        is_named = '":"' in call.arguments and not runs_commands(call.tool)
        return self.enough == STALE_CALLS and call.kind is Kind.LOOKUP and is_named


class _Clusters:
    """The loops of a chapter, with those that overlap made one.

    Loops mostly only grow, and so do the clusters: asking for them costs as much as there are new calls. Where a loop
    is dropped or has become shorter, its cluster is made again.
    """

    def __init__(self) -> None:
        self._clusters: list[_Cluster] = []
        """In order; none of them overlap."""
        self._grown: dict[int, _Loop] = {}
        """Loops with news since clusters were last asked for, by identity."""
        self._broken: dict[int, _Cluster] = {}

    def grow(self, loop: _Loop) -> None:
        """Take in a new loop, or that a loop has more calls or needs more of them."""
        loop.is_dropped = False
        self._grown[id(loop)] = loop

    def shrink(self, loop: _Loop) -> None:
        """Take in that a loop has lost calls."""
        if loop.cluster is not None and (loop.is_dropped or loop.taken > len(loop.stale)):
            self._broken[id(loop.cluster)] = loop.cluster

    def drop(self, loop: _Loop) -> None:
        """Take in that a loop is none any more."""
        loop.is_dropped = True
        self._grown.pop(id(loop), None)
        self.shrink(loop)

    def all(self) -> list[_Cluster]:
        """Return the clusters in order."""
        if self._broken:
            self._dissolve_broken()
        changed = []
        for loop in self._grown.values():
            if loop.cluster is None:
                cluster = _Cluster(loop)
                cluster.join(loop)
                insort(self._clusters, cluster, key=_key)
            else:
                loop.cluster.update(loop)
            changed.append(loop.key)
        self._grown.clear()
        if changed:
            # The cluster before the first changed one may reach into it.
            self._merge(max(0, bisect_right(self._clusters, min(changed), key=_key) - 2))
        return self._clusters

    def _dissolve_broken(self) -> None:
        for cluster in self._broken.values():
            for loop in cluster.loops:
                loop.cluster = None
                if not loop.is_dropped:
                    self._grown[id(loop)] = loop
        self._clusters = [cluster for cluster in self._clusters if id(cluster) not in self._broken]
        self._broken.clear()

    def _merge(self, start: int) -> None:
        """Merge clusters that overlap, from this one on."""
        merged = [self._clusters[start]]
        for cluster in self._clusters[start + 1 :]:
            if cluster.loops[0].first.order < merged[-1].end:
                merged[-1].absorb(cluster)
            else:
                merged.append(cluster)
        self._clusters[start:] = [
            cluster if not cluster.waiting or cluster.add_waiting() else _made_again(cluster) for cluster in merged
        ]


def _made_again(cluster: _Cluster) -> _Cluster:
    loops = cluster.loops
    new = _Cluster(loops[0])
    for loop in loops:
        new.join(loop)
    new.add_waiting()
    return new


class ToolLoop(RunDetector[ToolCall | Message | Moment]):
    """Looks for loops between messages of the user and compactions: looking again after one of these has its reasons.

    Calls that fail are reported by `repeated_tool_failure`.
    """

    NEEDS = (ToolCall,)
    OBSERVES = (ToolCall, Message, Moment)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._past: list[Draft] = []
        """Loops of the chapters that have ended."""
        self._chapter: _Chapter | None = None

    def observe(self, span: ToolCall | Message | Moment, /) -> None:
        if not isinstance(span, ToolCall):
            if self._chapter is not None and begins_chapter(span):
                self._past += self._chapter.drafts(self.run.scope)
                self._chapter = None
        elif span.result and span.kind is not Kind.THOUGHT:
            if self._chapter is None:
                self._chapter = _Chapter()
            self._chapter.add(span)

    def findings(self) -> list[Draft]:
        current = self._chapter.drafts(self.run.scope) if self._chapter is not None else []
        return [*self._past, *current]


class _Chapter:
    """The calls between two messages of the user or compactions, looked at in four ways."""

    def __init__(self) -> None:
        self._clusters = _Clusters()
        self._repetitions = _Repetitions(self._clusters)
        self._rewordings = _Rewordings(self._clusters)
        self._same_answers = _SameAnswers(self._clusters)
        self._missing_names = _MissingNames(self._clusters)

    def add(self, call: ToolCall) -> None:
        self._repetitions.add(call)
        if call.failed:
            return
        has_effect = call.kind in _EFFECTS
        if call.kind is Kind.LOOKUP and "search" in call.tool and not _is_memory(call):
            self._rewordings.add(call)
        if has_effect:
            self._same_answers.end_rows()
        elif call.kind in _ASKING and not _is_memory(call):
            self._same_answers.add(call)
        if has_effect or call.missed:
            self._missing_names.add(call)

    def drafts(self, scope: Scope) -> list[Draft]:
        return [_draft(scope, cluster) for cluster in self._clusters.all() if cluster.is_reported]


class _Repetitions:
    """The same call with the same result, and nothing new in between: no other call, no other result.

    A stretch is a row of calls that all repeat earlier ones. Its calls count for good when a new call follows; when a
    repeated call returns something else they are dropped, because the agent was waiting for that.
    """

    def __init__(self, clusters: _Clusters) -> None:
        self._clusters = clusters
        self._number = 0
        self._seen: dict[bytes, tuple[int, ToolCall]] = {}
        self._loops: dict[bytes, _Loop] = {}
        self._changed = -1
        """Order of the last call that may have changed something."""
        self._start = 0
        """Number of the call with which the stretch begins."""
        self._pending: list[tuple[int, ToolCall, ToolCall]] = []
        """Calls of the stretch that close no circle yet: number, call, and the same call before."""
        self._before: dict[bytes, tuple[int, int]] = {}
        """How many stale calls each loop of the stretch had before it, and how many were enough."""
        self._waits = False

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
                # The result changed by itself: the agent was waiting for something, and not looping.
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
                self._raise_patience(self._loops[same_call])
        self._pending.append((number, call, before))
        if last >= self._start:
            # Once around: this call and all since the last time it was made were made before.
            for at, again, known in self._pending:
                if at > last:
                    self._add_stale(again, known)
            self._pending.clear()

    def _add_stale(self, call: ToolCall, before: ToolCall) -> None:
        """Count a call that was repeated to learn something: not one that failed, acted or let time pass."""
        if call.failed or call.kind is Kind.ACTION or (call.kind is Kind.WAIT and call.nothing_found):
            return
        loop = self._loops.get(call.same_call)
        if loop is None:
            loop = self._loops[call.same_call] = _Loop(before, "the same result each time", 0, 0)
        self._before.setdefault(call.same_call, (len(loop.stale), loop.enough))
        loop.stale.append(call)
        self._raise_patience(loop)

    def _raise_patience(self, loop: _Loop) -> None:
        loop.enough = max(loop.enough, PATIENCE if self._waits else STALE_CALLS)
        self._clusters.grow(loop)

    def _drop_stretch(self) -> None:
        for same_call, (length, enough) in self._before.items():
            if not length:
                self._clusters.drop(self._loops.pop(same_call))
                continue
            loop = self._loops[same_call]
            del loop.stale[length:]
            loop.enough = enough
            self._clusters.shrink(loop)


class _Rewordings:
    """The same question in another order of words: a search does not know more the second time."""

    def __init__(self, clusters: _Clusters) -> None:
        self._clusters = clusters
        self._questions: dict[bytes, ToolCall] = {}
        self._loops: dict[bytes, _Loop] = {}

    def add(self, call: ToolCall) -> None:
        question = words(call.arguments)
        if len(question) < FREE_TEXT_WORDS or call.arguments.count(" ") < FREE_TEXT_WORDS - 1:
            return
        key = fingerprint(call.tool, *sorted(question))
        first = self._questions.setdefault(key, call)
        if call.same_call != first.same_call:
            loop = self._loops.get(key)
            if loop is None:
                loop = self._loops[key] = _Loop(first, "the same words in another order", 1)
            loop.stale.append(call)
            self._clusters.grow(loop)


class _Row:
    """Calls of one tool in a row that returned the same."""

    def __init__(self, first: ToolCall) -> None:
        self.loop = _Loop(first, "other arguments, the same result", 2)
        self._distinct = {first.same_call}
        self._subjects: set[str] = set()
        self._compared = -1
        """Number of the last call whose subject is known."""

    def add(self, call: ToolCall) -> None:
        self.loop.stale.append(call)
        self._distinct.add(call.same_call)

    @property
    def is_loop(self) -> bool:
        first, stale = self.loop.first, self.loop.stale
        if len(stale) + 1 < SAME_ANSWERS or len(self._distinct) == 1:
            return False
        # A short result for calls about different things says something about each of them.
        return first.output_size >= WHOLE_ANSWER or (first.kind is Kind.LOOKUP and self._is_about_one_thing())

    def _is_about_one_thing(self) -> bool:
        if self._compared < 0:
            self._subjects.add(subject(self.loop.first.arguments))
            self._compared = 0
        while len(self._subjects) == 1 and self._compared < len(self.loop.stale):
            self._subjects.add(subject(self.loop.stale[self._compared].arguments))
            self._compared += 1
        return len(self._subjects) == 1


class _SameAnswers:
    """A question in other words, or for another page, that returns the very same result each time."""

    def __init__(self, clusters: _Clusters) -> None:
        self._clusters = clusters
        self._last: dict[str, ToolCall] = {}
        """The last call of each tool."""
        self._rows: dict[str, _Row] = {}
        """Rows of at least two calls, by tool."""

    def add(self, call: ToolCall) -> None:
        last = self._last.get(call.tool)
        self._last[call.tool] = call
        if last is None:
            return
        if last.same_output != call.same_output:
            self._rows.pop(call.tool, None)
            return
        row = self._rows.get(call.tool)
        if row is None:
            row = self._rows[call.tool] = _Row(last)
        row.add(call)
        if row.is_loop:
            self._clusters.grow(row.loop)
        else:
            self._clusters.drop(row.loop)

    def end_rows(self) -> None:
        """Take in a call that changed something: the same result afterwards is news."""
        self._rows.clear()
        self._last.clear()


class _MissingNames:
    """One name that is searched for in ever new ways and does not exist."""

    def __init__(self, clusters: _Clusters) -> None:
        self._clusters = clusters
        self._searches: dict[str, _Loop] = {}
        self._most: _Loop | None = None

    def add(self, call: ToolCall) -> None:
        if call.kind in _EFFECTS:
            self._searches.clear()
        for name in call.missed:
            loop = self._searches.get(name)
            if loop is None:
                loop = self._searches[name] = _Loop(call, f"`{name}` was never found", 3)
            else:
                loop.stale.append(call)
            if self._most is None:
                self._most = loop
            elif len(loop.stale) > len(self._most.stale):
                self._clusters.drop(self._most)
                self._most = loop
            if loop is self._most and len(loop.stale) + 1 >= MISSES:
                self._clusters.grow(loop)


def _is_memory(call: ToolCall) -> bool:
    return call.tool.startswith("memory_")


def _draft(scope: Scope, loop: _Cluster) -> Draft:
    if loop.draft is not None:
        return loop.draft
    first, stale, names, reason = loop.first, loop.again, loop.names, loop.loops[0].reason
    wasted, different = len(stale), len(loop.distinct)
    severity: Severity = "low" if wasted < 2 else "high" if wasted >= HIGH and loop.enough < PATIENCE else "medium"
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
        wasted_tool_calls=stale,
        explains=loop.evidence,
        scope=scope,
        recommendation="Tell the agent what to do when a result does not change (stop, ask, or try something else), "
        f"and limit how often {names} may be called with the same arguments.",
        verification=f"Run the same task again: `critiqor compare` lists this {TYPE} as gone, with fewer tool calls.",
    )
    return loop.draft
