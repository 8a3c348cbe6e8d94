"""The gate's answer: is a run as its policy wants it, rule by rule."""

from __future__ import annotations

import msgspec


class RuleResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to one rule."""

    rule: str
    """The key of the policy."""
    limit: bool | int | float | str | list[str]
    actual: bool | int | float | str | list[str] | None
    """Null where it is unknown, or where there is nothing to hold against the limit."""
    passed: bool
    explanation: str


class GateResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a run is as its policy wants it."""

    run_id: str
    passed: bool
    rules: list[RuleResult]
