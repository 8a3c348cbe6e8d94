"""`compaction_loss`: what was known before a compaction is asked for again after it, or acted against."""

from __future__ import annotations

import re
from collections import Counter

import msgspec

from critiqor.diagnosis.draft import Draft, cite
from critiqor.diagnosis.signals.text import likeness
from critiqor.model import CausalStep, Scope
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, Message, Moment, ToolCall

TYPE = "compaction_loss"
REDONE = 3
"""Lookups that were made before and brought the same answer again."""
SAME_WORDS = 0.8
MOST_COMPACTIONS = 3
"""The last ones of a session are looked at."""
MOST_MESSAGES = 50
"""Messages on either side of a compaction that are laid side by side."""
MOST_RULES = 20
"""Things that a user forbids."""
FEWEST_CHARACTERS = 20
"""A shorter message ("go on") says the same often enough."""
_FORBIDDEN = re.compile(
    r"\b(?:never|do not|don't|must not)\s+(?:ever\s+)?"
    r"(?P<deed>use|run|call|open|read|touch|edit|change|modify|delete|remove|overwrite|write to|push to|deploy to)\s+"
    r"(?:the |file |folder |command )?[`\"']?(?P<what>[\w.-]*[./_-][\w./-]*\w|(?<=[`\"'])[\w -]{4,})",
    re.IGNORECASE,
)
_READING = frozenset(("use", "run", "call", "open", "read"))


class _Loss(msgspec.Struct, kw_only=True):
    """What shows that something was lost."""

    compaction: Moment
    what: str
    about: tuple[str, ...]
    known: CausalStep
    """Where it was still known."""
    steps: list[ToolCall] = []
    messages: list[Message] = []
    contradicts: bool = False
    """It is not asked for again, but acted against."""


def detect_in_session(runs: list[AgentRun]) -> list[Draft]:
    """What the last compactions of a session cost: they happen within an agent run, or between two of them."""
    compactions = [moment for run in runs for moment in run.compactions]
    if not compactions:
        return []
    steps = sorted((step for run in runs for step in run.actions), key=lambda step: step.order)
    talks = [run.messages for run in runs if run.is_for_user]
    messages = sorted((message for talk in talks for message in talk), key=lambda message: message.order)
    for compaction in sorted(compactions, key=lambda moment: moment.order)[-MOST_COMPACTIONS:]:
        loss = (
            _contradicted(compaction, steps, messages)
            or _redone(compaction, steps, messages)
            or _asked_again(compaction, messages)
        )
        if loss is not None:
            return [_draft(_scope_of(runs, loss), loss)]
    return []


def _contradicted(compaction: Moment, steps: list[ToolCall], messages: list[Message]) -> _Loss | None:
    """Something that the user forbade, that was kept to until the compaction and was done after it."""
    told = (message for message in messages if message.is_user and message.order < compaction.order)
    rules = [(message, found) for message in told for found in _FORBIDDEN.finditer(message.text)][-MOST_RULES:]
    for message, found in rules:
        deed, what = found["deed"].lower(), found["what"]
        broken = next((step for step in steps if step.order > message.order and _does(step, deed, what)), None)
        if broken is None or broken.order < compaction.order:
            continue
        if any(one.is_user and what in one.text and one.order > compaction.order for one in messages):
            continue  # the user came back to it, and may have allowed it
        said = excerpt(found[0], 80)
        return _Loss(
            compaction=compaction,
            what=f"the agent did what it had been told not to do: {said}",
            about=("instructions", "contradicted"),
            known=CausalStep(message.event_id, f"the user said: {said}", None),
            steps=[broken],
            contradicts=True,
        )
    return None


def _does(step: ToolCall, deed: str, what: str) -> bool:
    if what not in step.arguments and what != step.tool:
        return False
    return deed in _READING or step.kind in (Kind.CHANGE, Kind.ACTION, Kind.COMMAND)


