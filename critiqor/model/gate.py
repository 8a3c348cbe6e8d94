"""The result of applying a policy to a run, rule by rule."""

from __future__ import annotations

import msgspec


class RuleResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one rule."""

    rule: str
    """The key of the policy."""
    limit: bool | int | float | str | list[str]
    actual: bool | int | float | str | list[str] | None
    """Null where it is unknown, or where there is nothing to compare with the limit."""
    passed: bool
    explanation: str


class GateResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a run passes its policy."""

    run_id: str
    passed: bool
    rules: list[RuleResult]
