"""Checks contracts event by event: a detector that a finished run and a run in progress share.

An expression that cannot be evaluated on an event, because a key is missing, is counted. Nothing is concluded from it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from critiqor.diagnosis.detectors import CONTRACT_VIOLATION
from critiqor.diagnosis.drafts.cited_events import CitedEvents
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep, Event, EventType, Scope
from critiqor.model.diagnosis import ContractResult
from critiqor.model.event import HOUSEKEEPING
from critiqor.model.sanitize import excerpt
from critiqor.policy.contract import Contract
from critiqor.policy.event_values import EventReader, SeenEvent
from critiqor.policy.expressions import Expression, event_context
from critiqor.policy.patterns import PATTERN_CLASSES, CompiledContract, Pattern, Violation

if TYPE_CHECKING:
    from cel import Context

MAX_SCOPES = 4096
"""Sessions or agent runs of which a contract remembers what happened: those with the latest events."""
MAX_VIOLATED = 1000
"""Agent runs of which the violations of a contract are described; those of others are counted with the last one."""
_STARTS = frozenset(("agent_start", EventType.TOOL_CALL))


class ContractChecker:
    """Checks contracts on all events of a recording, in order."""

    def __init__(self, contracts: Sequence[Contract]) -> None:
        """Raise `ContractError` if an expression is invalid."""
        self._reader = EventReader()
        self._checks = [_ContractCheck(CompiledContract(contract)) for contract in contracts]

    def observe(self, event: Event) -> None:
        """Process the next event."""
        if not self._checks or event.source_layer == "supervisor" or event.event_type in HOUSEKEEPING:
            return
        seen = self._reader.read(event)
        context = event_context(seen.values) if seen is not None else None
        scope = Scope(event.session_key, event.agent_run_id)
        for check in self._checks:
            check.note(scope, event)
            if seen is not None and context is not None:
                check.observe(seen, context)

    def findings(self, *, is_over: bool = False) -> list[Draft]:
        """Return the violations so far. What is missing is one once its agent run, or the recording, is over."""
        return [draft for check in self._checks for draft in check.findings(is_over=is_over)]

    def results(self) -> list[ContractResult]:
        """Return what became of each contract, in the order of the policy. No more events may follow."""
        return [check.result() for check in self._checks]


class _Place(msgspec.Struct):
    """One session or agent run, and what a contract remembers of it."""

    pattern: Pattern
    scope: Scope
    """The agent run of the last event."""
    last_event: str
    is_ended: bool = False
    """Whether its last agent run has ended."""


class _Violations(msgspec.Struct):
    """The violations of a contract in one agent run."""

    first: Violation
    cited: CitedEvents
    count: int = 0

    def add(self, violation: Violation) -> None:
        self.count += 1
        self.cited.add(violation.event.event_id)
        if violation.earlier is not None:
            self.cited.add(violation.earlier.event_id)


class _ContractCheck:
    """One contract, in all sessions of a recording."""

    def __init__(self, compiled: CompiledContract) -> None:
        self._contract = compiled.contract
        self._compiled = compiled
        self._class = PATTERN_CLASSES[compiled.contract.pattern]
        self._places: OrderedDict[Hashable, _Place] = OrderedDict()
        self._violations: dict[Scope, _Violations] = {}
        self._drafts: dict[Scope, Draft] = {}
        self._not_evaluated = 0
        self._problem: str | None = None
        self._problem_event: str | None = None

    def note(self, scope: Scope, event: Event) -> None:
        """Note any event of an agent: something may still be required of its session."""
        if not self._class.AWAITS:
            return
        place = self._place(scope)
        place.scope, place.last_event = scope, event.event_id
        if event.event_type in _STARTS:
            place.is_ended = False
        elif event.event_type == "agent_end":
            place.is_ended = True

    def observe(self, event: SeenEvent, context: Context) -> None:
        """Check an event."""
        for violation in self._place(event.scope).pattern.observe(event, context):
            self._add(self._violations, violation)

    def findings(self, *, is_over: bool) -> list[Draft]:
        """Return the violations so far, as one draft for each agent run."""
        return [self._known_draft(scope, found) for scope, found in self._all(is_over=is_over).items()]

    def _known_draft(self, scope: Scope, found: _Violations) -> Draft:
        """Return the draft of violations; while none is added, it is the same one."""
        if self._class.AWAITS:
            return self._draft(scope, found)  # what is missing can change without being more
        known = self._drafts.get(scope)
        if known is None or known.occurrences != found.count:
            known = self._drafts[scope] = self._draft(scope, found)
        return known

    def result(self) -> ContractResult:
        """Return what became of the contract once the recording is over."""
        return ContractResult(
            id=self._contract.id,
            definition=msgspec.to_builtins(self._contract),
            violations=sum(found.count for found in self._all(is_over=True).values()),
            not_evaluated=self._not_evaluated,
            problem=self._problem,
            problem_event=self._problem_event,
        )

    def _place(self, scope: Scope) -> _Place:
        is_of_session = self._contract.per == "session" and scope.session_key is not None
        key: Hashable = scope.session_key if is_of_session else scope
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = _Place(self._class(self._compiled, self._fail), scope, "")
            if len(self._places) > MAX_SCOPES:
                for violation in _missing(self._places.popitem(last=False)[1]):
                    self._add(self._violations, violation)
        self._places.move_to_end(key)
        return place

    def _fail(self, event: SeenEvent, reason: str, expression: Expression) -> None:
        """Count an event on which an expression could not be evaluated."""
        self._not_evaluated += 1
        if self._problem is None:
            self._problem = f"{excerpt(expression.source, 120)}: {reason}"
            self._problem_event = event.event_id

    def _all(self, *, is_over: bool) -> dict[Scope, _Violations]:
        """Return the violations by agent run, with what is missing."""
        missing = [
            violation for place in self._places.values() if is_over or place.is_ended for violation in _missing(place)
        ]
        if not missing:
            return self._violations
        found = {
            scope: msgspec.structs.replace(each, cited=each.cited.copy()) for scope, each in self._violations.items()
        }
        for violation in missing:
            self._add(found, violation)
        return found

    @staticmethod
    def _add(found: dict[Scope, _Violations], violation: Violation) -> None:
        scope = violation.event.scope
        if scope not in found and len(found) >= MAX_VIOLATED:
            scope = next(reversed(found))
        if scope not in found:
            found[scope] = _Violations(violation, CitedEvents())
        found[scope].add(violation)

    def _draft(self, scope: Scope, found: _Violations) -> Draft:
        contract, first = self._contract, found.first
        earlier = first.earlier
        steps = [CausalStep(earlier.event_id, _happened(earlier), None)] if earlier is not None else []
        steps.append(CausalStep(first.event.event_id, _happened(first.event), "caused" if steps else None))
        return Draft(
            type=CONTRACT_VIOLATION,
            about=(contract.id,),
            severity=contract.severity,
            confidence=100,
            title=contract.says or f"Violated the contract {contract.id}",
            explanation=f"The contract {contract.id} demands: {_demand(contract)}",
            evidence=found.cited.cited(),
            occurrences=found.count,
            first_bad_step=first.event.event_id,
            chain=steps,
            scope=scope,
            recommendation=(
                f"Give the agent the rule of the contract {contract.id}, or a tool that enforces it. If the run was"
                " right, correct the contract in the policy."
            ),
            verification="Run the same task again: the contract is not violated.",
        )


def _missing(place: _Place) -> list[Violation]:
    """Return what did not happen in a session, with the event that demanded it, else with the last event."""
    end = SeenEvent("message", place.last_event, place.scope, "", {})
    return [Violation(event or end) for event in place.pattern.missing()]


def _happened(event: SeenEvent) -> str:
    if not event.name:
        return "It ended"
    texts = {"call": f"`{event.name}` was called", "result": f"`{event.name}` returned"}
    return texts.get(event.kind, "The user wrote a message" if event.name == "user" else "The agent wrote a message")


def _demand(contract: Contract) -> str:
    """Return in a sentence what a contract demands."""
    given = msgspec.to_builtins(getattr(contract, contract.pattern))
    if isinstance(given, str):
        patterns = {"never": "never", "always": "always", "require": "at least once"}
        return f"{patterns[contract.pattern]} `{excerpt(given, 300)}`."
    other = given.get("needs") or given.get("after") or given.get("last") or ""
    other = " or ".join(f"`{excerpt(each, 150)}`" for each in ([other] if isinstance(other, str) else other))
    call = f"`{excerpt(given['call'], 200)}`"
    where = f", where `{excerpt(given['where'], 200)}`" if given.get("where") else ""
    match contract.pattern:
        case "before":
            return f"{call} only after {other}{where}."
        case "after":
            return f"{call} is followed by {other}{where}."
        case "never":
            return f"never {call} after {other}{where}."
        case "at_most":
            return f"{call} at most {given['times']} times."
    holds = f"`{excerpt(given['holds'], 200)}`"
    return f"{call} only if {holds}" + (f", where first is the last {other}." if given.get("last") else ".")


def contract_checker(contracts: Sequence[Contract]) -> ContractChecker | None:
    """Return the detector that checks contracts on the events of a recording; None without contracts."""
    return ContractChecker(contracts) if contracts else None


def evaluate_contracts(events: Iterable[Event], contracts: Sequence[Contract]) -> list[ContractResult]:
    """Return what becomes of contracts on the events of a recording."""
    checker = contract_checker(contracts)
    if checker is None:
        return []
    for event in events:
        checker.observe(event)
    return checker.results()