def _redone(compaction: Moment, steps: list[ToolCall], messages: list[Message]) -> _Loss | None:
    """Lookups and actions from before, once more, while nothing was changed that could have led to another answer."""
    counts = Counter(_key(step) for step in steps if step.order < compaction.order)
    before = {_key(step): step for step in steps if step.order < compaction.order and _is_worth(step)}
    later = [step for step in steps if step.order > compaction.order]
    changed = next((step.order for step in later if step.kind is Kind.CHANGE), None)
    redone = {
        _key(step): step
        for step in later
        # What was repeated before as well is a habit, and not a loss.
        if (changed is None or step.order < changed) and counts[_key(step)] == 1 and _key(step) in before
    }
    again = list(redone.values())
    acted = [step for step in again if step.kind is Kind.ACTION and not _asked_between(messages, compaction, step)]
    if len(again) < REDONE and not acted:
        return None
    first = (acted or again)[0]
    return _Loss(
        compaction=compaction,
        what=f"{counted(len(again), 'step was', 'steps were')} done again",
        about=tuple(sorted({step.tool for step in again})),
        known=CausalStep(before[_key(first)].evidence, f"known from `{first.tool}`", None),
        steps=again,
    )


def _key(step: ToolCall) -> tuple[bytes, bytes]:
    return (step.same_call, step.same_output)


def _is_worth(step: ToolCall) -> bool:
    return step.kind in (Kind.LOOKUP, Kind.ACTION) and not step.failed and step.result is not None


def _asked_between(messages: list[Message], compaction: Moment, step: ToolCall) -> bool:
    return any(message.is_user and compaction.order < message.order < step.order for message in messages)


def _asked_again(compaction: Moment, messages: list[Message]) -> _Loss | None:
    """What the user had to say a second time, or was asked a second time by the agent."""
    told = [message for message in messages if message.size > FEWEST_CHARACTERS and not message.asks_tools]
    earlier = [message for message in told if message.order < compaction.order][-MOST_MESSAGES:]
    later = [message for message in told if message.order > compaction.order][:MOST_MESSAGES]
    for message in later:
        same = [
            before
            for before in earlier
            if before.is_user == message.is_user and likeness(message.text, before.text) >= SAME_WORDS
        ]
        # What was said over and over before is a habit, or a job that comes by the clock.
        if len(same) != 1 or not (message.is_user or message.asks_user):
            continue
        if not _was_answered(messages, same[0], message):
            continue
        return _Loss(
            compaction=compaction,
            what="the user had to repeat what was said" if message.is_user else "the agent asked its user once more",
            about=("instructions",),
            known=CausalStep(same[0].event_id, "said before", None),
            messages=[message],
        )
    return None


def _was_answered(messages: list[Message], before: Message, again: Message) -> bool:
    """Whether the other one spoke in between: what is sent once more after a compaction is the same message."""
    return any(one.is_user != before.is_user and before.order < one.order < again.order for one in messages)


def _scope_of(runs: list[AgentRun], loss: _Loss) -> Scope:
    order = (loss.steps or loss.messages)[0].order
    return next((run.scope for run in runs if order <= run.last_order), runs[-1].scope)


def _draft(scope: Scope, loss: _Loss) -> Draft:
    compaction = loss.compaction.event_id
    first = loss.steps[0].call if loss.steps else loss.messages[0].event_id
    shown = [*(step.evidence for step in loss.steps), *(message.event_id for message in loss.messages)]
    lost = loss.steps[0].arguments if loss.steps else loss.messages[0].text
    return Draft(
        type=TYPE,
        about=loss.about,
        severity="medium",
        confidence=70,
        title=f"After a compaction {loss.what}",
        explanation=f"The summary did not hold what had been known: {excerpt(lost, 120)}",
        evidence=cite([loss.known.event_id, compaction, *shown]),
        occurrences=len(shown),
        first_bad_step=first,
        chain=[
            loss.known,
            CausalStep(compaction, "the context was compacted", "precedes"),
            CausalStep(first, "done all the same", "contradicted")
            if loss.contradicts
            else CausalStep(first, "asked for again", "caused"),
        ],
        wasted_steps=[] if loss.contradicts else loss.steps,
        scope=scope,
        recommendation="Write facts and instructions that must survive into memory or a file before the context "
        "is compacted, and keep large results out of it so that it is compacted less often.",
        verification="Run the same task again: no step of before the compaction is repeated after it.",
    )
