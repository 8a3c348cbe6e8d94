"""Calls that are repeated with the same result."""

from __future__ import annotations

import re

from critiqor.diagnosis.loops.clusters import Loop, LoopClusters
from critiqor.spans.calls import Kind, ToolCall, command_line

MIN_STALE_CALLS = 2
"""Minimum number of calls without a new result: one call made three times, or a cycle of two repeated once."""
MIN_STALE_CALLS_WAITING = 10
"""The same if the agent waited in between, because a state that changes by itself may still change."""
MIN_STALE_INPUTS = 4
"""Minimum number of times that the same input to a page changed nothing, whether the agent waited or not."""
MIN_KNOWN_OUTPUT = 80
"""Minimum number of characters of a result that says the same as an earlier one, and not only that nothing is there."""
_INPUT = re.compile(r"(?:^|_)(?:click|press|tap|toggle|type|fill)(?:_|$)|\"(?:action|kind)\":\"(?:click|press|tap)\"")
_READING = (Kind.LOOKUP, Kind.WAIT)
_ORIENTATION = re.compile(
    r"(?:(?:(?:pwd|ls|date|whoami|hostname|id|uname|uptime|clear|true|echo|cd)\b|[\w.-]+ (?:--version|-V)$)"
    r"[^|;&]*(?:&&|;|\||$)\s*)+"
)


def is_orientation(call: ToolCall) -> bool:
    """Return whether the repetition of a call means nothing, because it only shows where the agent is, like `pwd`."""
    line = command_line(call.arguments) if call.kind is Kind.LOOKUP else ""
    return bool(line) and _ORIENTATION.fullmatch(line) is not None


def _gives_input(call: ToolCall) -> bool:
    """Return whether a call clicks or types."""
    return not call.is_pending and (_INPUT.search(call.tool) or _INPUT.search(call.arguments)) is not None


class Repetitions:
    """Repetitions of a call with the same result, and no new call or result in between.

    A stretch is a sequence of calls that all repeat earlier ones. If a new call follows, the calls of the stretch stay
    counted. If a repeated call returns something else, they are dropped, because the agent was waiting for that.
    """

    def __init__(self, clusters: LoopClusters) -> None:
        self._clusters = clusters
        self._number = 0
        self._seen: dict[bytes, tuple[int, ToolCall]] = {}
        self._loops: dict[bytes, Loop] = {}
        self._outputs: set[bytes] = set()
        """Fingerprints of the results so far."""
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
        if before is None and (is_orientation(call) or self._is_known(call)):
            return
        self._outputs.add(call.same_output)
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

    def _is_known(self, call: ToolCall) -> bool:
        """Return whether another call has returned the same before: asking in another way is no progress."""
        is_long = call.output_size >= MIN_KNOWN_OUTPUT and not call.has_failed
        return is_long and call.kind in (Kind.LOOKUP, Kind.COMMAND) and call.same_output in self._outputs

    def _repeat(self, number: int, call: ToolCall, last: int, before: ToolCall) -> None:
        if (call.kind is Kind.WAIT or call.is_pending) and not self._waits:
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
        if call.has_failed or call.kind is Kind.ACTION or (call.kind is Kind.WAIT and call.nothing_found):
            return
        loop = self._loops.get(call.same_call)
        if loop is None:
            loop = self._loops[call.same_call] = Loop(before, "the same result each time", 0, 0)
        self._before.setdefault(call.same_call, (len(loop.stale), loop.min_stale))
        loop.stale.append(call)
        # A page that only loads changes with the next look; one that answers a click in the same way again does not.
        loop.is_certain = loop.is_certain or (len(loop.stale) >= MIN_STALE_INPUTS and _gives_input(call))
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
