"""`ignored_tool_output`: the answer asserts what the results do not say."""

from __future__ import annotations

import re

from critiqor.diagnosis.draft import Draft, cite
from critiqor.model import CausalStep
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Message, ToolCall

TYPE = "ignored_tool_output"
FRUITLESS = 2
"""Lookups, all of them in vain, after which a definite answer comes from nowhere."""
_DEFINITE = re.compile(r"\d[\d.,]*\d|[\"“`][^\"”`]{3,}[\"”`]")
_COUNT = re.compile(r"\b(\d+) (failed|failures?|errors?|passed|skipped)\b", re.IGNORECASE)


def detect(run: AgentRun) -> list[Draft]:
    """Answers of one agent run that its own results contradict or do not hold."""
    reply = run.final_reply
    if reply is None:
        return []
    steps = [step for step in run.actions if step.result and step.kind is not Kind.THOUGHT]
    return _from_nowhere(run, reply, steps) or _other_count(run, reply, steps)


def _from_nowhere(run: AgentRun, reply: Message, steps: list[ToolCall]) -> list[Draft]:
    """Everything that was looked up came back empty, failed or only echoed, and the answer is definite all the same."""
    if reply.admits_failure or not _DEFINITE.search(reply.text):
        return []
    sources = [step for step in steps if _is_source(step)]
    fruitless = [step for step in sources if step.failed or step.nothing_found or step.echo]
    if len(fruitless) < max(FRUITLESS, len(sources)):
        return []
    return [
        _draft(
            run,
            reply,
            fruitless,
            f"A definite answer, although {counted(len(fruitless), 'lookup')} found nothing",
            "Everything that could have told it was empty, failed or an echo of the question. It said: "
            f"{_quote(reply)}",
            60,
        )
    ]


def _is_source(step: ToolCall) -> bool:
    """Whether it can have told the answer; to find nothing in memory is how most questions begin."""
    only_waited = step.kind is Kind.WAIT and step.nothing_found
    return not only_waited and not step.tool.startswith("memory_") and "answer" not in step.tool


def _other_count(run: AgentRun, reply: Message, steps: list[ToolCall]) -> list[Draft]:
    """The answer gives a number of passed or failed tests that no run of them has shown."""
    tests = [step for step in steps if step.is_test]
    if len({step.same_call for step in tests}) != 1:
        return []  # numbers of several suites can be sums
    shown = [_counts(step.output) for step in tests]
    for what, number in _counts(reply.text).items():
        if what in shown[-1] and all(counts.get(what) != number for counts in shown):
            title = f"The answer says {number} {what}, the last test run says {shown[-1][what]}"
            return [_draft(run, reply, tests[-1:], title, f"It said: {_quote(reply)}", 75)]
    return []


def _counts(text: str) -> dict[str, str]:
    return {what.lower().rstrip("s"): number for number, what in _COUNT.findall(text)}


def _quote(reply: Message) -> str:
    return f"“{excerpt(reply.text, 140)}”"


def _draft(
    run: AgentRun, reply: Message, against: list[ToolCall], title: str, explanation: str, confidence: int
) -> Draft:
    return Draft(
        type=TYPE,
        about=tuple(sorted({step.tool for step in against})),
        severity="medium",
        confidence=confidence,
        title=title,
        explanation=explanation,
        evidence=cite([*(step.evidence for step in against), reply.event_id]),
        occurrences=len(against),
        first_bad_step=reply.event_id,
        chain=[
            CausalStep(against[-1].evidence, f"`{against[-1].tool}` answered: {excerpt(against[-1].output, 80)}", None),
            CausalStep(reply.event_id, "the answer does not follow from it", "ignored"),
        ],
        scope=run.scope,
        recommendation="Have the agent name the result that each statement rests on, and say so when it found nothing.",
        verification="Run the same task again: the answer quotes a result, or says that there is none.",
    )
