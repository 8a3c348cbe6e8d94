"""`repeated_tool_failure`: the same failure again and again, without anything being done about it."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import msgspec

from critiqor.diagnosis.draft import Draft, cite, names_of
from critiqor.diagnosis.signals.text import is_already_so, likeness_of_calls, tells_of_absence, words
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, ToolCall

TYPE = "repeated_tool_failure"
ALIKE = 0.4
"""Share of common words from which two calls are the same attempt."""
TELLING_WORDS = 12
"""Words of a call from which likeness means something even if the errors read differently."""
GUESSES = 3
"""Failures of attempts that really differ: two wrong guesses are a search, three of one kind are a habit."""
CASCADE = 4
"""Failures of one kind over several tools."""
HIGH = 6
MOST_OPEN = 8
"""Kinds of failures of one tool that may be repaired at a time."""
SOON = 20
"""Steps within which a similar call counts as the repair of a failed one; the same call counts for ever."""


class _Streak(msgspec.Struct):
    steps: list[ToolCall]
    blind: int = 0
    """Attempts that repeated a failed one although nothing had happened in between that could help."""
    recovered: bool = False
    at: int = 0
    """The number of its last step."""
    successes: int = 0
    """Steps that had succeeded by then."""
    effects: int = 0
    """Those of them that may have changed something, if only by letting time pass."""


def detect(run: AgentRun) -> list[Draft]:
    """Failures of one kind in one agent run."""
    steps = [step for step in run.actions if step.result and step.kind is not Kind.THOUGHT]
    if not any(step.failed for step in steps):
        return []
    streaks = _streaks(steps)
    told = {step.evidence for streak in streaks for step in streak.steps}
    return [_draft(run, streak, streak.recovered) for streak in (*streaks, *_cascades(steps, told))]


def _streaks(steps: list[ToolCall]) -> list[_Streak]:
    """Failures of one tool and one kind; a repair in between begins anew."""
    successes = effects = 0
    open_streaks: dict[str, dict[object, _Streak]] = defaultdict(dict)
    closed: list[_Streak] = []
    for number, step in enumerate(steps):
        known = open_streaks[step.tool]
        if not step.failed:
            successes += 1
            effects += step.kind is not Kind.LOOKUP
            for key in [key for key, streak in known.items() if _repairs(step, streak, number)]:
                known[key].recovered = True
                closed.append(known.pop(key))
            continue
        # A code alone says nothing of the reason: only the same call fails for the same one.
        key = (step.error_kind, step.same_call) if _is_code(step.error_kind) else step.error_kind
        streak = known.get(key)
        if streak is not None and streak.effects < effects and streak.steps[-1].same_output != step.same_output:
            # Something was changed, and the failure is another one now: this is work.
            closed.append(known.pop(key))
            streak = None
        if streak is None:
            streak = known[key] = _Streak([])
            if len(known) > MOST_OPEN:
                closed.append(known.pop(next(iter(known))))
        elif step.same_call == streak.steps[-1].same_call:
            streak.blind += streak.effects == effects
        elif streak.successes == successes:
            streak.blind += _is_same_attempt(streak.steps[-1], step)
        streak.steps.append(step)
        streak.at, streak.successes, streak.effects = number, successes, effects
    closed += [streak for streaks in open_streaks.values() for streak in streaks.values()]
    return _judged(steps, closed)


def _is_code(error_kind: str) -> bool:
    return error_kind.startswith("exit code") and ":" not in error_kind


def _repairs(step: ToolCall, streak: _Streak, number: int) -> bool:
    last = streak.steps[-1]
    if step.same_call == last.same_call:
        return True
    return number - streak.at <= SOON and likeness_of_calls(step.arguments, last.arguments) >= ALIKE


def _is_same_attempt(before: ToolCall, step: ToolCall) -> bool:
    """Whether a call is nearly the one before."""
    comparable = step.same_output == before.same_output or len(words(step.arguments)) >= TELLING_WORDS
    return comparable and likeness_of_calls(step.arguments, before.arguments) >= ALIKE


def _judged(steps: list[ToolCall], streaks: list[_Streak]) -> list[_Streak]:
    calls: dict[str, int] = defaultdict(int)
    last: dict[str, ToolCall] = {}
    for step in steps:
        calls[step.tool] += 1
        last[step.tool] = step
    return [streak for streak in streaks if _counts(streak, calls[streak.steps[0].tool], last[streak.steps[0].tool])]


def _counts(streak: _Streak, calls: int, last: ToolCall) -> bool:
    if streak.recovered and streak.steps[0].kind is Kind.WAIT:
        return False  # it waited until it worked
    if streak.blind and not _is_search(streak):
        return True
    # Otherwise at least half of what the tool was asked must have failed in this way, up to the end.
    return len(streak.steps) >= GUESSES and 2 * len(streak.steps) >= calls and last.failed


def _is_search(streak: _Streak) -> bool:
    """Whether it asked for another thing each time, and was told that there is no such thing."""
    different = len({step.same_call for step in streak.steps}) == len(streak.steps)
    error = streak.steps[0].error or ""
    return different and (tells_of_absence(error) or is_already_so(error))


def _cascades(steps: list[ToolCall], told: set[str]) -> list[_Streak]:
    """One cause that strikes several tools, until one of them works again."""
    kinds: dict[str, list[ToolCall]] = defaultdict(list)
    struck: dict[str, set[str]] = defaultdict(set)
    found: list[list[ToolCall]] = []
    for step in steps:
        if not step.failed:
            found += [kinds.pop(kind) for kind in struck.pop(step.tool, ()) if kind in kinds]
        elif step.evidence not in told and not _is_code(step.error_kind):
            kinds[step.error_kind].append(step)
            struck[step.tool].add(step.error_kind)
    found += kinds.values()
    cascades = [failed for failed in found if len(failed) >= CASCADE and len({step.tool for step in failed}) > 1]
    return [_Streak(failed, len(failed) - 1) for failed in cascades]


def _first_blind(steps: list[ToolCall]) -> ToolCall:
    """The first attempt that changed nothing at all, or else the second one."""
    identical = (step for before, step in pairwise(steps) if step.same_call == before.same_call)
    return next(identical, steps[1])


def _draft(run: AgentRun, streak: _Streak, recovered: bool) -> Draft:
    steps = streak.steps
    tools = list(dict.fromkeys(step.tool for step in steps))
    names = names_of(steps)
    failures = len(steps)
    severity: Severity = "high" if failures >= HIGH else "medium" if failures >= 3 else "low"
    if recovered:
        severity = "medium" if failures >= HIGH else "low"
    error = excerpt(steps[0].error or "", 160)
    same = len({step.same_call for step in steps}) == 1
    attempts = "with the very same arguments" if same else "with arguments that hardly differ"
    return Draft(
        type=TYPE,
        about=(*sorted(tools), steps[0].error_kind),
        severity=severity,
        confidence=90 if failures >= 3 and streak.blind else 75 if streak.blind else 60,
        title=f"{names} failed {counted(failures, 'time')} in the same way" + (", then worked" if recovered else ""),
        explanation=f"It was called again {attempts} after it had failed with: {error}",
        evidence=cite(step.evidence for step in steps),
        occurrences=failures,
        first_bad_step=_first_blind(steps).evidence,
        chain=[
            CausalStep(steps[0].evidence, f"{steps[0].name} failed: {excerpt(steps[0].error or '', 80)}", None),
            CausalStep(steps[1].evidence, "tried again, and failed in the same way", "retried"),
            *([CausalStep(steps[-1].evidence, f"failure number {failures}", "retried")] if failures > 2 else []),
        ],
        wasted_steps=steps[1:],
        explains=frozenset(step.evidence for step in steps),
        scope=run.scope,
        recommendation=f"Make the agent read the error of {names} before it tries again, and stop after two "
        "failures of "
        "one kind; if the error is about the tool itself, repair the tool or its description.",
        verification="Run the same task again: no more than one failure of this kind, and `critiqor compare` "
        "shows this "
        f"{TYPE} as gone.",
    )
