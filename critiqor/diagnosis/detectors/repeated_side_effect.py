"""`repeated_side_effect`: something that must happen once was done twice."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from itertools import accumulate, pairwise

from critiqor.diagnosis.draft import Draft, cite
from critiqor.diagnosis.signals.text import words
from critiqor.model import CausalStep
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Message, ToolCall

TYPE = "repeated_side_effect"
LOOKED_BACK = 50
"""Steps before an action in which a look at what became of the one before is searched for."""
_AMBIGUOUS = re.compile(
    r"time[d -]?\s?out|timeout|connection (?:reset|closed|lost)|\b50[234]\b|bad gateway|socket hang|no response"
    r"|unknown (?:state|result)|ECONNRESET|EPIPE",
    re.IGNORECASE,
)
_OFTEN = re.compile(r"\b(?:twice|thrice|times|again|repeat\w*|every|each)\b", re.IGNORECASE)
_WORKING = frozenset((Kind.CHANGE, Kind.ACTION, Kind.COMMAND, Kind.OTHER))


def detect(run: AgentRun) -> list[Draft]:
    """Actions of one agent run that were done again although the first may have taken effect."""
    same: dict[bytes, list[int]] = defaultdict(list)
    for number, step in enumerate(run.actions):
        if step.kind is Kind.ACTION and (not step.failed or _is_unclear(step)):
            same[step.same_call].append(number)
    repeated = [numbers for numbers in same.values() if len(numbers) > 1]
    if not repeated:
        return []
    worked = list(accumulate((step.kind in _WORKING and not step.failed for step in run.actions), initial=0))
    asked = [message for message in run.messages if message.is_user]
    drafts = []
    for numbers in repeated:
        again = [second for first, second in pairwise(numbers) if _is_again(run.actions, first, second, worked, asked)]
        if again:
            drafts.append(_draft(run, [run.actions[number] for number in (numbers[0], *again)]))
    return drafts


def _is_unclear(step: ToolCall) -> bool:
    return step.result is None or (step.failed and _AMBIGUOUS.search(f"{step.error} {step.output}") is not None)


def _is_again(steps: list[ToolCall], first: int, second: int, worked: list[int], asked: list[Message]) -> bool:
    """Whether an action is the one before once more, and not asked for, checked or part of new work."""
    before = steps[first]
    said = bisect_left(asked, steps[second].order, key=lambda message: message.order)
    if said and (asked[said - 1].order > before.order or _OFTEN.search(asked[said - 1].text)):
        return False
    if _is_unclear(before):
        return not any(_looks_after(step, before) for step in steps[max(first + 1, second - LOOKED_BACK) : second])
    return worked[second] == worked[first + 1]


def _looks_after(step: ToolCall, action: ToolCall) -> bool:
    """Whether a lookup asks for something that the action was about."""
    if step.failed or step.result is None or step.kind not in (Kind.LOOKUP, Kind.WAIT):
        return False
    about = words(f"{action.tool} {action.arguments}") - words(" ".join(_KEY.findall(action.arguments)))
    return not about.isdisjoint(words(f"{step.tool} {step.arguments}"))


_KEY = re.compile(r'"(\w+)":')


def _draft(run: AgentRun, done: list[ToolCall]) -> Draft:
    first, second = done[0], done[1]
    uncertain = first.failed or first.result is None
    outcome = f"ended unclear ({excerpt(first.error or 'no result', 60)})" if uncertain else "had worked"
    return Draft(
        type=TYPE,
        about=(first.tool,),
        severity="high",
        confidence=80 if uncertain else 85,
        title=f"{first.name} was done {counted(len(done), 'time')} with the same arguments",
        explanation=f"The first one {outcome}, and it was done again: {excerpt(first.arguments, 140)}",
        evidence=cite(step.evidence for step in done),
        occurrences=len(done) - 1,
        first_bad_step=second.call,
        chain=[
            CausalStep(first.evidence, f"{first.name} {outcome}", None),
            CausalStep(second.evidence, "done once more", "retried"),
        ],
        wasted_steps=done[1:],
        scope=run.scope,
        recommendation=f"Give {first.name} an idempotency key, and have the agent look whether the first one "
        "took effect "
        "before it tries again.",
        verification="Run the same task again: the action appears once, or a check stands between the two.",
    )
