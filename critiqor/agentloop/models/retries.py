"""What follows on a failed model call: the same model again after a pause, the next model, or the end."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from critiqor.agentloop.configuration import ResolvedModel
from critiqor.agentloop.models.model_client import FailureKind, ModelFailureError
from critiqor.agentloop.settings import RetrySettings

_PASSING: frozenset[FailureKind] = frozenset(("timeout", "network", "rate_limit", "server"))
"""Failures that may be gone a moment later."""
_FINAL: frozenset[FailureKind] = frozenset(("aborted", "context", "malformed"))
"""Failures that no other model is asked for. OpenClaw ends a run at the first answer that makes no sense."""
_AT_MOST: dict[FailureKind, int] = {"timeout": 1}
"""A model that keeps silent costs its whole idle time each time."""
_REASONS: dict[FailureKind, str] = {"server": "server_error", "context": "context_overflow", "malformed": "format"}


class Retry(NamedTuple):
    """Ask the same model again."""

    delay_ms: float
    number: int
    """Of this retry, from 1."""
    most: int


class Fallback(NamedTuple):
    """Go on with another model."""

    model: ResolvedModel


def reason_of(kind: FailureKind) -> str:
    """A kind of failure in OpenClaw's word for it."""
    return _REASONS.get(kind, kind)


class Retries:
    """The models of a run and how often they failed it."""

    def __init__(
        self,
        settings: RetrySettings,
        models: list[ResolvedModel],
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings
        self._models = models
        self._chance = chance
        self._index = 0
        self._number = 0
        self._kinds: dict[FailureKind, int] = {}

    @property
    def model(self) -> ResolvedModel:
        """Who is asked now."""
        return self._models[self._index]

    def after(self, failure: ModelFailureError) -> Retry | Fallback | None:
        """What to do about a failure; None for nothing more."""
        kind = failure.kind
        seen = self._kinds[kind] = self._kinds.get(kind, 0) + 1
        delay = self._delay_ms(failure)
        most = min(self._settings.max_retries, _AT_MOST.get(kind, self._settings.max_retries))
        if kind in _PASSING and seen <= most and self._number < self._settings.max_retries and delay is not None:
            self._number += 1
            return Retry(delay, self._number, self._settings.max_retries)
        if kind in _FINAL or self._index + 1 >= len(self._models):
            return None
        self._index += 1
        self._number = 0
        self._kinds = {}
        return Fallback(self.model)

    def _delay_ms(self, failure: ModelFailureError) -> float | None:
        """How long to wait; None for longer than is worth it."""
        settings = self._settings
        if failure.retry_after is not None:
            asked = failure.retry_after * 1000
            return None if asked > settings.max_wait_ms else max(0.0, asked)
        delay = min(settings.max_delay_ms, settings.min_delay_ms * 2.0**self._number)
        return delay * (1 + settings.jitter * (2 * self._chance() - 1))
