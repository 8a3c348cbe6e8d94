"""`tool_loop`: the same calls again and again, and nothing comes of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from critiqor.diagnosis.draft import Draft, cite, names_of
from critiqor.diagnosis.signals.text import fingerprint, subject, words
from critiqor.diagnosis.signals.tools import runs_commands
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, ToolCall

TYPE = "tool_loop"
STALE_CALLS = 2
"""Steps that brought nothing new: one call three times, or a cycle of two gone through twice."""
PATIENCE = 10
"""The same, where the agent waited in between: what moves by itself may still move."""
SAME_ANSWERS = 4
"""Different questions in a row that got the very same answer."""
WHOLE_ANSWER = 200
"""Bytes from which it is no coincidence that different questions have the same answer."""
HIGH = 6
IN_VAIN = 4
"""Answers that the same name is not there."""
FREE_TEXT_WORDS = 5
"""Words that make an argument a question, and not a name or a path."""
_EFFECTS = frozenset((Kind.CHANGE, Kind.ACTION))
_READING = frozenset((Kind.LOOKUP, Kind.WAIT))


class _Loop(msgspec.Struct):
    first: ToolCall
    stale: list[ToolCall]
    reason: str
    enough: int = 1
    """Stale steps without which it is no loop."""
    others: list[ToolCall] = msgspec.field(default_factory=list)
    """First steps of loops that run through it."""

    @property
    def calls(self) -> int:
        """How many steps it has, those included that taught something."""
        return len({step.order for step in (self.first, *self.others, *self.stale)})


def detect(run: AgentRun) -> list[Draft]:
    """Loops of one agent run; calls that fail are the business of `repeated_tool_failure`."""
    loops: list[_Loop] = []
    for steps in run.chapters:
        worked = [step for step in steps if not step.failed]
        loops += [*_repeated(steps), *_asked_again(worked), *_same_answer(worked), *_in_vain(worked)]
    return [_draft(run, loop) for loop in _merged(loops) if len(loop.stale) >= loop.enough or _is_at_once(loop)]


def _repeated(steps: list[ToolCall]) -> list[_Loop]:
    """The same call with the same answer, and nothing at all was new in between: no other call, no other answer."""
    seen: dict[bytes, tuple[int, ToolCall]] = {}
    loops: dict[bytes, _Loop] = {}
    stretch = _Stretch()
    changed = -1
    for number, step in enumerate(steps):
        before = seen.get(step.same_call)
        seen[step.same_call] = (number, step)
        if before is not None and before[1].same_output == step.same_output:
            stretch.add(number, step, *before)
            continue
        if before is None:
            stretch.close(loops)
        elif (loop := loops.get(step.same_call)) is not None and loop.stale[-1].order > changed:
            # The answer moved by itself: this was waiting for something, not turning in circles.
            del loops[step.same_call]
        if step.kind not in _READING:
            changed = step.order
        stretch.begin(number)
    stretch.close(loops)
    return list(loops.values())


class _Stretch:
    """Steps after something new, all of them repetitions."""

    def __init__(self) -> None:
        self._start = 0
        self._pending: list[tuple[int, ToolCall, ToolCall]] = []
        self._stale: list[tuple[ToolCall, ToolCall]] = []
        self._waits = False

    def begin(self, start: int) -> None:
        self._start = start
        if self._pending or self._stale:
            self._pending.clear()
            self._stale.clear()
            self._waits = False

    def add(self, number: int, step: ToolCall, last: int, before: ToolCall) -> None:
        self._waits |= step.kind is Kind.WAIT
        self._pending.append((number, step, before))
        if last >= self._start:
            # Once round: this step and all since the last time it was made were made before.
            self._stale += [(again, known) for at, again, known in self._pending if at > last]
            self._pending.clear()

    def close(self, loops: dict[bytes, _Loop]) -> None:
        """Keep what was repeated to learn something: not what failed, what was to happen, or that time passed."""
        enough = PATIENCE if self._waits else STALE_CALLS
        for step, before in self._stale:
            if step.failed or step.kind is Kind.ACTION or (step.kind is Kind.WAIT and step.nothing_found):
                continue
            loop = loops.setdefault(step.same_call, _Loop(before, [], "the same answer each time", enough))
            loop.stale.append(step)
            loop.enough = max(loop.enough, enough)


def _is_at_once(loop: _Loop) -> bool:
    """One repetition is enough where a thing that is named was read, and the next step reads it again."""
    step = loop.stale[0]
    is_named = '":"' in step.arguments and not runs_commands(step.tool)
    return loop.enough == STALE_CALLS and step.kind is Kind.LOOKUP and is_named


def _asked_again(steps: list[ToolCall]) -> list[_Loop]:
    """The same question in another order of words: a search does not know more the second time."""
    asked: dict[bytes, list[ToolCall]] = defaultdict(list)
    for step in steps:
        if step.kind is not Kind.LOOKUP or "search" not in step.tool or _is_memory(step):
            continue
        said = words(step.arguments)
        if len(said) >= FREE_TEXT_WORDS and step.arguments.count(" ") >= FREE_TEXT_WORDS - 1:
            asked[fingerprint(step.tool, *sorted(said))].append(step)
    loops = []
    for group in asked.values():
        again = [step for step in group[1:] if step.same_call != group[0].same_call]
        if again:
            loops.append(_Loop(group[0], again, "the same words in another order"))
    return loops


def _same_answer(steps: list[ToolCall]) -> list[_Loop]:
    """The question is put in other words, or for another page, and the answer is the very same each time."""
    rows: dict[str, list[ToolCall]] = {}
    loops = []
    for step in steps:
        if step.kind in _EFFECTS:
            loops += _told_the_same(rows.values())
            rows.clear()
        if step.kind in (Kind.LOOKUP, Kind.COMMAND) and not _is_memory(step):
            row = rows.get(step.tool)
            if row is not None and row[-1].same_output == step.same_output:
                row.append(step)
                continue
            if row is not None and len(row) >= SAME_ANSWERS:
                loops += _told_the_same([row])
            rows[step.tool] = [step]
    return [*loops, *_told_the_same(rows.values())]


def _told_the_same(rows: Iterable[list[ToolCall]]) -> list[_Loop]:
    found = [row for row in rows if len(row) >= SAME_ANSWERS and len({step.same_call for step in row}) > 1]
    # A short answer to questions about different things tells something of each of them.
    telling = [row for row in found if row[0].output_size >= WHOLE_ANSWER or _is_about_one_thing(row)]
    return [_Loop(row[0], row[1:], "other arguments, the very same answer") for row in telling]


def _is_about_one_thing(row: list[ToolCall]) -> bool:
    return row[0].kind is Kind.LOOKUP and len({subject(step.arguments) for step in row}) == 1


def _in_vain(steps: list[ToolCall]) -> list[_Loop]:
    """One name that is looked for in ever new ways, and never there."""
    looked: dict[str, list[ToolCall]] = defaultdict(list)
    most: tuple[str, list[ToolCall]] = ("", [])
    for step in steps:
        if step.kind in _EFFECTS:
            looked.clear()
        for name in step.missed:
            looked[name].append(step)
            most = max(most, (name, looked[name]), key=lambda found: len(found[1]))
    name, found = most
    return [_Loop(found[0], found[1:], f"`{name}` never there")] if len(found) >= IN_VAIN else []


def _is_memory(step: ToolCall) -> bool:
    return step.tool.startswith("memory_")


def _merged(loops: list[_Loop]) -> list[_Loop]:
    """Loops that run through each other are one: A, B, A, B."""
    merged: list[_Loop] = []
    for loop in sorted(loops, key=lambda loop: _order(loop.first)):
        last = merged[-1] if merged else None
        if last is not None and loop.first.order < last.stale[-1].order:
            last.stale = sorted({step.order: step for step in (*last.stale, *loop.stale)}.values(), key=_order)
            last.enough = max(last.enough, loop.enough)
            last.others.append(loop.first)
        else:
            merged.append(loop)
    return merged


def _order(step: ToolCall) -> int:
    return step.order


def _draft(run: AgentRun, loop: _Loop) -> Draft:
    steps = [loop.first, *loop.stale]
    calls = list(dict.fromkeys(step.same_call for step in steps))
    tools = list(dict.fromkeys(step.tool for step in steps))
    names = names_of(steps)
    wasted = len(loop.stale)
    severity: Severity = "low" if wasted < 2 else "high" if wasted >= HIGH and loop.enough < PATIENCE else "medium"
    shape = f"a cycle of {len(calls)} calls" if len(calls) > 1 else "one call"
    return Draft(
        type=TYPE,
        about=tuple(sorted(tools)),
        severity=severity,
        confidence=90 if wasted >= 4 else 75 if wasted >= 2 else 55,
        title=f"{names} called {counted(loop.calls, 'time')}, {wasted} of them without learning anything new",
        explanation=f"{shape[0].upper()}{shape[1:]} was repeated, with {loop.reason}: "
        f"{excerpt(steps[0].arguments, 120)}. "
        "Nothing was changed in between that could have led to another answer.",
        evidence=cite(step.evidence for step in steps),
        occurrences=wasted,
        first_bad_step=loop.stale[0].call,
        chain=[
            CausalStep(loop.first.evidence, f"{loop.first.name} answered", None),
            CausalStep(loop.stale[0].evidence, f"asked again: {loop.reason}", "retried"),
            *(
                [CausalStep(loop.stale[-1].evidence, f"and {counted(wasted, 'time')} again in all", "retried")]
                if wasted > 1
                else []
            ),
        ],
        wasted_steps=loop.stale,
        explains=frozenset(step.evidence for step in loop.stale),
        scope=run.scope,
        recommendation="Tell the agent what to do when an answer does not change (stop, ask, or try something else), "
        f"and limit how often {names} may be called with the same arguments.",
        verification=f"Run the same task again: `critiqor compare` shows this {TYPE} as gone, and fewer tool calls.",
    )
