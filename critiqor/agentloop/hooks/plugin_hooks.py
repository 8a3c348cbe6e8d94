"""Plugin hooks: points in the loop where plugins observe or decide, by the rules of OpenClaw's typed hooks.

A handler is a function `(event, context) -> dict | None`, sync or async. Higher priorities run first, equal ones in
order of registration. Each handler gets the original event, not the changes of other handlers. `hook_rules` defines
what it may decide: a gate stops at the first `block` or `cancel` that is true, and false decides nothing.

A handler that fails or times out is ignored, except at the gates before a run, a tool call or an installation: those
fail closed.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from critiqor.agentloop.hooks.hook_rules import Decision, Rule, get_rule

Event = dict[str, Any]
Handler = Callable[[Event, Event], Decision | Awaitable[Decision | None] | None]
_KEPT_FAILURES = 100


class HookFailure(NamedTuple):
    """A failure of a handler."""

    hook: str
    reason: str


class _Registration(NamedTuple):
    handler: Handler
    priority: int
    timeout: float | None


class PluginHooks:
    """The registered handlers of all hooks."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[_Registration]] = {}
        self.failures: list[HookFailure] = []
        """The latest failures, to find out why a plugin has no effect."""
        self.on_failure: Callable[[HookFailure], None] | None = None
        """Called with every failure of a handler."""

    def on(self, name: str, handler: Handler, priority: int = 0, timeout: float | None = None) -> Callable[[], None]:
        """Register a handler; `timeout` is in seconds. Return a function that removes it."""
        registration = _Registration(handler, priority, timeout)
        # Sorting is stable, so equal priorities keep the order of registration.
        handlers = [*self._handlers.get(name, []), registration]
        self._handlers[name] = sorted(handlers, key=lambda other: -other.priority)

        def remove() -> None:
            self._handlers[name] = [other for other in self._handlers[name] if other is not registration]

        return remove

    def has_handlers(self, name: str) -> bool:
        """Whether a hook has handlers; without any, callers need not build the event."""
        return bool(self._handlers.get(name))

    async def run(self, name: str, event: Event, context: Event) -> Decision:
        """Call the handlers of a hook. Return their merged decision, `{}` for none."""
        handlers = self._handlers.get(name)
        if not handlers:
            return {}
        rule = get_rule(name)
        if rule.merge is None:
            await self._observe(name, handlers, event, context)
            return {}
        decided: Decision = {}
        for registration in handlers:
            own = copy.deepcopy(event) if len(handlers) > 1 else event
            decided = await self._call(name, registration, own, context, decided)
            if rule.is_final(decided):
                break
        return decided

    def run_sync(self, name: str, event: Event, context: Event) -> Decision:
        """Call the handlers of a synchronous hook, each with the event as changed by the previous ones."""
        decided: Decision = {}
        for registration in self._handlers.get(name, ()):
            try:
                returned = registration.handler(event | decided, context)
            except Exception as error:
                self._add_failure(name, error)
                continue
            if inspect.iscoroutine(returned):
                returned.close()
                self._add_failure(name, TypeError("an async handler cannot be used for a synchronous hook"))
            elif isinstance(returned, dict):
                decided |= returned
        return decided

    async def _call(
        self, name: str, registration: _Registration, event: Event, context: Event, decided: Decision
    ) -> Decision:
        """Return the decision merged with this handler's; for one that fails, with `on_failure` of the hook's rule."""
        rule = get_rule(name)
        assert rule.merge is not None
        try:
            returned = registration.handler(event, context)
            if inspect.isawaitable(returned):
                returned = await asyncio.wait_for(returned, _timeout(registration, rule))
            return rule.merge(decided, returned) if isinstance(returned, dict) else decided
        except Exception as error:
            self._add_failure(name, error)
            reason = f"a handler of {name} failed: {_format_error(error)}"
            return decided if rule.on_failure is None else rule.merge(decided, rule.on_failure(reason))

    async def _observe(self, name: str, handlers: list[_Registration], event: Event, context: Event) -> None:
        waiting: list[Awaitable[Any]] = []
        for registration in handlers:
            try:
                returned = registration.handler(event, context)
            except Exception as error:
                self._add_failure(name, error)
                continue
            if inspect.isawaitable(returned):
                waiting.append(asyncio.wait_for(returned, _timeout(registration, get_rule(name))))
        if waiting:
            for outcome in await asyncio.gather(*waiting, return_exceptions=True):
                if isinstance(outcome, Exception):
                    self._add_failure(name, outcome)

    def _add_failure(self, name: str, error: Exception) -> None:
        failure = HookFailure(name, _format_error(error))
        self.failures.append(failure)
        del self.failures[:-_KEPT_FAILURES]
        if self.on_failure is not None:
            self.on_failure(failure)


def _timeout(registration: _Registration, rule: Rule) -> float | None:
    return rule.timeout if registration.timeout is None else registration.timeout


def _format_error(error: Exception) -> str:
    return "timed out" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
