"""`skill_failure`: a skill that the user asked for was never opened, or failed when it was used."""

from __future__ import annotations

import re
from typing import NamedTuple

from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.drafts.call_groups import CallGroup
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Message, ToolCall

TYPE = "skill_failure"
MEANING = "a skill that was asked for was never opened, or failed"
MIN_FAILURES = 2
"""Minimum number of failed calls that used a skill's files; a single one is normal when a skill is first used."""
MIN_FAILURES_FOR_HIGH = 6
"""Minimum number of failed calls for severity high."""
_SKILL_FILE = re.compile(r"skills/([\w.-]+)/")
_REQUEST = re.compile(
    r"(?<!not )(?<!n't )(?<!never )(?<!without )\b"
    r"(?:(?:use|run|apply|follow)\s+(?:the\s+|your\s+)?|(?:using|with)\s+(?:the|your)\s+)[\"'`]?"
    r"(?!(?:best|right|same|new|any|some|this|that|your|all|every|which|what|its|my|our|their|more|people|soft"
    r"|other|one|relevant|appropriate|great|good|necessary)\b)"
    r"([\w-]{3,})[\"'`]?\s+skill\b",
    re.IGNORECASE,
)


class _Request(NamedTuple):
    """A skill that the user named."""

    skill: str
    event_id: str


class _Use:
    """The calls that used the files of one skill."""

    def __init__(self) -> None:
        self.failed: CallGroup | None = None
        self.is_unreadable = False
        """Whether the description of the skill could not be read."""
        self.last_failed = False
        """Whether the last call failed."""

    def add(self, call: ToolCall) -> None:
        self.last_failed = call.failed
        if not call.failed:
            return
        self.is_unreadable |= "SKILL.md" in call.arguments
        if self.failed is None:
            self.failed = CallGroup(call)
        else:
            self.failed.add(call)


class SkillFailure(RunDetector[ToolCall | Message]):
    """Keeps the skills that were used, and the skills that the user asked for."""

    NEEDS = (ToolCall,)
    OBSERVES = (ToolCall, Message)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._used: dict[str, _Use] = {}
        self._requests: list[_Request] = []
        self._has_calls = False

    def observe(self, span: ToolCall | Message, /) -> None:
        if isinstance(span, ToolCall):
            self._has_calls = True
            if "skills/" in span.arguments:
                for name in dict.fromkeys(_SKILL_FILE.findall(span.arguments)):
                    self._used.setdefault(name, _Use()).add(span)
        elif span.is_user and "skill" in span.text.lower():
            self._requests += [_Request(name, span.event_id) for name in _REQUEST.findall(span.text)]

    def findings(self) -> list[Draft]:
        failing = [
            self._failing(name, use.failed)
            for name, use in self._used.items()
            if use.failed is not None and use.last_failed and (len(use.failed) >= MIN_FAILURES or use.is_unreadable)
        ]
        return [*failing, *self._ignored()] if self._requests else failing

    def _ignored(self) -> list[Draft]:
        reply = self.run.final_reply
        if not self._has_calls or (reply is not None and reply.admits_failure):
            return []
        known = {name.lower() for name in self._used}
        ignored = {}
        for request in self._requests:
            if request.skill.lower() not in known:
                known.add(request.skill.lower())
                ignored[request.skill] = request.event_id
        return [self._unopened(name, event_id) for name, event_id in ignored.items()]

    def _failing(self, name: str, failed: CallGroup) -> Draft:
        title = f"The skill `{name}` failed: {excerpt(failed.last.error or '', 100)}"
        return Draft(
            type=TYPE,
            about=(name, "failing"),
            severity="high" if len(failed) >= MIN_FAILURES_FOR_HIGH else "medium",
            confidence=75,
            title=title,
            explanation=f"{counted(len(failed), 'call')} that used its files failed, including the last one.",
            evidence=failed.citations.cited(),
            occurrences=len(failed),
            first_bad_step=failed.first.evidence,
            chain=[CausalStep(failed.first.evidence, title, None)],
            wasted_tool_calls=failed.wasted,
            explained_calls=failed.calls,
            scope=self.run.scope,
            recommendation=f"Run the commands of the skill `{name}` by hand on the agent's machine, and "
            "fix what is missing.",
            verification=f"Run the same task again: the calls of the skill `{name}` succeed.",
        )

    def _unopened(self, name: str, event_id: str) -> Draft:
        title = f"The user asked for the skill `{name}`, but it was never opened"
        return Draft(
            type=TYPE,
            about=(name, "ignored"),
            severity="low",
            confidence=60,
            title=title,
            explanation="No tool call of the agent run touched a file of that skill.",
            evidence=cite_events([event_id]),
            first_bad_step=event_id,
            chain=[CausalStep(event_id, title, None)],
            scope=self.run.scope,
            recommendation=f"Check with `openclaw skills list` that `{name}` is installed and eligible, and that its "
            "description says when to use it.",
            verification=f"Run the same task again: the skill `{name}` is opened.",
        )
