"""`memory_failure`: memory lookups that fail, repeatedly find nothing, lose entries, or are not used."""

from __future__ import annotations

import re
from typing import NamedTuple

from critiqor.diagnosis.collections.orders import Orders
from critiqor.diagnosis.collections.recent import Recent
from critiqor.diagnosis.detector import RunDetector, SessionDetector
from critiqor.diagnosis.drafts.call_costs import CallCosts, costs_of
from critiqor.diagnosis.drafts.cited_events import CitedEvents, cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep, Scope, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Kind, MemoryLookup, ToolCall

TYPE = "memory_failure"
MEANING = "memory lookups that fail, repeatedly find nothing, or lose entries"
MIN_EMPTY_LOOKUPS = 3
"""Minimum number of lookups without a result, in an agent run in which no lookup found anything."""
MIN_SAME_LOOKUPS = 3
"""Minimum number of lookups with the same query."""
MIN_UNUSED_LOOKUPS = 3
"""Minimum number of lookups whose results were never used; a single one may have found something irrelevant."""
MIN_REPEATED_LOOKUPS = 3
"""Minimum number of lookups outside memory that repeat what an earlier agent run already found."""
MAX_FOUND = 64
"""Maximum number of lookups whose results are searched for in what the agent said: with more, some were used."""
MAX_NAMED = 4
"""Maximum number of lookups that an explanation names."""
MAX_KNOWN = 512
"""Number of queries of a session, and of lookups before a write to memory, that are remembered at least."""
MIN_RESULT_BYTES = 200
"""Minimum size in bytes of a result that is worth remembering."""
_MEMORY_FILE = re.compile(r"\bmemory/|\bMEMORY\.md")


