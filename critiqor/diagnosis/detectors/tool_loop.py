"""`tool_loop`: the same calls again and again, without any new result."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

import msgspec

from critiqor.diagnosis.detector import RunDetector, begins_chapter
from critiqor.diagnosis.draft import Draft, cite, name_calls
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
_evidence = attrgetter("evidence")
_same_call = attrgetter("same_call")


class _Loop(msgspec.Struct):
    """Calls that brought nothing new, after a first one that did."""

    first: ToolCall
    stale: list[ToolCall]
    reason: str
    enough: int = 1
    """Stale calls without which it is no loop."""
    others: list[ToolCall] = msgspec.field(default_factory=list)
    """First calls of loops that overlap with it."""
    draft: Draft | None = None
    """The last draft of it, as long as nothing was added since."""

    @property
    def is_reported(self) -> bool:
        return len(self.stale) >= self.enough or self._is_immediate

    @property
    def _is_immediate(self) -> bool:
        """Whether one repetition is enough: a named thing was read, and the next call reads it again."""
        call = self.stale[0]
        is_named = '":"' in call.arguments and not runs_commands(call.tool)
        return self.enough == STALE_CALLS and call.kind is Kind.LOOKUP and is_named


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
        self._repetitions = _Repetitions()
        self._rewordings = _Rewordings()
        self._same_answers = _SameAnswers()
        self._missing_names = _MissingNames()

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
        loops = [
            *self._repetitions.loops(),
            *self._rewordings.loops(),
            *self._same_answers.loops(),
            *self._missing_names.loops(),
        ]
        return [_draft(scope, loop) for loop in _merged(loops) if loop.is_reported] if loops else []


class _Repetitions:
    """The same call with the same result, and nothing new in between: no other call, no other result.

    A stretch is a row of calls that all repeat earlier ones. Its calls count for good when a new call follows; when a
    repeated call returns something else they are dropped, because the agent was waiting for that.
    """

    def __init__(self) -> None:
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
        if before is None:
            self._keep_stretch()
        else:
            self._drop_stretch()
            loop = self._loops.get(call.same_call)
            if loop is not None and loop.stale[-1].order > self._changed:
                # The result changed by itself: the agent was waiting for something, and not looping.
                del self._loops[call.same_call]
        if call.kind not in _READING:
            self._changed = call.order
        self._start = number

    def _repeat(self, number: int, call: ToolCall, last: int, before: ToolCall) -> None:
        self._waits |= call.kind is Kind.WAIT
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
            loop = self._loops[call.same_call] = _Loop(before, [], "the same result each time", 0)
        self._before.setdefault(call.same_call, (len(loop.stale), loop.enough))
        loop.stale.append(call)
        loop.draft = None

    def _keep_stretch(self) -> None:
        self._raise_patience()
        self._end_stretch()

    def _drop_stretch(self) -> None:
        for same_call, (length, enough) in self._before.items():
            if length:
                loop = self._loops[same_call]
                # A new list: drafts may still hold the old one.
                loop.stale, loop.enough, loop.draft = loop.stale[:length], enough, None
            else:
                del self._loops[same_call]
        self._end_stretch()

    def _end_stretch(self) -> None:
        self._before.clear()
        self._pending.clear()
        self._waits = False

    def _raise_patience(self) -> None:
        enough = PATIENCE if self._waits else STALE_CALLS
        for same_call in self._before:
            loop = self._loops[same_call]
            if loop.enough < enough:
                loop.enough, loop.draft = enough, None

    def loops(self) -> Iterable[_Loop]:
        self._raise_patience()
        return self._loops.values()


class _Rewordings:
    """The same question in another order of words: a search does not know more the second time."""

    def __init__(self) -> None:
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
                loop = self._loops[key] = _Loop(first, [], "the same words in another order")
            loop.stale.append(call)
            loop.draft = None

    def loops(self) -> Iterable[_Loop]:
        return self._loops.values()


class _Row:
    """Calls of one tool in a row that returned the same."""

    def __init__(self, first: ToolCall) -> None:
        self.loop = _Loop(first, [], "other arguments, the same result")
        self._distinct = {first.same_call}
        self._subjects: set[str] = set()
        self._compared = -1
        """Number of the last call whose subject is known."""

    def add(self, call: ToolCall) -> None:
        self.loop.stale.append(call)
        self.loop.draft = None
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

    def __init__(self) -> None:
        self._last: dict[str, ToolCall] = {}
        """The last call of each tool."""
        self._rows: dict[str, _Row] = {}
        """Rows of at least two calls, by tool."""
        self._loops: list[_Loop] = []

    def add(self, call: ToolCall) -> None:
        last = self._last.get(call.tool)
        self._last[call.tool] = call
        if last is None:
            return
        row = self._rows.get(call.tool)
        if last.same_output == call.same_output:
            if row is None:
                row = self._rows[call.tool] = _Row(last)
            row.add(call)
        elif row is not None:
            if row.is_loop:
                self._loops.append(row.loop)
            del self._rows[call.tool]

    def end_rows(self) -> None:
        """Take in a call that changed something: the same result afterwards is news."""
        self._loops = self.loops()
        self._rows.clear()
        self._last.clear()

    def loops(self) -> list[_Loop]:
        return [*self._loops, *(row.loop for row in self._rows.values() if row.is_loop)]


class _MissingNames:
    """One name that is searched for in ever new ways and does not exist."""

    def __init__(self) -> None:
        self._searches: dict[str, _Loop] = {}
        self._most: _Loop | None = None

    def add(self, call: ToolCall) -> None:
        if call.kind in _EFFECTS:
            self._searches.clear()
        for name in call.missed:
            loop = self._searches.get(name)
            if loop is None:
                loop = self._searches[name] = _Loop(call, [], f"`{name}` was never found")
            else:
                loop.stale.append(call)
                loop.draft = None
            if self._most is None or len(loop.stale) > len(self._most.stale):
                self._most = loop

    def loops(self) -> list[_Loop]:
        most = self._most
        return [most] if most is not None and len(most.stale) + 1 >= MISSES else []


def _is_memory(call: ToolCall) -> bool:
    return call.tool.startswith("memory_")


def _merged(loops: list[_Loop]) -> list[_Loop]:
    """Return loops with those that overlap made one: A, B, A, B."""
    merged: list[_Loop] = []
    is_copy = False
    for loop in sorted(loops, key=lambda loop: loop.first.order):
        last = merged[-1] if merged else None
        if last is None or loop.first.order >= last.stale[-1].order:
            merged.append(loop)
            is_copy = False
            continue
        if not is_copy:
            last = merged[-1] = _Loop(last.first, last.stale, last.reason, last.enough)
            is_copy = True
        both = last.stale + loop.stale
        both.sort(key=_order)
        last.stale = list(dict(zip(map(_order, both), both, strict=True)).values())
        last.enough = max(last.enough, loop.enough)
        last.others.append(loop.first)
    return merged


def _draft(scope: Scope, loop: _Loop) -> Draft:
    if loop.draft is not None:
        return loop.draft
    first, stale = loop.first, loop.stale
    calls = [first, *stale]
    distinct = dict(zip(map(_same_call, reversed(calls)), reversed(calls), strict=True))
    different = sorted(distinct.values(), key=_order)
    names = name_calls(different)
    wasted = len(stale)
    total = len({*map(_order, calls), *map(_order, loop.others)})
    evidence = list(map(_evidence, calls))
    severity: Severity = "low" if wasted < 2 else "high" if wasted >= HIGH and loop.enough < PATIENCE else "medium"
    shape = f"A cycle of {len(different)} calls" if len(different) > 1 else "A repeated call"
    loop.draft = Draft(
        type=TYPE,
        about=tuple(sorted({call.tool for call in different})),
        severity=severity,
        confidence=90 if wasted >= 4 else 75 if wasted >= 2 else 55,
        title=f"{names} called {counted(total, 'time')}, {wasted} of them without a new result",
        explanation=f"{shape} returned nothing new ({loop.reason}): {excerpt(first.arguments, 120)}. "
        "Nothing changed in between that could have led to another result.",
        evidence=cite(evidence),
        occurrences=wasted,
        first_bad_step=stale[0].call,
        chain=[
            CausalStep(first.evidence, f"{first.name} returned a result", None),
            CausalStep(stale[0].evidence, f"Called again: {loop.reason}", "retried"),
            *(
                [CausalStep(stale[-1].evidence, f"Repeated {counted(wasted, 'time')} in total", "retried")]
                if wasted > 1
                else []
            ),
        ],
        wasted_tool_calls=stale,
        explains=frozenset(evidence[1:]),
        scope=scope,
        recommendation="Tell the agent what to do when a result does not change (stop, ask, or try something else), "
        f"and limit how often {names} may be called with the same arguments.",
        verification=f"Run the same task again: `critiqor compare` lists this {TYPE} as gone, with fewer tool calls.",
    )
    return loop.draft
