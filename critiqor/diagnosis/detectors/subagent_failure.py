"""`subagent_failure`: a child that failed, timed out, or was declared complete when it was not."""

from __future__ import annotations

from typing import NamedTuple

from critiqor.diagnosis.draft import Draft, cite
from critiqor.diagnosis.recording import Recording
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Claim, Message, Moment

TYPE = "subagent_failure"
_BAD = frozenset(("error", "failed", "timeout", "timed_out", "killed", "aborted"))
_CHILD_NAMES = ("childSessionKey", "targetSessionKey", "child_session_key", "childRunId", "runId")


class _Child(NamedTuple):
    name: str
    parent: AgentRun
    """The run that started it; its own where that is not known."""
    begun: str
    """The event that started it."""
    begun_at: int
    end: Moment | None


def detect(recording: Recording) -> list[Draft]:
    """Children that did not do their part, by the agent run that started them."""
    drafts = []
    for children in _families(recording):
        parent, reply = children[0].parent, children[0].parent.final_reply
        failed = [child for child in children if child.end is not None and _is_bad(child.end)]
        if failed:
            drafts.append(_failed(parent, failed, len(failed) == len(children)))
        elif reply is not None and Claim.DONE in reply.claims:
            waiting = [child for child in children if _was_open(child, reply)]
            drafts += [_unfinished(parent, waiting, reply)] if waiting else []
    return drafts


def _families(recording: Recording) -> list[list[_Child]]:
    """The children of each agent run that has any.

    OpenClaw tells of a child under the child's own name; who started it is known from the answer to the call that did.
    """
    begun: dict[str, tuple[AgentRun, str, int]] = {}
    ends: dict[str, Moment] = {}
    for run in recording.runs:
        for moment in run.moments_of("subagent_spawned", "subagent_ended"):
            name = _child(moment)
            if moment.event_type == "subagent_ended":
                ends[name] = moment
            begun.setdefault(name, (run, moment.event_id, moment.order))
    for run in recording.runs:
        for name, step in run.children.items():
            begun[name] = (run, step.evidence, step.order)
    families: dict[int, list[_Child]] = {}
    for name, (parent, event_id, order) in begun.items():
        families.setdefault(id(parent), []).append(_Child(name, parent, event_id, order, ends.get(name)))
    return list(families.values())


def _child(event: Moment) -> str:
    return next((str(event.payload[name]) for name in _CHILD_NAMES if event.payload.get(name)), event.event_id)


def _outcome(event: Moment) -> str:
    return str(event.payload.get("outcome") or event.payload.get("status") or "")


def _is_bad(end: Moment) -> bool:
    return end.status == "error" or _outcome(end) in _BAD


def _was_open(child: _Child, reply: Message) -> bool:
    """Whether a child still worked when its parent spoke."""
    if child.parent.scope.session_key == child.name or child.begun_at > reply.order:
        return False
    return child.end is None or child.end.order > reply.order


def _failed(parent: AgentRun, failed: list[_Child], all_of_them: bool) -> Draft:
    ends = [child.end for child in failed if child.end is not None]
    reasons = ", ".join(dict.fromkeys(excerpt(end.error or _outcome(end), 60) for end in ends[:3]))
    killed = all(_outcome(end) == "killed" for end in ends)
    # Where others did their part, or somebody ended it on purpose, the work may be complete all the same.
    severity: Severity = "medium" if all_of_them and not killed else "low"
    title = f"{counted(len(failed), 'subagent')} failed: {reasons}"
    begun = [child.begun for child in failed]
    return _draft(parent, "failed", severity, 80, title, begun, [end.event_id for end in ends])


def _unfinished(parent: AgentRun, waiting: list[_Child], reply: Message) -> Draft:
    title = f"The agent reported its work as done while {counted(len(waiting), 'subagent')} still worked"
    return _draft(parent, "unfinished", "medium", 65, title, [child.begun for child in waiting], [reply.event_id])


def _draft(
    parent: AgentRun, how: str, severity: Severity, confidence: int, title: str, begun: list[str], ends: list[str]
) -> Draft:
    then = [CausalStep(ends[0], title, "ignored" if how == "unfinished" else "caused")] if ends[0] != begun[0] else []
    return Draft(
        type=TYPE,
        about=(how,),
        severity=severity,
        confidence=confidence,
        title=title,
        explanation="What the child was asked to do is missing from the work of its parent.",
        evidence=cite([*begun, *ends]),
        occurrences=len(begun),
        first_bad_step=ends[0],
        chain=[CausalStep(begun[0], "a subagent was started" if then else title, None), *then],
        scope=parent.scope,
        recommendation="Have the parent wait for its children and read how they ended before it answers.",
        verification="Run the same task again: every subagent ends well before the parent answers.",
    )
