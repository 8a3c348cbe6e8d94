"""Decides what follows a failed model call: a retry after a delay, a fallback model, or the end of the run."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from critiqor.agentloop.models.model_client import FailureKind, ModelFailureError
from critiqor.agentloop.models.model_selection import ResolvedModel
from critiqor.agentloop.settings import RetrySettings

_TRANSIENT: frozenset[FailureKind] = frozenset(("timeout", "network", "rate_limit", "server"))
"""Failures that may not happen again a moment later."""
_FINAL: frozenset[FailureKind] = frozenset(("aborted", "context", "malformed"))
"""Failures without a fallback to another model. OpenClaw ends a run at the first malformed answer."""
_MAX_RETRIES: dict[FailureKind, int] = {"timeout": 1}
"""Maximum number of retries by kind of failure: a timeout costs the whole idle limit each time."""


class Retry(NamedTuple):
    """Repeat the call with the same model."""

    delay_ms: float
    number: int
    """Number of this retry, from 1."""
    max_retries: int
    """Maximum number of retries."""


class Fallback(NamedTuple):
    """Continue with another model."""

    model: ResolvedModel


class Retries:
    """Counts the failures of the models of a run."""

    def __init__(
        self,
        settings: RetrySettings,
        models: list[ResolvedModel],
        random_number: Callable[[], float] = random.random,
    ) -> None:
        self._settings = settings
        self._models = models
        self._random_number = random_number
        self._index = 0
        self._number = 0
        self._kinds: dict[FailureKind, int] = {}

    @property
    def model(self) -> ResolvedModel:
        """The model to call next."""
        return self._models[self._index]

    def after(self, failure: ModelFailureError) -> Retry | Fallback | None:
        """Decide whether a retry or a fallback follows a failed model call; None ends the run."""
        kind = failure.kind
        seen = self._kinds[kind] = self._kinds.get(kind, 0) + 1
        delay = self._delay_ms(failure)
        most = min(self._settings.max_retries, _MAX_RETRIES.get(kind, self._settings.max_retries))
        if kind in _TRANSIENT and seen <= most and self._number < self._settings.max_retries and delay is not None:
            self._number += 1
            return Retry(delay, self._number, self._settings.max_retries)
        if kind in _FINAL or self._index + 1 >= len(self._models):
            return None
        self._index += 1
        self._number = 0
        self._kinds = {}
        return Fallback(self.model)

    def _delay_ms(self, failure: ModelFailureError) -> float | None:
        """Return the delay before a retry; None if the provider demands a longer one than the settings allow."""
        settings = self._settings
        if failure.retry_after is not None:
            demanded = failure.retry_after * 1000
            return None if demanded > settings.max_wait_ms else max(0.0, demanded)
        delay = min(settings.max_delay_ms, settings.min_delay_ms * 2.0**self._number)
        return delay * (1 + settings.jitter * (2 * self._random_number() - 1))
