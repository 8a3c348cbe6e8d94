"""Contracts as a policy states them: one pattern over expressions of the Common Expression Language (CEL)."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from critiqor.model import Severity

Expression = Annotated[str, Meta(min_length=1, max_length=2000)]
"""A CEL expression about one event."""
Alternatives = Expression | Annotated[tuple[Expression, ...], Meta(min_length=1, max_length=10)]
"""One expression, or several of which one has to match."""
PatternName = Literal["never", "always", "require", "before", "after", "at_most", "only_if"]
PATTERNS: tuple[PatternName, ...] = get_args(PatternName)


class Never(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`call` never happens once `after` has happened."""

    call: Expression
    after: Alternatives
    where: Expression | None = None
    """What both events have in common: the earlier one is `first`."""


class Before(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`call` happens only if `needs` has happened before."""

    call: Expression
    needs: Alternatives
    where: Expression | None = None
    """What both events have in common: the earlier one, that of `needs`, is `first`."""


class After(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Each `call` is followed by `needs` before the end."""

    call: Expression
    needs: Alternatives
    where: Expression | None = None
    """What both events have in common: the earlier one, that of `call`, is `first`."""


class AtMost(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`call` happens at most so many times."""

    call: Expression
    times: Annotated[int, Meta(ge=0, le=1_000_000)]


class OnlyIf(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`call` happens only if `holds` is true of it."""

    call: Expression
    holds: Expression
    last: Alternatives | None = None
    """An event that must have happened before; the last one of them is `first` in `holds`."""


class Contract(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Something that must or must not happen: exactly one pattern is given."""

    id: Annotated[str, Meta(min_length=1, max_length=80, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    """Unique name; a part of the cause of its findings."""
    says: Annotated[str, Meta(max_length=300)] = ""
    """Title of its findings: what the agent did wrong, in one sentence."""
    severity: Severity = "medium"
    """Severity of its findings."""
    per: Literal["agent_run", "session"] = "session"
    """What relations and counts are about: events of one agent run, or of all agent runs of a session."""
    never: Expression | Never | None = None
    """Never happens."""
    always: Expression | None = None
    """Is true of every event that it is about."""
    require: Expression | None = None
    """Happens at least once before the end."""
    before: Before | None = None
    after: After | None = None
    at_most: AtMost | None = None
    only_if: OnlyIf | None = None

    @property
    def pattern(self) -> PatternName:
        """The name of its pattern."""
        return self.patterns[0]

    @property
    def patterns(self) -> list[PatternName]:
        """All patterns that are given: exactly one in a valid contract."""
        return [name for name in PATTERNS if getattr(self, name) is not None]