class _Lookups:
    """Lookups that belong to one finding."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[MemoryLookup] = []
        """The first lookups, at most `MAX_NAMED`."""
        self.last: MemoryLookup | None = None
        self.citations = CitedEvents()
        self.calls = Orders()
        """Their tool calls."""
        self.wasted = CallCosts()
        """The tool calls of all lookups but the first."""

    def add(self, lookup: MemoryLookup) -> None:
        if lookup.tool_call is not None:
            self.calls.add(lookup.tool_call.order)
            if self.count:
                self.wasted.add_tool_call(lookup.tool_call)
        if self.count < MAX_NAMED:
            self.first.append(lookup)
        self.count += 1
        self.last = lookup
        self.citations.add(lookup.event_id)


class MemoryFailure(RunDetector[MemoryLookup]):
    """Groups the memory lookups of an agent run by outcome and query, and reports the most severe problem."""

    NEEDS = (MemoryLookup,)
    OBSERVES = (MemoryLookup,)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._failed = _Lookups()
        self._empty = _Lookups()
        self._found: list[MemoryLookup] = []
        """The first lookups that found something, at most `MAX_FOUND`."""
        self._founds = 0
        """Number of lookups that found something."""
        self._found_last = 0
        """Position of the last lookup that found something."""
        self._same: Recent[str, _Lookups] = Recent()
        self._repeated: _Lookups | None = None
        """Lookups of the query that was repeated often enough; if there are several, of the one made first."""

    def observe(self, span: MemoryLookup, /) -> None:
        if span.outcome == "error":
            self._failed.add(span)
        elif span.outcome == "empty" or (span.tool_call is not None and span.tool_call.nothing_found):
            self._empty.add(span)
        elif span.outcome == "found":
            self._found_last = span.order
            self._founds += 1
            if len(self._found) < MAX_FOUND:
                self._found.append(span)
        if span.what:
            same = self._same[span.what] = self._same.get(span.what) or _Lookups()
            same.add(span)
            earliest = self._repeated
            if same.count == MIN_SAME_LOOKUPS and (earliest is None or same.first[0].order < earliest.first[0].order):
                self._repeated = same

    def findings(self) -> list[Draft]:
        failed, empty, found, repeated = self._failed.last, self._empty.count, self._found, self._repeated
        if failed is not None and self._found_last <= failed.order:
            title = f"{counted(self._failed.count, 'memory lookup')} failed"
            return [self._draft("failing", "medium", self._failed, title)]
        if empty >= MIN_EMPTY_LOOKUPS and not found:
            title = f"{counted(empty, 'memory lookup')} found nothing"
            return [self._draft("empty", "medium", self._empty, title)]
        if repeated is not None:
            title = f"The same memory lookup was made {counted(repeated.count, 'time')}: {repeated.first[0].what}"
            draft = self._draft("repeated", "medium", repeated, title)
            draft.wasted_tool_calls = repeated.wasted
            return [draft]
        unused = MIN_UNUSED_LOOKUPS <= self._founds == len(found) and all(lookup.unread for lookup in found)
        if unused and self._has_answered():
            title = f"{counted(len(found), 'memory lookup')} found something, but none of it was used"
            unread = _Lookups()
            for lookup in found:
                unread.add(lookup)
            return [self._draft("unread", "low", unread, title)]
        return []

    def _has_answered(self) -> bool:
        """Return whether there is an answer that could have used the results."""
        reply = self.run.final_reply
        return reply is not None and reply.size >= MIN_RESULT_BYTES // 2

    def _draft(self, how: str, severity: Severity, lookups: _Lookups, title: str) -> Draft:
        return _draft(self.run.scope, how, severity, lookups, title)


class ForgottenMemory(SessionDetector[MemoryLookup | ToolCall]):
    """Detects a query that found something earlier in the session and nothing later, without a write to memory in
    between."""

    OBSERVES = (MemoryLookup, ToolCall)

    def __init__(self) -> None:
        self._scope = Scope()
        self._known: Recent[str, MemoryLookup] = Recent(MAX_KNOWN)
        self._written = 0
        """Order of the last call of this agent run that wrote to memory."""
        self._lost: list[Draft] = []

    @classmethod
    def is_needed(cls, runs: list[AgentRun]) -> bool:
        return any(run.lookups for run in runs)

    def begin_run(self, run: AgentRun) -> None:
        self._scope = run.scope
        if self._written:
            self._known.clear()
        self._written = 0

    def fork(self) -> ForgottenMemory:
        same = ForgottenMemory()
        same._scope, same._known, same._written, same._lost = self._scope, self._known.copy(), self._written, self._lost
        return same

    def observe(self, span: MemoryLookup | ToolCall, /) -> None:
        if isinstance(span, ToolCall):
            if _writes_memory(span):
                self._written = span.order
            return
        before = self._known.get(span.what)
        if span.outcome == "found" and span.what:
            self._known[span.what] = span
        elif span.outcome == "empty" and before is not None and self._written < before.order and not self._lost:
            both = _Lookups()
            both.add(before)
            both.add(span)
            title = f"Memory no longer finds what it found before: {span.what}"
            self._lost = [_draft(self._scope, "lost", "medium", both, title)]

    def findings(self) -> list[Draft]:
        return self._lost


class _Noted(NamedTuple):
    """A lookup that may be repeated."""

    order: int
    evidence: str
    tool: str


class _RunMemory:
    """The lookups of one agent run, and its use of memory."""

    def __init__(self, run: AgentRun) -> None:
        self.run = run
        self.calls: Recent[bytes, _Noted] = Recent(MAX_KNOWN)
        """Lookups, by the fingerprints of call and output."""
        self.again: dict[bytes, tuple[_Noted, ToolCall]] = {}
        """Calls that an earlier agent run had made before it wrote to memory, with the earlier ones."""
        self.written: ToolCall | None = None
        self.consults_memory = False

    def copy(self) -> _RunMemory:
        same = _RunMemory(self.run)
        same.calls, same.again = self.calls.copy(), self.again.copy()
        same.written, same.consults_memory = self.written, self.consults_memory
        return same


class RedoneLookups(SessionDetector[MemoryLookup | ToolCall]):
    """Detects an agent run that repeats lookups without reading the memory that an earlier agent run wrote."""

    OBSERVES = (MemoryLookup, ToolCall)

    def __init__(self) -> None:
        self._noted: Recent[bytes, _Noted] = Recent(MAX_KNOWN)
        """Calls that earlier agent runs made before they wrote to memory."""
        self._written: ToolCall | None = None
        self._current: _RunMemory | None = None
        self._redone: list[Draft] = []

    @classmethod
    def is_needed(cls, runs: list[AgentRun]) -> bool:
        return len(runs) > 1

    def begin_run(self, run: AgentRun) -> None:
        self._redone = self.findings()
        past = self._current
        if past is not None and past.written is not None:
            self._written = past.written
            for key, call in past.calls.items():
                if call.order < past.written.order:
                    self._noted[key] = call
        self._current = _RunMemory(run)

    def fork(self) -> RedoneLookups:
        same = RedoneLookups()
        same._noted, same._written, same._redone = self._noted.copy(), self._written, self._redone
        same._current = self._current.copy() if self._current is not None else None
        return same

    def observe(self, span: MemoryLookup | ToolCall, /) -> None:
        current = self._current
        if current is None:
            return
        if isinstance(span, MemoryLookup):
            current.consults_memory = True
            return
        if _names_memory(span):
            current.consults_memory = True
            if _writes_memory(span):
                current.written = span
        if span.kind is Kind.LOOKUP and not span.failed and span.output_size >= MIN_RESULT_BYTES:
            key = span.same_call + span.same_output
            current.calls[key] = _Noted(span.order, span.evidence, span.tool)
            noted = self._noted.get(key)
            if noted is not None and (key in current.again or len(current.again) < MAX_KNOWN):
                current.again[key] = (noted, span)

    def findings(self) -> list[Draft]:
        current = self._current
        if self._redone or current is None or self._written is None or len(current.again) < MIN_REPEATED_LOOKUPS:
            return self._redone
        if current.consults_memory or not current.run.is_for_user:
            return []
        before = [noted for noted, _ in current.again.values()]
        again = [call for _, call in current.again.values()]
        return [_redone_draft(current.run.scope, self._written, before, again)]


def _writes_memory(call: ToolCall) -> bool:
    return _names_memory(call) and call.kind in (Kind.CHANGE, Kind.ACTION, Kind.COMMAND) and not call.failed


def _names_memory(call: ToolCall) -> bool:
    """Return whether the arguments of a call name a file of the agent's memory."""
    arguments = call.arguments
    # Few do, and `in` is much faster than a search.
    may_name = "memory/" in arguments or "MEMORY.md" in arguments
    return may_name and _MEMORY_FILE.search(arguments) is not None


