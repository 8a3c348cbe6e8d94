"""`tool_misuse`: tools that do not exist, arguments that the tool rejects, calls that never returned."""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec.structs import replace

from critiqor.diagnosis.collections.orders import Orders
from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.drafts.call_groups import CallGroup
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.runs.tool_catalog import SEARCH_TOOLS, ToolCatalog
from critiqor.diagnosis.signals.errors import is_refused_by_shell, names_no_program
from critiqor.diagnosis.signals.tool_calls import does_nothing, runs_commands
from critiqor.model import CausalStep
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Moment, ToolCall, command_line

TYPE = "tool_misuse"
MEANING = "unknown tools, rejected arguments, calls that never returned"
MIN_REFUSED = 3
"""Minimum number of command lines that the shell did not accept: everybody forgets a quote now and then."""
_NO_TOOL = "there is no such tool"
_INVALID = "the arguments are not valid"
_RULE = "the arguments break a rule of the tool"
_REFUSED = "the shell does not accept the command line"
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
# The arguments are valid, but break a rule of the tool that the agent could have known.
_OBJECTION = re.compile(
    r"\bshould (?:be|match|not)\b|\bdoes not (?:add up|match)\b|\bnot enough\b|\binsufficient\b|\bexceeds?\b"
    r"|\bcannot be \w+ed\b|\bnot allowed\b|\bnot permitted\b|\bmismatch\b",
    re.IGNORECASE,
)
# Errors of the system, the network or an access check, which any call would have got.
_NOT_THE_CALL = re.compile(
    r"\bE[A-Z]{3,}\b|(?:[Hh][Tt][Tt][Pp]\S*|[Ss]tatus|[Ff]ailed)\W{1,3}(?:4(?!00|22)\d\d|5\d\d)\b"
    r"|(?i:\blog(?:ged|in)|\bsign(?:ed)? in|auth|credential|api.?key|(?:access|bot) token|permission|approval"
    r"|privilege|access.?rights?|access.or.readonly"
    r"|captcha|javascript|subscription|quota)"
)
_EFFECTS = (Kind.ACTION, Kind.CHANGE)


def is_tool_misuse(call: ToolCall) -> bool:
    """Return whether a call failed because it was made wrongly, and is nothing that could be repaired."""
    reason = _reason(call) if call.failed else None
    if reason == _REFUSED:
        return names_no_program(command_line(call.arguments), call.output)
    return reason is not None


def _reason(call: ToolCall) -> str | None:
    if runs_commands(call.tool) and is_refused_by_shell(f"{call.error or ''}\n{call.output}"):
        return _REFUSED
    return _reason_in(call.error or "", call.tool, call.kind)


# Two detectors ask this about every failed call.
@lru_cache(maxsize=256)
def _reason_in(error: str, tool: str, kind: Kind) -> str | None:
    by_program = runs_commands(tool)
    if _UNKNOWN.search(error) and (not by_program or tool in error):
        return _NO_TOOL
    if by_program or _NOT_THE_CALL.search(error):
        return None  # the output of a program is not about the tool call
    if _MALFORMED.search(error):
        return _INVALID
    return _RULE if kind in _EFFECTS and _OBJECTION.search(error) else None


def with_true_advice(draft: Draft, tools: ToolCatalog) -> Draft:
    """Return a draft of tool misuse that asks for no tool which the recording shows, or the tool search may find."""
    if draft.type != TYPE or draft.about[-1:] != (_NO_TOOL,):
        return draft
    tool = draft.about[0]
    wrong = f"`{tool}` was called wrongly: "
    if tool in SEARCH_TOOLS:
        title = wrong + "no tool has the id that it was given"
        advice = f"Let the agent look for tools with `tool_search` first, and pass `{tool}` an id from its results."
    elif tools.is_deferred(tool):
        title = wrong + "it is behind OpenClaw's tool search"
        advice = (
            f"Tell the agent to call `{tool}` with `tool_call`, or set `tools.toolSearch` to false in OpenClaw's "
            "configuration, so that tools can be called by their names."
        )
    elif tools.is_direct(tool):
        title = wrong + "this agent run did not have it, others did"
        advice = f"Allow `{tool}` for this agent, or remove that name from its instructions."
    elif tools.uses_search:
        title = wrong + "no tool can be called by this name"
        advice = (
            f"Let the agent look for `{tool}` with `tool_search`: tools behind OpenClaw's tool search are called with "
            "`tool_call`. If it is not there either, remove that name from the agent's instructions."
        )
    else:
        return draft
    return replace(draft, title=title, recommendation=advice)


