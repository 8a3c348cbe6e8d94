"""`context_pollution`: requests that fill or overrun the window, and the results that filled it."""

from __future__ import annotations

from heapq import nsmallest

from critiqor.diagnosis.detectors.provider_failure import cause_of
from critiqor.diagnosis.draft import Draft, cite
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ModelCall, ToolCall

TYPE = "context_pollution"
NEARLY_FULL = 0.9
"""Share of the budget from which there is hardly room for an answer."""
ABSURD = 20
"""Budgets that no request can hold: whoever says so has miscounted."""
GIANT_BYTES = 100_000
GIANT_SHARE = 0.25
"""Share of the budget that one result takes, at four bytes a token."""


def detect(run: AgentRun) -> list[Draft]:
    """How full the window of one agent run was."""
    over = [call for call in run.model_calls if (saturation(call) or 0) > 1]
    refused = [call for call in run.model_calls if call.failed and cause_of(call) == "context"]
    giants = giant_results(run)
    if over or refused:
        calls = sorted({call.order: call for call in (*over, *refused)}.values(), key=lambda call: call.order)
        # A request that was refused, made smaller and sent again is how it should go.
        severity: Severity = "high" if over or refused[-1] is run.model_calls[-1] else "medium"
        title = f"{counted(len(calls), 'request')} over the window: {_how_far(calls)}"
        return [_draft(run, "over", severity, calls, giants, title)]
    full = _left_full(run)
    if full:
        title = f"The window was {max(saturation(call) or 0 for call in full):.0%} full"
        return [_draft(run, "full", "medium", full, giants, title)]
    if giants:
        largest = max(giants, key=lambda step: step.output_size)
        title = f"`{largest.tool}` put {largest.output_size // 1000} KB into the window at once"
        return [_draft(run, "giant", "low", [], giants, title)]
    return []


def saturation(call: ModelCall) -> float | None:
    """Share of the budget that a request used; None where either is not known."""
    if not call.budget_tokens or call.input_tokens is None:
        return None
    share = call.input_tokens / call.budget_tokens
    return share if share < ABSURD else None


def _how_far(calls: list[ModelCall]) -> str:
    worst = max(calls, key=lambda call: saturation(call) or 0)
    if saturation(worst) is not None:
        return f"{worst.input_tokens} of {worst.budget_tokens} tokens"
    return excerpt(worst.error or "", 100)


def _left_full(run: AgentRun) -> list[ModelCall]:
    """Requests that nearly filled the window, up to the last; one that was compacted in time is none."""
    compacted = max((moment.order for moment in run.compactions), default=0)
    return [call for call in run.model_calls if call.order > compacted and (saturation(call) or 0) >= NEARLY_FULL]


def giant_results(run: AgentRun) -> list[ToolCall]:
    """Results that take much of the window at once."""
    budget = next((call.budget_tokens for call in reversed(run.model_calls) if call.budget_tokens), None)
    limit = GIANT_BYTES if budget is None else min(GIANT_BYTES, round(GIANT_SHARE * budget * 4))
    large = [step for step in run.actions if step.output_size > limit]
    if not large:
        return []
    following = {id(call): later for call, later in zip(run.model_calls, run.model_calls[1:], strict=False)}
    return [step for step in large if _grew(step.model_call, following.get(id(step.model_call)), limit)]


def _grew(before: ModelCall | None, after: ModelCall | None, limit: int) -> bool:
    """Whether the next request was as much larger: OpenClaw passes on only a part of long outputs."""
    if before is None or after is None or before.request_bytes is None or after.request_bytes is None:
        return True
    return after.request_bytes - before.request_bytes > limit


def _draft(
    run: AgentRun, how: str, severity: Severity, calls: list[ModelCall], giants: list[ToolCall], title: str
) -> Draft:
    largest = nsmallest(3, run.actions, key=lambda step: (-step.output_size, step.order))
    fillers = ", ".join(f"`{step.tool}` {step.output_size // 1000} KB" for step in largest if step.output_size > 1000)
    first = calls[0].event_id if calls else giants[0].evidence
    before = [step for step in largest if not calls or step.order < calls[0].order]
    return Draft(
        type=TYPE,
        about=(how, *sorted({step.tool for step in giants})),
        severity=severity,
        confidence=90 if how == "over" else 75,
        title=title,
        explanation="What does not fit is cut or forgotten, and the model answers from the rest."
        + (f" The largest results: {fillers}." if fillers else ""),
        evidence=cite([*(step.evidence for step in before[:2]), *(call.event_id for call in calls)]),
        occurrences=max(1, len(calls) or len(giants)),
        first_bad_step=first,
        chain=[
            *(
                [CausalStep(before[0].evidence, f"`{before[0].tool}` answered {before[0].output_size} bytes", None)]
                if before
                else []
            ),
            *([CausalStep(first, title, "exhausted" if before else None)] if calls else []),
        ],
        scope=run.scope,
        recommendation="Let the tools return less (a page, a range, a summary), clear old results, or compact earlier.",
        verification=f"Run the same task again: the context analysis stays under {NEARLY_FULL:.0%} of the budget.",
    )
