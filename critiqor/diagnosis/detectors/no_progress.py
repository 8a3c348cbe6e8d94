"""`no_progress`: many steps that change nothing and learn nothing."""

from __future__ import annotations

from critiqor.diagnosis.draft import Draft, cite
from critiqor.diagnosis.signals.tools import runs_commands
from critiqor.model import CausalStep
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, ToolCall

TYPE = "no_progress"
IDLE = 8
"""Idle steps in a row."""
ECHOES = 3
"""Answers that hold nothing but the question: printing a request does not send it."""


def detect(run: AgentRun) -> list[Draft]:
    """Stretches of one agent run that led nowhere."""
    chapters = run.chapters
    steps = [step for chapter in chapters for step in chapter]
    echoes = [step for step in steps if step.echo and not step.failed]
    if len(echoes) >= ECHOES and 2 * len(echoes) >= len(steps):
        title = f"{counted(len(echoes), 'call')} of `{echoes[0].tool}` only echoed their own arguments"
        return [_draft(run, echoes, "echo", title)]
    longest = max(map(_longest_idle, chapters), key=len)
    if len(longest) < IDLE:
        return []
    return [
        _draft(run, longest, "idle", f"{counted(len(longest), 'step')} in a row changed nothing and learnt nothing")
    ]


def _longest_idle(steps: list[ToolCall]) -> list[ToolCall]:
    longest: list[ToolCall] = []
    row: list[ToolCall] = []
    seen: set[tuple[bytes, bytes]] = set()
    failures: set[tuple[str, str]] = set()
    for step in steps:
        if _is_idle(step, seen, failures):
            # To wait is no progress and no lack of it.
            row += [step] if step.kind is not Kind.WAIT else []
        elif row:
            longest, row = max(longest, row, key=len), []
        seen.add((step.same_call, step.same_output))
        if step.failed:
            failures.add((step.tool, step.error_kind))
    return max(longest, row, key=len)


def _is_idle(step: ToolCall, seen: set[tuple[bytes, bytes]], failures: set[tuple[str, str]]) -> bool:
    """Whether a step told nothing: a new error is news, and so is that a file is empty or a command finds nothing."""
    if step.failed:
        return (step.tool, step.error_kind) in failures
    nothing = step.nothing_found and step.output != "" and not runs_commands(step.tool)
    return nothing or (step.same_call, step.same_output) in seen


def _draft(run: AgentRun, steps: list[ToolCall], how: str, title: str) -> Draft:
    tools = sorted({step.tool for step in steps})
    return Draft(
        type=TYPE,
        about=(how, *tools),
        severity="medium",
        confidence=70,
        title=title,
        explanation="Each of them failed, found nothing, or brought what was known already. The first: "
        + excerpt(steps[0].arguments, 120),
        evidence=cite(step.evidence for step in steps),
        occurrences=len(steps),
        first_bad_step=steps[1].call,
        chain=[
            CausalStep(steps[0].evidence, "nothing new", None),
            CausalStep(steps[-1].evidence, f"still nothing after {len(steps)} steps", "retried"),
        ],
        wasted_steps=steps[1:],
        scope=run.scope,
        recommendation="Give the agent a way out: a limit on fruitless steps, after which it asks or reports "
        "what is missing.",
        verification="Run the same task again: fewer idle steps in a row.",
    )
