"""`premature_stop`: work that was announced or planned was never done, and the run ended as if complete."""

from __future__ import annotations

import re

from critiqor.diagnosis.draft import Draft, cite
from critiqor.model import CausalStep
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Message

TYPE = "premature_stop"
_CUT = frozenset(("length", "max_tokens", "maxtokens"))
# Who waits for an answer, or for something to happen, has not stopped too early.
_WAITS = re.compile(
    r"\?|\b(?:if|once|when|whenever|after|until|unless|as soon as|let me know|tell me|confirm|approv\w+|go ahead"
    r"|proceed|later|tomorrow|tonight|next time|keep|remember|monitor|watch|stand by|await\w*|notify|remind"
    r"|report back)\b",
    re.IGNORECASE,
)
_LATER = ("cron", "automation", "schedul", "remind", "spawn", "subagent", "yield")
"""Tools by which an agent has something done later, or by somebody else."""


def detect(run: AgentRun) -> list[Draft]:
    """How one agent run ended, against what its last message and its plan say."""
    end = run.last_end
    if end is None or end.status == "error" or run.was_stopped:
        return []
    if not run.messages or run.messages[-1].is_user:
        return []
    last = run.messages[-1]
    if (last.stop_reason or "").lower() in _CUT:
        return [_draft(run, last, "cut", "The last answer was cut off by the model's output limit", 90)]
    if last.asks_tools:
        unheard = not any(step.order > last.order for step in run.tool_calls)
        title = "The last message asks for tools that were never run"
        return [_draft(run, last, "unexecuted", title, 75)] if unheard else []
    if _goes_on(run):
        return []
    if last.plans_work and not _WAITS.search(last.ending):
        return [_draft(run, last, "announced", "The run ended right after announcing its next step", 65)]
    return _planned(run, last)


def _goes_on(run: AgentRun) -> bool:
    """Whether it has handed its work on to a later run, or to a subagent."""
    return any(word in step.tool.lower() for step in run.actions if not step.failed for word in _LATER)


def _planned(run: AgentRun, last: Message) -> list[Draft]:
    """Steps of its own plan that the agent never called done, and says nothing about."""
    plan = run.plan
    if plan is None or not plan.pending or last.admits_failure or last.asks_user or not last.text:
        return []
    if any(message.is_user and message.order > plan.order for message in run.messages):
        return []  # the user wanted something else meanwhile
    # Whoever forgets to tick off has at least done something for each; to report needs no step.
    if sum(step.order > plan.order for step in run.actions) >= plan.pending - 1:
        return []
    title = f"The run ended with {counted(plan.pending, 'step')} of its own plan not done"
    draft = _draft(run, last, "planned", title, 70)
    draft.evidence = cite([plan.event_id, *draft.evidence])
    draft.first_bad_step = plan.event_id
    draft.chain = [CausalStep(plan.event_id, "the plan, as it was last written", None), *draft.chain]
    draft.chain[1] = CausalStep(last.event_id, title, "ignored")
    return [draft]


def _draft(run: AgentRun, last: Message, how: str, title: str, confidence: int) -> Draft:
    end = run.last_end
    ended = [CausalStep(end.event_id, "the run ended as if complete", "precedes")] if end is not None else []
    return Draft(
        type=TYPE,
        about=(how,),
        severity="medium",
        confidence=confidence,
        title=title,
        explanation=f"Its last words: “{excerpt(last.ending or last.text, 160)}”",
        evidence=cite([last.event_id, *(step.event_id for step in ended)]),
        first_bad_step=last.event_id,
        chain=[CausalStep(last.event_id, title, None), *ended],
        scope=run.scope,
        recommendation="Raise the output limit of the model."
        if how == "cut"
        else "Tell the agent to go on until its list of steps is done, and to end with a summary of what was done.",
        verification="Run the same task again: the last message reports, and announces nothing.",
    )
