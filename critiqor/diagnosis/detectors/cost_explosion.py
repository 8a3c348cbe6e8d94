"""`cost_explosion`: spend far beyond what progress explains."""

from __future__ import annotations

from bisect import bisect_right
from math import fsum

from critiqor.diagnosis.detectors.context_pollution import giant_results
from critiqor.diagnosis.draft import Draft, cite
from critiqor.model import CausalStep, Severity
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ToolCall

TYPE = "cost_explosion"
TOKENS = 200_000
"""Wasted tokens from which it matters."""
MONEY = 1.0
"""The same in dollars."""
CARRIED = 1_000_000
"""Tokens of a few giant results that were sent again with every request."""
BYTES_A_TOKEN = 4


def detect(run: AgentRun, found: list[Draft]) -> list[Draft]:
    """Whether at least half of what one agent run spent bought nothing, and which steps are to blame."""
    return _wasted(run, found) or _carried(run)


def _wasted(run: AgentRun, found: list[Draft]) -> list[Draft]:
    """Spent on steps that other findings call wasted."""
    steps = {step.order: step for draft in found for step in draft.wasted_steps}
    asked = {step.model_call.order: step.model_call for step in steps.values() if step.model_call is not None}
    spent = sum(call.tokens or 0 for call in run.model_calls)
    wasted = sum(call.tokens or 0 for call in asked.values())
    money = fsum(call.cost_usd or 0 for call in asked.values())
    if not spent or wasted * 2 < spent or (wasted < TOKENS and money < MONEY):
        return []
    causes = sorted({draft.type for draft in found if draft.wasted_steps})
    dollars = f", ${money:.2f}" if money else ""
    title = f"{wasted / spent:.0%} of {spent:,} tokens bought nothing{dollars}"
    explanation = f"They were spent on steps of: {', '.join(causes)}. Every further step sends the whole context again."
    return [_draft(run, "high", 85, "wasted", list(steps.values()), title, explanation)]


def _carried(run: AgentRun) -> list[Draft]:
    """Spent on sending the same giant results again and again."""
    giants = giant_results(run)
    if not giants:
        return []
    asked = [call.order for call in run.model_calls]
    compactions = [moment.order for moment in run.compactions]
    carried = 0
    for step in giants:
        # A compaction takes it out of the window.
        dropped = bisect_right(compactions, step.order)
        until = bisect_right(asked, compactions[dropped]) if dropped < len(compactions) else len(asked)
        again = until - bisect_right(asked, step.order) - 1
        carried += max(0, again) * (step.output_size // BYTES_A_TOKEN)
    spent = sum(call.tokens or 0 for call in run.model_calls)
    if carried < CARRIED or carried * 2 < spent or carried > spent:
        return []
    title = f"About {carried / spent:.0%} of {spent:,} tokens were the same large results, sent again and again"
    explanation = "What a tool answers stays in the window, and every further step sends it once more."
    return [_draft(run, "medium", 65, "carried", giants, title, explanation)]


def _draft(
    run: AgentRun,
    severity: Severity,
    confidence: int,
    how: str,
    steps: list[ToolCall],
    title: str,
    explanation: str,
) -> Draft:
    first, last = min(steps, key=lambda step: step.order), max(steps, key=lambda step: step.order)
    return Draft(
        type=TYPE,
        about=(how,),
        severity=severity,
        confidence=confidence,
        title=title,
        explanation=explanation,
        evidence=cite(step.call for step in steps),
        occurrences=len(steps),
        first_bad_step=first.call,
        chain=[
            CausalStep(first.call, "the first of these steps", None),
            *([CausalStep(last.call, "the last of them", "exhausted")] if last is not first else []),
        ],
        scope=run.scope,
        recommendation="Set a budget for the run, and stop it when it repeats itself; repair what is named "
        "beside this first.",
        verification="Run the same task again: `critiqor compare` shows fewer tokens for the same result.",
    )
