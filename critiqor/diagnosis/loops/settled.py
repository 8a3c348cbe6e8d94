"""States that do not change by themselves, because something failed or waits for a person, but are still polled."""

from __future__ import annotations

import re
from typing import Any

from critiqor.diagnosis.loops.clusters import Loop, LoopClusters
from critiqor.diagnosis.results.json_answers import decoded
from critiqor.diagnosis.results.state_words import normal_state, words
from critiqor.diagnosis.signals.text import gate
from critiqor.spans.calls import ToolCall

MIN_SETTLED = 3
"""Minimum number of times that a state is polled again which is final, or waits for a person."""
_may_tell_state = gate("tatus", "tate", "hase", "onclusion", "STATUS", "STATE")
_LINE = re.compile(
    r"^[\W_]*(?:\w+[ _-])?(?:status|state|phase|conclusion)[\"']?\s*(?:is\s*)?[:=]\s*"
    r"[\"']?([A-Za-z][\w -]{2,40}?)[\"']?\W*$",
    re.IGNORECASE | re.MULTILINE,
)
_MAX_DEPTH = 2


def settled_state(text: str) -> str:
    """Return the state in an output that does not change by itself; empty if it names none."""
    if not _may_tell_state(text):
        return ""
    if text[:1] == "{":
        return _state_in(decoded(text), 0)
    states = _LINE.findall(text)
    return _settled(states[0]) if len(states) == 1 else ""


def _settled(state: str) -> str:
    word = normal_state(state)
    return word if word in words().lists["final_failure"] or word in words().lists["needs_person"] else ""


def _state_in(value: Any, depth: int) -> str:
    """Return the settled state of an object itself, not of the members of a list in it."""
    if not isinstance(value, dict):
        return ""
    states = words().lists["state_members"]
    for name, member in value.items():
        if isinstance(member, str) and (name.lower() in states or name.lower().endswith(("_status", "_state"))):
            return _settled(member)
    if depth == _MAX_DEPTH:
        return ""
    inner = [member for member in value.values() if isinstance(member, dict)]
    return _state_in(inner[0], depth + 1) if len(inner) == 1 else ""


class Settled:
    """States that will not change by themselves: something has failed, or waits for a person, and is polled again."""

    def __init__(self, clusters: LoopClusters) -> None:
        self._clusters = clusters
        self._loops: dict[bytes, Loop] = {}

    def add(self, call: ToolCall) -> None:
        loop = self._loops.get(call.same_call)
        if not call.settled:
            if loop is not None:
                del self._loops[call.same_call]
                self._clusters.drop(loop)  # it did change
            return
        if loop is None or loop.first.settled != call.settled:
            loop = self._loops[call.same_call] = Loop(call, f"the state is final: {call.settled}", 5)
            loop.is_certain = True
            return
        loop.stale.append(call)
        if len(loop.stale) >= MIN_SETTLED:
            self._clusters.grow(loop)

    def end(self) -> None:
        """Forget all states, because a call may have changed them."""
        self._loops.clear()
