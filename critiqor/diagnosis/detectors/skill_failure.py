"""`skill_failure`: a skill that was asked for and never opened, or that failed when it was used."""

from __future__ import annotations

import re
from collections import defaultdict

from critiqor.diagnosis.draft import Draft, cite
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Message, ToolCall

TYPE = "skill_failure"
FAILURES = 2
"""Failed steps with a skill's own files; a single one is what learning a skill looks like."""
HIGH = 6
_OF_SKILL = re.compile(r"skills/([\w.-]+)/")
_ASKED = re.compile(
    r"(?<!not )(?<!n't )(?<!never )(?<!without )\b"
    r"(?:(?:use|run|apply|follow)\s+(?:the\s+|your\s+)?|(?:using|with)\s+(?:the|your)\s+)[\"'`]?"
    r"(?!(?:best|right|same|new|any|some|this|that|your|all|every|which|what|its|my|our|their|more|people|soft"
    r"|other|one|relevant|appropriate|great|good|necessary)\b)"
    r"([\w-]{3,})[\"'`]?\s+skill\b",
    re.IGNORECASE,
)


def detect(run: AgentRun) -> list[Draft]:
    """Skills of one agent run that did not do what they are there for."""
    used: dict[str, list[ToolCall]] = defaultdict(list)
    for step in run.actions:
        if "skills/" not in step.arguments:
            continue
        for name in dict.fromkeys(_OF_SKILL.findall(step.arguments)):
            used[name].append(step)
    return [*_failing(run, used), *_ignored(run, used)]


def _failing(run: AgentRun, used: dict[str, list[ToolCall]]) -> list[Draft]:
    drafts = []
    for name, steps in used.items():
        failed = [step for step in steps if step.failed]
        unreadable = [step for step in failed if "SKILL.md" in step.arguments]
        if steps[-1].failed and (len(failed) >= FAILURES or unreadable):
            title = f"The skill `{name}` failed: {excerpt(failed[-1].error or '', 100)}"
            severity: Severity = "high" if len(failed) >= HIGH else "medium"
            draft = _draft(run, name, "failing", severity, [step.evidence for step in failed], title)
            draft.wasted_steps = failed[1:]
            draft.explains = frozenset(step.evidence for step in failed)
            drafts.append(draft)
    return drafts


def _ignored(run: AgentRun, used: dict[str, list[ToolCall]]) -> list[Draft]:
    drafts = []
    known = {name.lower() for name in used}
    reply = run.final_reply
    if not run.actions or (reply is not None and reply.admits_failure):
        return []
    for message in run.messages:
        for name in _asked_for(message):
            if name.lower() not in known:
                title = f"The user asked for the skill `{name}`, and it was never opened"
                drafts.append(_draft(run, name, "ignored", "low", [message.event_id], title))
                known.add(name.lower())
    return drafts


def _asked_for(message: Message) -> list[str]:
    return _ASKED.findall(message.text) if message.is_user else []


def _draft(run: AgentRun, name: str, how: str, severity: Severity, events: list[str], title: str) -> Draft:
    failing = how == "failing"
    return Draft(
        type=TYPE,
        about=(name, how),
        severity=severity,
        confidence=75 if failing else 60,
        title=title,
        explanation=f"{counted(len(events), 'step')} with its files failed, the last one too."
        if failing
        else "No step of the run touched a file of that skill.",
        evidence=cite(events),
        occurrences=len(events),
        first_bad_step=events[0],
        chain=[CausalStep(events[0], title, None)],
        scope=run.scope,
        recommendation=f"Run the steps of `{name}` by hand where the agent runs, and repair what it needs."
        if failing
        else f"Check with `openclaw skills list` that `{name}` is there and eligible, and that its description says "
        "when to use it.",
        verification=f"Run the same task again: the skill `{name}` is opened and its steps succeed.",
    )