_ADVICE = {
    "failing": "Fix the agent's memory: its provider, index or credentials. `openclaw doctor` checks them.",
    "lost": "Find out what removed the entry: an index that was rebuilt, a compaction, or another session that wrote "
    "the same key.",
    "empty": "Store what the agent is expected to remember, or check that its memory is indexed where it looks.",
    "repeated": "Keep the result of a memory lookup in the context, or tell the agent that one lookup is enough.",
    "unread": "Check whether the results are relevant to the question, and instruct the agent to use them or to say "
    "why not.",
    "redone": "Instruct the agent to check its memory before it looks anything up again.",
}
_MEANING = {
    "repeated": "One lookup would have been enough.",
    "unread": "Nothing that the agent said or did afterwards contains a word of these results.",
    "lost": "It was found before, and no recorded call removed it.",
}


def _draft(scope: Scope, how: str, severity: Severity, group: _Lookups, title: str) -> Draft:
    lookups, last = group.first, group.last or group.first[-1]
    queries = ", ".join(dict.fromkeys(f"“{lookup.what}”" for lookup in lookups if lookup.what)) or "not recorded"
    meaning = _MEANING.get(how, "The agent's statements about this did not come from its memory.")
    bad = lookups[1] if how in ("lost", "repeated") else lookups[0]
    return Draft(
        type=TYPE,
        about=(how,),
        severity=severity,
        confidence={"failing": 85, "lost": 85, "unread": 55}.get(how, 75),
        title=excerpt(title, 160),
        explanation=f"Queries: {queries}. {meaning}",
        evidence=group.citations.cited(),
        occurrences=1 if how == "lost" else group.count,
        first_bad_step=bad.event_id,
        chain=[
            CausalStep(lookups[0].event_id, f"Looked up {lookups[0].what}: {lookups[0].outcome}", None),
            *([CausalStep(last.event_id, f"Later: {last.outcome}", "retried")] if group.count > 1 else []),
        ],
        explained_calls=group.calls,
        scope=scope,
        recommendation=_ADVICE[how],
        verification="Run the same task again: the lookups find something, or are not made.",
    )


def _redone_draft(scope: Scope, written: ToolCall, before: list[_Noted], again: list[ToolCall]) -> Draft:
    return Draft(
        type=TYPE,
        about=("redone",),
        severity="low",
        confidence=60,
        title=f"{counted(len(again), 'lookup')} repeated without checking memory",
        explanation="An earlier agent run of this session made the same lookups and then wrote to memory; this one "
        f"never checked it. The first one: {excerpt(again[0].arguments, 120)}",
        evidence=cite_events(
            [*(call.evidence for call in before[:2]), written.evidence, *(call.evidence for call in again)]
        ),
        occurrences=len(again),
        first_bad_step=again[0].call,
        chain=[
            CausalStep(before[0].evidence, f"`{before[0].tool}` returned a result", None),
            CausalStep(written.evidence, "Memory was written", "precedes"),
            CausalStep(again[0].evidence, "Looked up again, with the same result", "ignored"),
        ],
        wasted_tool_calls=costs_of(again),
        scope=scope,
        recommendation=_ADVICE["redone"],
        verification="Run the same tasks again: the later one checks memory first, or looks up less.",
    )
