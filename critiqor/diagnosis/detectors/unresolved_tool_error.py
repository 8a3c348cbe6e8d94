"""`unresolved_tool_error`: a tool failed, nothing repaired it, and the answer does not say so."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.assertions import admits_failure
from critiqor.diagnosis.detectors.tool_misuse import is_misuse
from critiqor.diagnosis.draft import Draft, cite, names_of
from critiqor.diagnosis.signals.text import is_already_so, likeness_of_calls, tells_of_absence, words
from critiqor.diagnosis.signals.tools import runs_commands
from critiqor.model import CausalStep
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, ToolCall

TYPE = "unresolved_tool_error"
MOST_JUDGED = 50
"""Kinds of failures, from the last one back, that are followed to the end."""
SAME_PURPOSE = 0.3
"""Share of common words from which a later call of the same tool is the repair of an earlier one."""
LONG_WORD = 6
"""Letters of a word that is hardly shared by chance."""
_READING = frozenset((Kind.LOOKUP, Kind.WAIT))
_FILE = re.compile(r"[\w-]+\.[A-Za-z]\w{0,5}\b")
_TOKEN = re.compile(r"[A-Z_]+")


def detect(run: AgentRun) -> list[Draft]:
    """Failures that are left standing at the end of one agent run."""
    steps = [step for step in run.actions if step.kind is not Kind.THOUGHT and step.result]
    failures = [step for step in steps if step.failed and not step.tool.startswith("memory_") and not is_misuse(step)]
    if not failures:
        return []
    last_of_kind = {(step.tool, step.error_kind): step for step in failures}
    judged = sorted(last_of_kind.values(), key=lambda step: step.order)[-MOST_JUDGED:]
    worked = [step for step in steps if not step.failed]
    asked = frozenset(word for message in run.messages if message.is_user for word in words(message.text))
    left = [
        step
        for step in judged
        if not _is_answer(step, asked) and not _is_repaired(step, worked) and not _is_admitted(step, run)
    ]
    return [_draft(run, left)] if left else []


def _is_answer(failed: ToolCall, asked: frozenset[str]) -> bool:
    """That a file is not there is an answer, unless it is the one that the user asks about."""
    if is_already_so(failed.error or ""):
        return True
    if failed.kind not in _READING or not tells_of_absence(failed.error or ""):
        return False
    return not any(words(name) <= asked for name in _FILE.findall(failed.arguments))


def _is_repaired(failed: ToolCall, worked: list[ToolCall]) -> bool:
    if _is_look(failed):
        # It looked elsewhere and found something, or had other finds of that tool to rest on.
        rests = not runs_commands(failed.tool) or tells_of_absence(failed.error or "")
        if any((rests and step.tool == failed.tool) or _is_later_look(step, failed) for step in worked):
            return True
    named = failed.arguments if failed.kind is Kind.CHANGE else "" if failed.is_test else failed.output
    files = frozenset(_FILE.findall(named))
    return any(step.order > failed.order and _repairs(step, failed, files) for step in worked)


def _is_look(step: ToolCall) -> bool:
    """Whether a call only wanted to know something, such as whether a thing is there."""
    return step.kind in _READING or (step.failed and tells_of_absence(step.error or ""))


def _is_later_look(step: ToolCall, failed: ToolCall) -> bool:
    return _is_look(step) and step.order > failed.order


def _repairs(step: ToolCall, failed: ToolCall, files: frozenset[str]) -> bool:
    comparable = step.tool == failed.tool and step.is_test == failed.is_test
    if comparable and likeness_of_calls(step.arguments, failed.arguments) >= SAME_PURPOSE:
        return True
    # What could not be changed was changed in another way, or what the error names was changed.
    return step.kind in (Kind.CHANGE, Kind.COMMAND) and any(file in step.arguments for file in files)


def _is_admitted(failed: ToolCall, run: AgentRun) -> bool:
    """Whether the agent said, right after it or at the end, that something did not work."""
    said = [
        message
        for message in run.messages
        # A bare word in capitals is a sign for OpenClaw and not for a person: NO_REPLY, HEARTBEAT_OK.
        if not message.is_user and message.order > failed.order and message.text and not _TOKEN.fullmatch(message.text)
    ]
    sent = (step for step in run.actions if step.kind is Kind.ACTION and step.order > failed.order and not step.failed)
    if not said or any(admits_failure(step.arguments) for step in sent):
        # A run that ended without a word claims nothing; how it ended is told by others.
        return True
    return any(message.admits_failure or _quotes(message.text, failed) for message in (said[0], said[-1]))


def _quotes(answer: str, failed: ToolCall) -> bool:
    """Whether an answer has words that only the error can have taught: who quotes it has not ignored it."""
    shared = (words(answer) & words(failed.output)) - words(failed.arguments)
    return any(len(word) >= LONG_WORD for word in shared) or sum(len(word) > 3 for word in shared) > 1


def _draft(run: AgentRun, left: list[ToolCall]) -> Draft:
    last = left[-1]
    reply = run.final_reply
    matters = any(not _is_look(step) for step in left)
    tools = sorted({step.tool for step in left})
    names = names_of(left)
    answer = [CausalStep(reply.event_id, "the answer does not mention it", "ignored")] if reply is not None else []
    return Draft(
        type=TYPE,
        about=(*tools, left[0].error_kind),
        severity="medium" if matters else "low",
        confidence=70 if matters else 55,
        title=f"{names} failed, nothing repaired it, and the answer does not say so",
        explanation=f"{counted(len(left), 'failure')} left standing, the last one: {excerpt(last.error or '', 160)}",
        evidence=cite([*(step.evidence for step in left), *([reply.event_id] if reply else [])]),
        occurrences=len(left),
        first_bad_step=left[0].evidence,
        chain=[
            CausalStep(left[0].evidence, f"{left[0].name} failed: {excerpt(left[0].error or '', 80)}", None),
            *answer,
        ],
        explains=frozenset(step.evidence for step in left),
        scope=run.scope,
        recommendation=f"Have the agent repair what made {names} fail, or say in its answer that it failed.",
        verification="Run the same task again: the call succeeds in the end, or the answer names the failure.",
    )
