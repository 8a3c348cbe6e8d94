"""`subagent_failure`: a subagent failed or timed out, or its parent reported success while it was still running."""

from __future__ import annotations

import re
from typing import NamedTuple

from critiqor.diagnosis.claims.language import language_of
from critiqor.diagnosis.claims.speech import Speech
from critiqor.diagnosis.detector import RecordingDetector
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Message, Moment

TYPE = "subagent_failure"
MEANING = "a subagent failed, timed out, or was reported as done while it was still running"
_BAD = frozenset(("error", "failed", "timeout", "timed_out", "killed", "aborted"))
_CHILD = re.compile(r"\bsub-?agents?\b")
"""What a parent says of its subagents is no report on their work: it started one."""
_CHILD_KEYS = ("childSessionKey", "targetSessionKey", "child_session_key", "childRunId", "runId")


class _Child(NamedTuple):
    """A subagent."""

    name: str
    parent: AgentRun
    """The agent run that started the subagent; if unknown, the agent run that reported it."""
    begun: str
    """Id of the event that started the subagent."""
    begun_at: int
    """Order of the event that started the subagent."""
    end: Moment | None


class SubagentFailure(RecordingDetector):
    """Checks the agent runs that started or report subagents, which `Recording` keeps.

    Start and end of a subagent are often reported in different agent runs, so parents and subagents are matched when
    findings are requested.
    """

    def findings(self) -> list[Draft]:
        drafts = []
        for children in _children_by_parent(self._recording.runs_with_subagents):
            parent, reply = children[0].parent, children[0].parent.final_reply
            failed = [child for child in children if child.end is not None and _is_bad(child.end)]
            if failed:
                drafts.append(_failed(parent, failed, all_failed=len(failed) == len(children)))
            elif reply is not None and _reports_completion(reply.text):
                waiting = [child for child in children if _was_running(child, reply)]
                drafts += [_unfinished(parent, waiting, reply)] if waiting else []
        return drafts


def _reports_completion(text: str) -> bool:
    """Return whether a text only says that something is done, not that anything is left, planned or went wrong."""
    stances = Speech(text, language_of(text)).stances
    return any(stance.is_good_news and not _CHILD.search(stance.lowered) for stance in stances) and not any(
        stance.is_bad_news or stance.is_limited or stance.is_plan or stance.is_question for stance in stances
    )


def _children_by_parent(runs: list[AgentRun]) -> list[list[_Child]]:
    """Return the subagents, grouped by the agent run that started them.

    OpenClaw reports a subagent under its own session key; the agent run with the call that started it is the parent.
    """
    begun: dict[str, tuple[AgentRun, str, int]] = {}
    ends: dict[str, Moment] = {}
    for run in runs:
        for moment in run.moments_of("subagent_spawned", "subagent_ended"):
            name = _child_name(moment)
            if moment.event_type == "subagent_ended":
                ends[name] = moment
            begun.setdefault(name, (run, moment.event_id, moment.order))
    for run in runs:
        for name, call in run.children.items():
            begun[name] = (run, call.evidence, call.order)
    by_parent: dict[int, list[_Child]] = {}
    for name, (parent, event_id, order) in begun.items():
        by_parent.setdefault(id(parent), []).append(_Child(name, parent, event_id, order, ends.get(name)))
    return list(by_parent.values())


def _child_name(event: Moment) -> str:
    return next((str(event.payload[key]) for key in _CHILD_KEYS if event.payload.get(key)), event.event_id)


def _outcome(event: Moment) -> str:
    return str(event.payload.get("outcome") or event.payload.get("status") or "")


def _is_bad(end: Moment) -> bool:
    return end.status == "error" or _outcome(end) in _BAD


def _was_running(child: _Child, reply: Message) -> bool:
    """Return whether a subagent was still running when its parent answered."""
    if child.parent.scope.session_key == child.name or child.begun_at > reply.order:
        return False
    return child.end is None or child.end.order > reply.order


def _failed(parent: AgentRun, failed: list[_Child], *, all_failed: bool) -> Draft:
    ends = [child.end for child in failed if child.end is not None]
    reasons = ", ".join(dict.fromkeys(excerpt(end.error or _outcome(end), 60) for end in ends[:3]))
    killed = all(_outcome(end) == "killed" for end in ends)
    # If other subagents succeeded, or the user stopped this one, the work may still be complete.
    severity: Severity = "medium" if all_failed and not killed else "low"
    title = f"{counted(len(failed), 'subagent')} failed: {reasons}"
    begun = [child.begun for child in failed]
    return _draft(parent, "failed", severity, title, begun, [end.event_id for end in ends])


def _unfinished(parent: AgentRun, waiting: list[_Child], reply: Message) -> Draft:
    running = counted(len(waiting), "subagent was", "subagents were")
    title = f"The agent reported its work as done while {running} still running"
    return _draft(parent, "unfinished", "medium", title, [child.begun for child in waiting], [reply.event_id])


def _draft(parent: AgentRun, how: str, severity: Severity, title: str, begun: list[str], ends: list[str]) -> Draft:
    unfinished = how == "unfinished"
    then = [CausalStep(ends[0], title, "ignored" if unfinished else "caused")] if ends[0] != begun[0] else []
    return Draft(
        type=TYPE,
        about=(how,),
        severity=severity,
        confidence=65 if unfinished else 80,
        title=title,
        explanation="The subagent's part of the work is missing from the parent's result.",
        evidence=cite_events([*begun, *ends]),
        occurrences=len(begun),
        first_bad_step=ends[0],
        chain=[CausalStep(begun[0], "A subagent was started" if then else title, None), *then],
        scope=parent.scope,
        recommendation="Have the parent wait for its subagents and check how they ended before it answers.",
        verification="Run the same task again: every subagent succeeds before the parent answers.",
    )
