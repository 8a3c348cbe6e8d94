"""Loops of tool calls without a new result; overlapping loops are merged into clusters."""

from __future__ import annotations

from bisect import bisect_right, insort
from itertools import count
from operator import attrgetter

from critiqor.diagnosis.collections.orders import Orders
from critiqor.diagnosis.drafts.call_groups import CallGroup
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.spans.calls import Message, Moment, RunSpan, ToolCall

_order = attrgetter("order")
_key = attrgetter("key")


def begins_chapter(span: RunSpan) -> bool:
    """Return whether loops and their clusters end at this span: a user's message, or the end of a compaction."""
    if isinstance(span, Message):
        return span.is_user
    return isinstance(span, Moment) and span.event_type == "compaction_end"


class Loop:
    """Calls without a new result (stale calls), after a first call that had one."""

    __slots__ = ("cluster", "first", "is_certain", "is_dropped", "key", "min_stale", "reason", "stale", "taken")

    def __init__(self, first: ToolCall, reason: str, rank: int, min_stale: int = 1) -> None:
        self.first = first
        self.stale: list[ToolCall] = []
        self.reason = reason
        self.min_stale = min_stale
        """Minimum number of stale calls of a reported loop."""
        self.key = (first.order, rank)
        """Sort key among all loops: by first call, then by rank."""
        self.is_certain = False
        """Whether it is reported even if the agent waited in between."""
        self.is_dropped = False
        self.cluster = 0
        """Number of its cluster; 0 if it is in none. A reference would form a cycle, which is freed late or never."""
        self.taken = 0
        """Number of stale calls that the cluster already has."""


class LoopCluster(CallGroup):
    """Overlapping loops, such as A, B, A, B, merged: the first call of the first loop, and all stale calls in order."""

    __slots__ = ("counted", "draft", "end", "loops", "min_stale", "number", "stale", "waiting")

    def __init__(self, loop: Loop, number: int) -> None:
        super().__init__(loop.first)
        self.number = number
        self.calls = Orders()  # the first call had a new result
        self.stale: list[ToolCall] = []
        """All calls but the first."""
        self.counted = {loop.first.order}
        """Orders of the calls of the cluster and of the first call of each loop."""
        self.loops: list[Loop] = []
        self.min_stale = 0
        self.end = 0
        """Order of the last stale call."""
        self.waiting: list[ToolCall] = []
        """Stale calls that have yet to be added."""
        self.draft: Draft | None = None
        """Cached draft; None if calls were added since."""

    @property
    def is_certain(self) -> bool:
        """Whether one of the loops is reported even if the agent waited in between."""
        return any(loop.is_certain for loop in self.loops)

    @property
    def key(self) -> tuple[int, int]:
        """Sort key among the clusters."""
        return self.loops[0].key

    def join(self, loop: Loop) -> None:
        """Add a loop that is not in a cluster yet."""
        loop.cluster, loop.taken = self.number, 0
        self.loops.append(loop)
        self.counted.add(loop.first.order)
        self.update(loop)

    def update(self, loop: Loop) -> None:
        """Add the new stale calls of a loop of the cluster."""
        self.waiting += loop.stale[loop.taken :]
        loop.taken = len(loop.stale)
        self.end = max(self.end, loop.stale[-1].order)
        self.min_stale = max(self.min_stale, loop.min_stale)
        self.draft = None

    def absorb(self, other: LoopCluster) -> None:
        """Add the loops and calls of a cluster that begins before this one ends."""
        for loop in other.loops:
            loop.cluster = self.number
            self.counted.add(loop.first.order)
        self.loops += other.loops
        self.waiting += other.stale
        self.waiting += other.waiting
        self.end = max(self.end, other.end)
        self.min_stale = max(self.min_stale, other.min_stale)
        self.draft = None

    def add_waiting(self) -> bool:
        """Add the waiting calls in order; return False if one of them is earlier than the calls of the cluster."""
        known = self.last.order
        self.waiting.sort(key=_order)
        for call in self.waiting:
            if call.order in self.calls or call is self.first:
                continue
            if call.order < known:
                return False
            self.add(call)
            self.stale.append(call)
            self.counted.add(call.order)
        self.waiting.clear()
        return True


class LoopClusters:
    """The loops of a chapter, with overlapping loops merged.

    Loops usually only grow, and so do the clusters: the cost of `all` depends only on the number of new calls. If a
    loop is dropped or has become shorter, its cluster is built again.
    """

    def __init__(self) -> None:
        self._clusters: list[LoopCluster] = []
        """The clusters in order. They do not overlap."""
        self._numbers = count(1)
        self._grown: dict[int, Loop] = {}
        """Loops that are new or have grown since the last call of `all`, by identity."""
        self._broken: set[int] = set()
        """Numbers of clusters with a loop that has lost calls."""

    def grow(self, loop: Loop) -> None:
        """Note that a loop is new, has more stale calls, or has a higher minimum."""
        loop.is_dropped = False
        self._grown[id(loop)] = loop

    def shrink(self, loop: Loop) -> None:
        """Note that a loop has lost calls."""
        if loop.cluster and (loop.is_dropped or loop.taken > len(loop.stale)):
            self._broken.add(loop.cluster)

    def drop(self, loop: Loop) -> None:
        """Note that a loop no longer counts as a loop."""
        loop.is_dropped = True
        self._grown.pop(id(loop), None)
        self.shrink(loop)

    def all(self) -> list[LoopCluster]:
        """Return the clusters in order."""
        if self._broken:
            self._dissolve_broken()
        changed = []
        known = {cluster.number: cluster for cluster in self._clusters} if self._grown else {}
        for loop in self._grown.values():
            if loop.cluster:
                known[loop.cluster].update(loop)
            else:
                cluster = LoopCluster(loop, next(self._numbers))
                cluster.join(loop)
                insort(self._clusters, cluster, key=_key)
            changed.append(loop.key)
        self._grown.clear()
        if changed:
            # The cluster before the first changed one may reach into it.
            self._merge(max(0, bisect_right(self._clusters, min(changed), key=_key) - 2))
        return self._clusters

    def _dissolve_broken(self) -> None:
        for cluster in self._clusters:
            for loop in cluster.loops if cluster.number in self._broken else ():
                loop.cluster = 0
                if not loop.is_dropped:
                    self._grown[id(loop)] = loop
        self._clusters = [cluster for cluster in self._clusters if cluster.number not in self._broken]
        self._broken.clear()

    def _merge(self, start: int) -> None:
        """Merge overlapping clusters, beginning with the one at index `start`."""
        merged = [self._clusters[start]]
        for cluster in self._clusters[start + 1 :]:
            if cluster.loops[0].first.order < merged[-1].end:
                merged[-1].absorb(cluster)
            else:
                merged.append(cluster)
        self._clusters[start:] = [
            cluster if not cluster.waiting or cluster.add_waiting() else _rebuild(cluster) for cluster in merged
        ]


def _rebuild(cluster: LoopCluster) -> LoopCluster:
    """Build a cluster again from its loops, so that its calls are in order."""
    loops = cluster.loops
    new = LoopCluster(loops[0], cluster.number)
    for loop in loops:
        new.join(loop)
    new.add_waiting()
    return new