class ToolMisuse(RunDetector[ToolCall | Moment]):
    """Groups rejected calls by tool and reason, and keeps the calls that never returned."""

    NEEDS = (ToolCall,)
    OBSERVES = (ToolCall, Moment)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._rejected: dict[tuple[str, str], CallGroup] = {}
        self._worked: dict[str, int] = {}
        """Order of the last successful call of each tool, or of another one that put its rejected call right."""
        self._unknown: ToolCall | None = None
        """The last call, if there is no such tool."""
        self._replaced: set[str] = set()
        """Tools that do not exist, each replaced by one that does in the next call."""
        self._open: list[ToolCall] = []
        self._latest = 0
        """Order of the last call that returned."""
        self._latest_before_end = 0
        """The same at the last end of the agent run; only calls before this one count as never returned."""

    def observe(self, span: ToolCall | Moment, /) -> None:
        if isinstance(span, Moment):
            if span.event_type == "agent_end":
                self._latest_before_end = self._latest
                if span.payload.get("hidden_model_calls"):
                    # A backend such as claude-cli does not report what the tools of its own subagents return.
                    self._open.clear()
            return
        if span.result is None:
            self._open.append(span)
        else:
            self._latest = span.order
        reason = _reason(span) if span.failed else None
        if self._unknown is not None and not span.failed and span.tool != self._unknown.tool:
            self._replaced.add(self._unknown.tool)
        self._unknown = span if reason == _NO_TOOL else None
        if not span.failed:
            if not does_nothing(span.tool, span.arguments):
                self._worked[span.tool] = span.order
            for rejected in self._rejected.values():
                if rejected.last.arguments == span.arguments != "{}":
                    self._worked[rejected.last.tool] = span.order  # another tool was meant, and accepts the same
        elif reason is not None:
            group = self._rejected.get((span.tool, reason))
            if group is None:
                group = self._rejected[span.tool, reason] = CallGroup(span)
                group.wasted.add_tool_call(span)
            else:
                group.add(span)

    def findings(self) -> list[Draft]:
        drafts = [
            self._draft(tool, reason, group)
            for (tool, reason), group in self._rejected.items()
            if reason != _REFUSED or len(group) >= MIN_REFUSED
        ]
        hanging = [call for call in self._open if call.result is None and call.order < self._latest_before_end]
        return [*drafts, self._hanging(hanging)] if hanging and not self.run.was_stopped else drafts

    def _draft(self, tool: str, reason: str, group: CallGroup) -> Draft:
        first, last = group.first, group.last
        unknown = reason == _NO_TOOL
        replaced = unknown and len(group) == 1 and tool in self._replaced
        repaired = replaced or self._worked.get(tool, 0) > last.order
        is_habit = len(group) > 2 and reason != _REFUSED
        return Draft(
            type=TYPE,
            about=(tool, reason),
            severity="medium" if (unknown and not replaced) or not repaired or is_habit else "low",
            confidence=90 if unknown else 75,
            title=f"`{tool}` was called wrongly: {reason}" + ("; a later call was correct" if repaired else ""),
            explanation=f"{counted(len(group), 'call was', 'calls were')} rejected: {excerpt(last.error or '', 160)}",
            evidence=group.citations.cited(),
            occurrences=len(group),
            first_bad_step=first.evidence,
            chain=[
                CausalStep(first.call, f"Called with {excerpt(first.arguments, 80)}", None),
                CausalStep(first.evidence, f"Rejected: {excerpt(first.error or '', 80)}", "caused"),
            ],
            wasted_tool_calls=group.wasted,
            explained_calls=group.calls,
            scope=self.run.scope,
            recommendation=f"Give the agent a tool named `{tool}`, or remove that name from its instructions."
            if unknown
            else "Compare the recorded command line with what the model wrote: if they differ, its tool calls are "
            "decoded wrongly."
            if reason == _REFUSED
            else f"Describe the arguments of `{tool}` and their rules in the tool's description, with an example.",
            verification=f"Run the same task again: no call of `{tool}` is rejected.",
        )

    def _hanging(self, calls: list[ToolCall]) -> Draft:
        first = calls[0]
        return Draft(
            type=TYPE,
            about=(*sorted({call.tool for call in calls}), "no result"),
            severity="medium",
            confidence=60,
            title=f"{counted(len(calls), 'tool call')} never returned a result",
            explanation="The agent went on without the result: the call hung, or its result was dropped.",
            evidence=cite_events(call.call for call in calls),
            occurrences=len(calls),
            first_bad_step=first.call,
            chain=[CausalStep(first.call, f"{first.name} was called and never returned", None)],
            explained_calls=Orders(call.order for call in calls),
            scope=self.run.scope,
            recommendation="Give the tool a timeout, so that the agent learns when it does not answer.",
            verification="Run the same task again: every call has a result.",
        )
