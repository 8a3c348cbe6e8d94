"""`memory_failure`: memory that fails, finds nothing again and again, forgets, or is not made use of."""

from __future__ import annotations

import re
from collections import defaultdict

from critiqor.diagnosis.draft import Draft, cite
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, MemoryLookup, ToolCall

TYPE = "memory_failure"
EMPTY = 3
"""Lookups without a find, in an agent run in which memory found nothing at all."""
SAME = 3
"""Lookups of the very same thing."""
UNREAD = 3
"""Lookups that found something of which no word is ever used; a single one can have found the wrong thing."""
REDONE = 3
"""Lookups elsewhere that brought again what was learnt before memory was written."""
WORTH_KEEPING = 200
"""Bytes of an answer that nobody wants to look up twice."""
_MEMORY_FILE = re.compile(r"\bmemory/|\bMEMORY\.md")


def detect(run: AgentRun) -> list[Draft]:
    """What went wrong with memory in one agent run: the gravest of it."""
    lookups = run.lookups
    failed = [lookup for lookup in lookups if lookup.outcome == "error"]
    found = [lookup for lookup in lookups if lookup.outcome == "found"]
    empty = [lookup for lookup in lookups if lookup.outcome == "empty"]
    if failed and not any(lookup.order > failed[-1].order for lookup in found):
        return [_draft(run, "failing", "medium", failed, f"{counted(len(failed), 'memory lookup')} failed")]
    if len(empty) >= EMPTY and not found:
        title = f"Memory was asked {counted(len(empty), 'time')} and found nothing"
        return [_draft(run, "empty", "medium", empty, title)]
    repeated = _repeated(lookups)
    if repeated:
        title = f"Memory was asked for the same thing {counted(len(repeated), 'time')}: {repeated[0].what}"
        draft = _draft(run, "repeated", "medium", repeated, title)
        draft.wasted_steps = [lookup.step for lookup in repeated[1:] if lookup.step is not None]
        return [draft]
    unread = [lookup for lookup in found if lookup.unread]
    if len(unread) >= UNREAD and len(unread) == len(found) and _has_answered(run):
        title = f"Memory found something {counted(len(unread), 'time')}, and nothing of it was used"
        return [_draft(run, "unread", "low", unread, title)]
    return []


def detect_in_session(runs: list[AgentRun]) -> list[Draft]:
    """What went wrong with memory from one agent run of a session to the next."""
    return [*_forgotten(runs), *_redone(runs)]


def _repeated(lookups: list[MemoryLookup]) -> list[MemoryLookup]:
    same: dict[str, list[MemoryLookup]] = defaultdict(list)
    for lookup in lookups:
        if lookup.what:
            same[lookup.what].append(lookup)
    return next((group for group in same.values() if len(group) >= SAME), [])


def _has_answered(run: AgentRun) -> bool:
    """Whether it said something in which what was found could have been used."""
    reply = run.final_reply
    return reply is not None and reply.size >= WORTH_KEEPING // 2


def _forgotten(runs: list[AgentRun]) -> list[Draft]:
    """What memory knew, and no longer does, although nobody has written to it."""
    known: dict[str, MemoryLookup] = {}
    for run in runs:
        writes = [step.order for step in run.actions if _writes_memory(step)]
        for lookup in run.lookups:
            before = known.get(lookup.what)
            if lookup.outcome == "found" and lookup.what:
                known[lookup.what] = lookup
            elif lookup.outcome == "empty" and before is not None and not _between(writes, before, lookup):
                title = f"Memory no longer knows what it knew: {lookup.what}"
                return [_draft(run, "lost", "medium", [before, lookup], title)]
        if writes:
            known.clear()
    return []


def _between(writes: list[int], before: MemoryLookup, after: MemoryLookup) -> bool:
    return any(before.order < order < after.order for order in writes)


def _redone(runs: list[AgentRun]) -> list[Draft]:
    """Work that a later run did again without a look at the memory into which its outcome may have been written."""
    noted: dict[tuple[bytes, bytes], ToolCall] = {}
    written: ToolCall | None = None
    for run in runs:
        learnt = {_key(step): step for step in run.actions if _teaches(step)}
        again = [step for key, step in learnt.items() if key in noted]
        if written is not None and len(again) >= REDONE and run.is_for_user and not _consults(run):
            return [_redone_draft(run, written, [noted[_key(step)] for step in again], again)]
        writes = [step for step in run.actions if _writes_memory(step)]
        if writes:
            written = writes[-1]
            noted |= {key: step for key, step in learnt.items() if step.order < written.order}
    return []


