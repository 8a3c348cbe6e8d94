"""Cycles of several calls that are gone through again, such as start, request, log, stop, with the same results.

Each round may name a process or a job that the round itself has started: such names do not make a difference.
"""

from __future__ import annotations

from collections import deque

from critiqor.diagnosis.collections.fingerprints import fingerprint
from critiqor.diagnosis.loops.clusters import Loop, LoopClusters
from critiqor.diagnosis.loops.repetitions import MIN_STALE_CALLS_WAITING
from critiqor.spans.calls import Kind, ToolCall, command_line

MIN_ROUNDS = 3
"""Minimum number of equal rounds."""
MAX_CYCLE = 32
"""Maximum number of calls of a round."""
MAX_HANDLES = 16
"""Maximum number of names of processes or jobs that are remembered: the latest ones."""
_READING = (Kind.LOOKUP, Kind.WAIT)


class Cycles:
    """Searches for rounds that are repeated with the same calls and results."""

    def __init__(self, clusters: LoopClusters) -> None:
        self._clusters = clusters
        self._calls: list[ToolCall] = []
        self._shapes: list[bytes] = []
        self._last: dict[bytes, int] = {}
        """Index of the last call of each shape."""
        self._handles: deque[str] = deque(maxlen=MAX_HANDLES)
        self._period = 0
        """Number of calls of a round; 0 if there is none."""
        self._equal = 0
        """Number of calls so far that are the same as one round before."""
        self._loop: Loop | None = None

    def add(self, call: ToolCall) -> None:
        index = len(self._calls)
        shape = self._shape(call)
        self._calls.append(call)
        self._shapes.append(shape)
        self._handles.extend(call.handles)
        last = self._last.get(shape)
        self._last[shape] = index
        if self._period and self._shapes[index - self._period] == shape:
            if self._is_same(index, index - self._period):
                self._equal += 1
                self._report(index)
                return
            if self._loop is not None and call.kind in _READING:
                self._clusters.drop(self._loop)  # something changed after all
        self._loop = None
        self._period = index - last if last is not None and self._is_same(index, last) else 0
        self._equal = 1 if self._period else 0

    def _shape(self, call: ToolCall) -> bytes:
        """Return what a call is apart from names that earlier calls have returned."""
        arguments = call.arguments
        used = [handle for handle in self._handles if handle in arguments]
        for handle in used:
            arguments = arguments.replace(handle, "#")
        return fingerprint(call.tool, arguments) if used else call.same_call

    def _is_same(self, index: int, before: int) -> bool:
        one, other = self._calls[index], self._calls[before]
        if one.has_failed or other.has_failed:
            return one.has_failed and other.has_failed and one.error_kind == other.error_kind
        return one.same_output == other.same_output or bool(one.bare_output and one.bare_output == other.bare_output)

    def _report(self, index: int) -> None:
        period = self._period
        if not 1 < period <= MAX_CYCLE or self._equal < (MIN_ROUNDS - 1) * period:
            return
        if self._loop is None:
            start = index + 1 - self._equal
            cycle = self._calls[start : start + period]
            # Rounds that only read are repetitions like any other, and rounds without a look change something.
            looks = any(call.kind in _READING or call.kind is Kind.COMMAND or "browser" in call.tool for call in cycle)
            acts = any(call.kind not in _READING and not call.has_failed for call in cycle)
            if not looks or not acts or len({call.same_call for call in cycle}) == 1:
                return
            sleeps = any(map(_sleeps, cycle))
            min_stale = MIN_STALE_CALLS_WAITING if sleeps else 1
            self._loop = Loop(
                self._calls[start - period], "the same round of calls, with the same results", 6, min_stale
            )
            self._loop.is_certain = not sleeps
            self._loop.stale = [call for call in self._calls[start : index + 1] if _counts(call)]
        elif _counts(self._calls[index]):
            self._loop.stale.append(self._calls[index])
        if self._loop.stale:
            self._clusters.grow(self._loop)


def _counts(call: ToolCall) -> bool:
    return not call.has_failed


def _sleeps(call: ToolCall) -> bool:
    return call.kind is Kind.WAIT and ("sleep" in command_line(call.arguments) or "wait" in call.tool)
