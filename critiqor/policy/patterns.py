"""Patterns of contracts: each is checked on one session, or on one agent run, event by event."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from critiqor.policy.contract import After, Before, Contract, Never, OnlyIf
from critiqor.policy.event_values import SeenEvent
from critiqor.policy.expressions import (
    PARTS,
    EvaluationError,
    EventKind,
    EventSize,
    Expression,
    ExpressionError,
    kind_of,
)

if TYPE_CHECKING:
    from cel import Context

MAX_EARLIER = 100
"""Earlier events that are compared with later ones: the latest ones."""
MAX_OPEN = 1000
"""Events that wait for another one; of more, the first ones are violations at once."""


Fail = Callable[[SeenEvent, str, Expression], None]


class ContractError(ValueError):
    """An expression of a contract is invalid."""

    def __init__(self, error: ExpressionError, keys: tuple[str | int, ...], source: str) -> None:
        super().__init__(str(error))
        self.keys = keys
        """Keys of the contract that lead to the expression."""
        self.source = source
        self.offset = error.offset


class Alternative(NamedTuple):
    """An expression, and the kind of event on which it is evaluated."""

    expression: Expression
    kind: EventKind


class Violation(NamedTuple):
    """An event that violates a contract."""

    event: SeenEvent
    earlier: SeenEvent | None = None
    """The earlier event because of which it does."""


class CompiledContract:
    """A contract with valid expressions. Raises `ContractError` if one is invalid."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.condition: Expression | None = None
        """What a later event and the earlier one, `first`, have in common; for `only_if`, what is true of it."""
        self.other: list[Alternative] = []
        """The event that has to come before or after."""
        pattern, given = contract.pattern, getattr(contract, contract.pattern)
        if isinstance(given, str):
            self.subject = self._compile((pattern,), given)
            return
        if isinstance(given, OnlyIf):
            self.condition = _expression((pattern, "holds"), given.holds, sees_first=given.last is not None)
            self.other = self._compile_all((pattern, "last"), given.last or ())
        elif isinstance(given, Before | After | Never):
            if given.where is not None:
                self.condition = _expression((pattern, "where"), given.where, sees_first=True)
            key, other = ("after", given.after) if isinstance(given, Never) else ("needs", given.needs)
            self.other = self._compile_all((pattern, key), other, of_later=isinstance(given, After))
        of_later = not isinstance(given, After)
        self.subject = self._compile((pattern, "call"), given.call, of_later=of_later)
        self._check_first(self.other if of_later else [self.subject])

    def _compile_all(
        self, keys: tuple[str, ...], sources: str | Sequence[str], *, of_later: bool = False
    ) -> list[Alternative]:
        if isinstance(sources, str):
            return [self._compile(keys, sources, of_later=of_later)]
        return [self._compile((*keys, at), source, of_later=of_later) for at, source in enumerate(sources)]

    def _compile(self, keys: tuple[str | int, ...], source: str, *, of_later: bool = False) -> Alternative:
        """Compile an expression; `of_later`: it is about the same event as the condition, else about `first`."""
        expression = _expression(keys, source)
        condition = self.condition
        try:
            if condition is None or of_later:
                return Alternative(expression, kind_of(expression, condition.needs if condition is not None else ()))
            kind = kind_of(expression)
        except ExpressionError as error:
            raise ContractError(error, keys, source) from error
        # A call whose result is looked at later has to have one.
        is_lifted = kind == "call" and "result" in condition.needs_of_first
        return Alternative(expression, "result" if is_lifted else kind)

    def _check_first(self, earlier: list[Alternative]) -> None:
        """Check that an earlier event can have what the condition takes of it as `first`."""
        condition = self.condition
        if condition is None or not earlier:
            return
        known = frozenset[str]().union(*(PARTS[each.kind] for each in earlier))
        for part in sorted(condition.needs_of_first - known):
            kinds = " or ".join(sorted({f"a {each.kind}" for each in earlier}))
            error = ExpressionError(f"first is {kinds} here, which has no {part}", condition.source.find("first"))
            key = "holds" if self.contract.only_if is not None else "where"
            raise ContractError(error, (self.contract.pattern, key), condition.source)


def _expression(keys: tuple[str | int, ...], source: str, *, sees_first: bool = False) -> Expression:
    try:
        return Expression(source, sees_first=sees_first)
    except ExpressionError as error:
        raise ContractError(error, keys, source) from error


