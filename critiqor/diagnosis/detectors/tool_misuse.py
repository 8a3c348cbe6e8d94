"""`tool_misuse`: tools that do not exist, arguments that the tool rejects, calls that never came back."""

from __future__ import annotations

import re
from collections import defaultdict

from critiqor.diagnosis.draft import Draft, cite
from critiqor.diagnosis.signals.tools import runs_commands
from critiqor.model import CausalStep
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, ToolCall

TYPE = "tool_misuse"
_UNKNOWN = re.compile(
    r"\b(?:tool|function) \S+ (?:not found|does not exist|is not available|is unknown)|\bunknown (?:tool|function)\b"
    r"|\bno such (?:tool|function)\b",
    re.IGNORECASE,
)
_MALFORMED = re.compile(
    r"validation failed|schema validation|unexpected keyword|missing (?:\d+ )?required"
    r"|invalid (?:arguments?|param\w*|url)"
    r"|(?:missing|required|unknown|unexpected) (?:positional )?(?:argument|parameter|property|field)"
    r"|must (?:have|not have)\b|must be (?:an? |one |equal |of |string|number|integer|boolean|array|object|[<>=])"
    r"|\b\w+ (?:is )?required\b|not a valid",
    re.IGNORECASE,
)
# The tool understood the call and objects to what it asks for: a rule that the agent could have known.
_OBJECTION = re.compile(
    r"\bshould (?:be|match|not)\b|\bdoes not (?:add up|match)\b|\bnot enough\b|\binsufficient\b|\bexceeds?\b"
    r"|\bcannot be \w+ed\b|\bnot allowed\b|\bnot permitted\b|\bmismatch\b",
    re.IGNORECASE,
)
# The system, the network or whoever grants access objects, and would object to any call.
_NOT_THE_CALL = re.compile(
    r"\bE[A-Z]{3,}\b|(?:[Hh][Tt][Tt][Pp]\S*|[Ss]tatus|[Ff]ailed)\W{1,3}(?:4(?!00|22)\d\d|5\d\d)\b"
    r"|(?i:\blog(?:ged|in)|\bsign(?:ed)? in|auth|credential|api.?key|(?:access|bot) token|permission|approval"
    r"|captcha|javascript|subscription|quota)"
)
_DEALING = frozenset((Kind.ACTION, Kind.CHANGE))


def is_misuse(step: ToolCall) -> bool:
    """Whether a call failed because of how it was made."""
    return step.failed and _reason(step) is not None


def _reason(step: ToolCall) -> str | None:
    said = step.error or ""
    by_program = runs_commands(step.tool)
    if _UNKNOWN.search(said) and (not by_program or step.tool in said):
        return "there is no such tool"
    if by_program or _NOT_THE_CALL.search(said):
        return None  # what a program prints is not about the call of the tool
    if _MALFORMED.search(said):
        return "the arguments are not valid"
    return "the arguments break a rule of the tool" if step.kind in _DEALING and _OBJECTION.search(said) else None


def detect(run: AgentRun) -> list[Draft]:
    """Misused tools of one agent run, by tool and reason."""
    wrong: dict[tuple[str, str], list[ToolCall]] = defaultdict(list)
    for step in run.actions:
        reason = _reason(step) if step.failed else None
        if reason is not None:
            wrong[step.tool, reason].append(step)
    drafts = [_draft(run, tool, reason, steps) for (tool, reason), steps in wrong.items()]
    hanging = _left_hanging(run)
    return [*drafts, _hanging(run, hanging)] if hanging else drafts


def _left_hanging(run: AgentRun) -> list[ToolCall]:
    """Calls that the agent went on without; one that was open when all ended says nothing."""
    ended = max((moment.order for moment in run.moments_of("agent_end")), default=0)
    latest = max((step.order for step in run.actions if step.result and step.order < ended), default=0)
    return [] if run.was_stopped else [step for step in run.actions if step.result is None and step.order < latest]


def _draft(run: AgentRun, tool: str, reason: str, steps: list[ToolCall]) -> Draft:
    last = steps[-1]
    repaired = any(step.tool == tool and not step.failed and step.order > last.order for step in run.actions)
    unknown = reason.startswith("there is no")
    severity = "medium" if unknown or not repaired or len(steps) > 2 else "low"
    return Draft(
        type=TYPE,
        about=(tool, reason),
        severity="medium" if severity == "medium" else "low",
        confidence=90 if unknown else 75,
        title=f"`{tool}` was called wrongly: {reason}" + (", then correctly" if repaired else ""),
        explanation=f"{counted(len(steps), 'call was', 'calls were')} rejected: {excerpt(last.error or '', 160)}",
        evidence=cite(step.evidence for step in steps),
        occurrences=len(steps),
        first_bad_step=steps[0].evidence,
        chain=[
            CausalStep(steps[0].call, f"called with {excerpt(steps[0].arguments, 80)}", None),
            CausalStep(steps[0].evidence, f"rejected: {excerpt(steps[0].error or '', 80)}", "caused"),
        ],
        wasted_steps=steps,
        explains=frozenset(step.evidence for step in steps),
        scope=run.scope,
        recommendation=f"Offer the agent a tool named `{tool}`, or remove it from its instructions."
        if unknown
        else f"Describe the arguments of `{tool}` and their rules where the agent reads them, with a correct example.",
        verification=f"Run the same task again: no call of `{tool}` is rejected.",
    )


def _hanging(run: AgentRun, steps: list[ToolCall]) -> Draft:
    return Draft(
        type=TYPE,
        about=(*sorted({step.tool for step in steps}), "no result"),
        severity="medium",
        confidence=60,
        title=f"{counted(len(steps), 'tool call')} never got a result",
        explanation="A call was made, the agent went on, and its result was never seen: it hung, or was dropped.",
        evidence=cite(step.call for step in steps),
        occurrences=len(steps),
        first_bad_step=steps[0].call,
        chain=[CausalStep(steps[0].call, f"{steps[0].name} was called and never answered", None)],
        explains=frozenset(step.call for step in steps),
        scope=run.scope,
        recommendation="Give the tool a timeout, so that the agent learns that it did not answer.",
        verification="Run the same task again: every call has a result.",
    )