def _key(step: ToolCall) -> tuple[bytes, bytes]:
    return (step.same_call, step.same_output)


def _teaches(step: ToolCall) -> bool:
    return step.kind is Kind.LOOKUP and not step.failed and step.output_size >= WORTH_KEEPING


def _writes_memory(step: ToolCall) -> bool:
    writes = step.kind in (Kind.CHANGE, Kind.ACTION, Kind.COMMAND)
    return writes and not step.failed and _MEMORY_FILE.search(step.arguments) is not None


def _consults(run: AgentRun) -> bool:
    return bool(run.lookups) or any(_MEMORY_FILE.search(step.arguments) for step in run.actions)


_ADVICE = {
    "failing": "Repair the memory of the agent: its provider, its index or its credentials; `openclaw doctor` "
    "checks them.",
    "lost": "Find out what removed it: an index that was rebuilt, a compaction, another session that wrote the "
    "same key.",
    "empty": "Store what the agent is expected to remember, or check that its memory is indexed where it looks.",
    "repeated": "Keep what memory answered in the context, or tell the agent that one lookup is enough.",
    "unread": "Check whether what memory finds is about the question at all, and tell the agent to use it or to "
    "say why not.",
    "redone": "Tell the agent to look into its memory before it looks anything up again.",
}
_MEANING = {
    "repeated": "One lookup would have been enough.",
    "unread": "No word that these lookups brought appears in anything that the agent said or did afterwards.",
    "lost": "It was found before, and nothing was recorded that would have removed it.",
}


def _draft(run: AgentRun, how: str, severity: Severity, lookups: list[MemoryLookup], title: str) -> Draft:
    asked = ", ".join(dict.fromkeys(f"“{lookup.what}”" for lookup in lookups[:4] if lookup.what)) or "not told"
    meaning = _MEANING.get(how, "Whatever the agent said of these things did not come from its memory.")
    bad = lookups[1] if how in ("lost", "repeated") else lookups[0]
    return Draft(
        type=TYPE,
        about=(how,),
        severity=severity,
        confidence={"failing": 85, "lost": 85, "unread": 55}.get(how, 75),
        title=excerpt(title, 160),
        explanation=f"Asked for: {asked}. {meaning}",
        evidence=cite(lookup.event_id for lookup in lookups),
        occurrences=1 if how == "lost" else len(lookups),
        first_bad_step=bad.event_id,
        chain=[
            CausalStep(lookups[0].event_id, f"looked up {lookups[0].what}: {lookups[0].outcome}", None),
            *(
                [CausalStep(lookups[-1].event_id, f"then: {lookups[-1].outcome}", "retried")]
                if len(lookups) > 1
                else []
            ),
        ],
        explains=frozenset(lookup.step.evidence for lookup in lookups if lookup.step is not None),
        scope=run.scope,
        recommendation=_ADVICE[how],
        verification="Run the same task again: the lookups find something, or are not made.",
    )


def _redone_draft(run: AgentRun, written: ToolCall, before: list[ToolCall], again: list[ToolCall]) -> Draft:
    return Draft(
        type=TYPE,
        about=("redone",),
        severity="low",
        confidence=60,
        title=f"{counted(len(again), 'lookup')} done again without a look into memory",
        explanation="An earlier run of this session made them, and wrote to its memory afterwards; this one never "
        f"looked there. The first: {excerpt(again[0].arguments, 120)}",
        evidence=cite([*(step.evidence for step in before[:2]), written.evidence, *(step.evidence for step in again)]),
        occurrences=len(again),
        first_bad_step=again[0].call,
        chain=[
            CausalStep(before[0].evidence, f"`{before[0].tool}` answered", None),
            CausalStep(written.evidence, "memory was written", "precedes"),
            CausalStep(again[0].evidence, "asked again, with the same answer", "ignored"),
        ],
        wasted_steps=again,
        scope=run.scope,
        recommendation=_ADVICE["redone"],
        verification="Run the same tasks again: the later one looks into memory first, or asks for less.",
    )