class Pattern(ABC):
    """A contract in one session or agent run."""

    AWAITS = False
    """Whether it can be violated because something did not happen until the end."""

    def __init__(self, compiled: CompiledContract, fail: Fail) -> None:
        """`fail` is called with an event, an expression that could not be evaluated on it, and the reason."""
        self._compiled = compiled
        self._fail = fail
        self._earlier: list[SeenEvent] = []
        """Events with which later ones are compared; for `after`, those that still need one."""
        self._count = 0
        """How often the subject has happened, if that is counted."""

    @abstractmethod
    def observe(self, event: SeenEvent, context: Context) -> list[Violation]:
        """Process the next event. Return what it violates."""

    def missing(self) -> list[SeenEvent | None]:
        """Return what would be violated if nothing more happened: by an event, or by none at all."""
        return []

    def _is_subject(self, event: SeenEvent, context: Context) -> bool:
        subject = self._compiled.subject
        return subject.kind == event.kind and self._value(subject.expression, event, context) is True

    def _is_other(self, event: SeenEvent, context: Context) -> bool:
        kinds = (each.expression for each in self._compiled.other if each.kind == event.kind)
        return any(self._value(expression, event, context) is True for expression in kinds)

    def _holds(self, event: SeenEvent, context: Context, first: SeenEvent | None = None) -> bool | None:
        """Return whether the condition holds; None if that is not known. Without a condition, it does."""
        condition = self._compiled.condition
        if condition is None:
            return True
        size = event.size
        if first is not None:
            context.add_variable("first", first.values)
            size = EventSize(size.values + first.size.values, max(size.longest, first.size.longest))
        return self._value(condition, event, context, size)

    def _value(
        self, expression: Expression, event: SeenEvent, context: Context, size: EventSize | None = None
    ) -> bool | None:
        try:
            return expression.is_true(context, size or event.size)
        except EvaluationError as error:
            self._fail(event, str(error), expression)
            return None


class NeverPattern(Pattern):
    """The subject never happens; with `after`, not after the other event."""

    def observe(self, event: SeenEvent, context: Context) -> list[Violation]:
        violations = []
        if self._is_subject(event, context):
            if not self._compiled.other:
                return [Violation(event)]
            first = next((each for each in self._earlier if self._holds(event, context, each)), None)
            violations = [Violation(event, first)] if first is not None else []
        if self._is_other(event, context):
            _keep(self._earlier, event, needs_all=self._compiled.condition is not None)
        return violations


class AlwaysPattern(Pattern):
    """The subject is true of every event of its kind."""

    def observe(self, event: SeenEvent, context: Context) -> list[Violation]:
        subject = self._compiled.subject
        if subject.kind != event.kind:
            return []
        return [Violation(event)] if self._value(subject.expression, event, context) is False else []


class RequirePattern(Pattern):
    """The subject happens at least once."""

    AWAITS = True

    def observe(self, event: SeenEvent, context: Context) -> list[Violation]:
        self._count += not self._count and self._is_subject(event, context)
        return []

    def missing(self) -> list[SeenEvent | None]:
        return [] if self._count else [None]


class BeforePattern(Pattern):
    """The subject happens only after the other event."""

    def observe(self, event: SeenEvent, context: Context) -> list[Violation]:
        violations = []
        if self._is_subject(event, context):
            found: set[bool | None] = set()
            for first in reversed(self._earlier):
                found.add(self._holds(event, context, first))
                if True in found:
                    break
            # What is not known is counted, and neither kept nor violated.
            violations = [Violation(event)] if found <= {False} else []
        if self._is_other(event, context):
            _keep(self._earlier, event, needs_all=self._compiled.condition is not None)
        return violations


class AfterPattern(Pattern):
    """The subject is followed by the other event."""

    AWAITS = True

    def observe(self, event: SeenEvent, context: Context) -> list[Violation]:
        if self._earlier and self._is_other(event, context):
            self._earlier = [first for first in self._earlier if self._holds(event, context, first) is False]
        if self._is_subject(event, context):
            self._earlier.append(event)
        if len(self._earlier) <= MAX_OPEN:
            return []
        return [Violation(self._earlier.pop(0))]

    def missing(self) -> list[SeenEvent | None]:
        return [*self._earlier]


class AtMostPattern(Pattern):
    """The subject happens at most so many times."""

    def observe(self, event: SeenEvent, context: Context) -> list[Violation]:
        if not self._is_subject(event, context):
            return []
        self._count += 1
        limit = self._compiled.contract.at_most
        return [Violation(event)] if limit is not None and self._count > limit.times else []


class OnlyIfPattern(Pattern):
    """The subject happens only if a condition holds, of it or of the last other event."""

    def observe(self, event: SeenEvent, context: Context) -> list[Violation]:
        violations = []
        if self._is_subject(event, context):
            last = self._earlier[-1] if self._earlier else None
            is_missing = bool(self._compiled.other) and last is None
            if is_missing or self._holds(event, context, last) is False:
                violations = [Violation(event, last)]
        if self._is_other(event, context):
            self._earlier = [event]
        return violations


PATTERN_CLASSES: dict[str, type[Pattern]] = {
    "never": NeverPattern,
    "always": AlwaysPattern,
    "require": RequirePattern,
    "before": BeforePattern,
    "after": AfterPattern,
    "at_most": AtMostPattern,
    "only_if": OnlyIfPattern,
}


def _keep(earlier: list[SeenEvent], event: SeenEvent, *, needs_all: bool) -> None:
    """Keep an event that later ones are compared with; without a condition, one is enough."""
    if needs_all or not earlier:
        earlier.append(event)
        del earlier[:-MAX_EARLIER]
