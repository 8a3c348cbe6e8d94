"""The runs of a store that an expression selects: CEL, as in contracts, about what the manifest of a run says."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from critiqor.errors import UsageError
from critiqor.fleet.manifest import Manifest, rule_set_order
from critiqor.policy.expressions import EvaluationError, EventSize, Expression, ExpressionError, event_context

if TYPE_CHECKING:
    from collections.abc import Callable

FIELDS: dict[str, Callable[[Manifest], Any]] = {
    "host": lambda manifest: manifest.host_id,
    "run_id": lambda manifest: manifest.run_id,
    "seal": lambda manifest: manifest.seal,
    "agent_id": lambda manifest: manifest.metadata.agent_id,
    "tenant_id": lambda manifest: manifest.metadata.tenant_id,
    "visibility": lambda manifest: manifest.metadata.visibility,
    "benchmark_id": lambda manifest: manifest.metadata.benchmark_id,
    "created_at": lambda manifest: manifest.timestamps.created_at,
    "sealed_at": lambda manifest: manifest.sealed_at,
    "events": lambda manifest: manifest.events,
    "rule_set": lambda manifest: (*rule_set_order(manifest.rule_set), 0)[0],
    "verdict": lambda manifest: manifest.verdict or "",
    "critiqor_version": lambda manifest: manifest.critiqor_version,
    "openclaw_version": lambda manifest: manifest.openclaw_version or "",
    "is_signed": lambda manifest: manifest.signature is not None,
}
"""What an expression sees of a run. Times are UTC in ISO 8601, so that they are compared as texts; what is unknown is
an empty text."""


class RunSelection:
    """The runs for which an expression is true; all of them without one."""

    def __init__(self, where: str | None = None) -> None:
        """Raise `UsageError` if it is no valid expression about a run."""
        self._where = where
        if where is not None:
            _ = self._expression

    @cached_property
    def _expression(self) -> Expression | None:
        if self._where is None:
            return None
        try:
            return Expression(self._where, names={"run": tuple(FIELDS)})
        except ExpressionError as error:
            pointer = f"{self._where}\n  {' ' * error.offset}^"
            fix = "critiqor fleet diagnose --where 'run.agent_id == \"release\" && run.events > 100'"
            raise UsageError(f"--where: {error}\n  {pointer}", fix=fix) from error

    def has(self, manifest: Manifest) -> bool:
        """Return whether a run is selected. Raise `UsageError` if that cannot be known."""
        expression = self._expression
        if expression is None:
            return True
        context = event_context({"run": {name: value_of(manifest) for name, value_of in FIELDS.items()}})
        try:
            return expression.is_true(context, EventSize(len(FIELDS), len(FIELDS)))
        except EvaluationError as error:
            message = f"--where cannot be evaluated on {manifest.host_id}/{manifest.run_id}: {error}"
            raise UsageError(message, fix="critiqor fleet diagnose --help") from error
