"""States that do not change by themselves, because something failed or waits for a person, but are still polled."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from critiqor.diagnosis.loops.clusters import Loop, LoopClusters
from critiqor.diagnosis.results.json_answers import decoded
from critiqor.diagnosis.results.state_words import normal_state, state_words
from critiqor.diagnosis.signals.fast_patterns import pattern_check
from critiqor.spans.calls import ToolCall

MIN_SETTLED = 3
"""Minimum number of times that a state is polled again which is final, or waits for a person."""
MAX_REPORT = 200
"""Maximum number of characters of a text that only reports a state."""
_may_tell_state = pattern_check("tatus", "tate", "hase", "onclusion", "STATUS", "STATE")
_LINE = re.compile(
    r"^\W*+(?:\w{1,30}[ _-])?(?:status|state|phase|conclusion)[\"']?\s*(?:is\s*)?[:=]\s*"
    r"[\"']?([A-Za-z][\w -]{2,40}?)[\"']?\W*$",
    re.IGNORECASE | re.MULTILINE,
)
_BARE = re.compile(r"\s*[\"']?([A-Za-z][\w-]{2,40})[\"']?\s*")
_FAILED = re.compile(
    r"(?<!\b0 )\b(?:failed|failure|cancel+ed|aborted|rejected|declined|expired|timed out)\b", re.IGNORECASE
)
_MOVING = re.compile(
    r"running|queued|pending|in[ _-]progress|retr(?:y|ies)|restart|starting|building|deploying|%|\beta\b"
    r"|not (?:yet )?failed|no fail",
    re.IGNORECASE,
)
_PERSON = re.compile(
    r"\b(?:wait\w*|await\w*|pending|requires?|needs?|held|hold)\b[^.\n]{0,30}"
    r"\b(?:approv\w+|review\w*|confirm\w+|release|signature|sign-off|manual\w*|human|operator)\b",
    re.IGNORECASE,
)
_BY_HAND = frozenset(("manual", "approval", "signature", "held", "human", "operator"))
_MAX_DEPTH = 2


class ReportedState(NamedTuple):
    """The state that an output reports."""

    settled: str = ""
    """The state, if it does not change by itself."""
    is_pending: bool = False
    """Whether the state will change by itself."""


_NO_STATE = ReportedState()


def reported_state(text: str, *, is_report: bool) -> ReportedState:
    """Return the state that an output reports, settled or not. `is_report`: whether a short text alone is a state."""
    if text[:1] == "{":
        return _judged(_state_in(decoded(text), 0)) if _may_tell_state(text) else _NO_STATE
    bare = _BARE.fullmatch(text) if len(text) <= MAX_REPORT else None
    states = [bare[1]] if bare else _LINE.findall(text) if _may_tell_state(text) else []
    judged = _judged(states[0]) if len(states) == 1 else _NO_STATE
    if judged.settled or judged.is_pending or not is_report or len(text) > MAX_REPORT:
        return judged
    if _PERSON.search(text):
        return ReportedState("it waits for a person")
    return ReportedState("failed") if _FAILED.search(text) and not _MOVING.search(text) else judged


def _judged(state: str) -> ReportedState:
    word = normal_state(state)
    lists = state_words().lists
    if word in lists["final_failure"] or word in lists["needs_person"] or not _BY_HAND.isdisjoint(word.split("_")):
        return ReportedState(word)
    return ReportedState(is_pending=state_words().states.get(word) == "not_final")


def _state_in(value: Any, depth: int) -> str:
    """Return the state of an object itself, not of the members of a list in it."""
    if not isinstance(value, dict):
        return ""
    states = state_words().lists["state_members"]
    for name, member in value.items():
        if isinstance(member, str) and (name.lower() in states or name.lower().endswith(("_status", "_state"))):
            return member
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
