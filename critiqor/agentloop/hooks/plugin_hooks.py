"""Plugin hooks: places in the loop where a plugin can look or interfere, by the rules of OpenClaw's typed hooks.

A handler is a function `(event, context) -> dict | None`, plain or async. Higher priorities run first, equal ones in
the order of registration. Each handler sees the event as it was, not what others made of it. What it may decide stands
in `hook_rules`: a gate ends at the first `block` or `cancel` that is true, and false decides nothing.

A handler that fails or takes too long is left out, but for the gates that guard a run, a tool or an installation:
those close.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from critiqor.agentloop.hooks.hook_rules import Decision, Rule, rule_of

Event = dict[str, Any]
Handler = Callable[[Event, Event], Decision | Awaitable[Decision | None] | None]
_KEPT_FAILURES = 100


class HookFailure(NamedTuple):
    """A handler that did not do its part."""

    hook: str
    reason: str


class _Registration(NamedTuple):
    handler: Handler
    priority: int
    timeout: float | None


class PluginHooks:
    """Handlers by the name of their hook."""

    def __init__(self) -> None:
        self._handlers: dict[str, list[_Registration]] = {}
        self.failures: list[HookFailure] = []
        """The last ones, for whoever wants to know why a plugin has no effect."""

    def on(self, name: str, handler: Handler, priority: int = 0, timeout: float | None = None) -> Callable[[], None]:
        """Call `handler` at this hook from now on; the result stops that. `timeout` is in seconds."""
        registration = _Registration(handler, priority, timeout)
        # Sorting keeps the order of registration among equals.
        handlers = [*self._handlers.get(name, []), registration]
        self._handlers[name] = sorted(handlers, key=lambda one: -one.priority)

        def remove() -> None:
            self._handlers[name] = [one for one in self._handlers[name] if one is not registration]

        return remove

    def listens(self, name: str) -> bool:
        """Whether anybody is there; an event need not be made for nobody."""
        return bool(self._handlers.get(name))

    async def run(self, name: str, event: Event, context: Event) -> Decision:
        """Call the handlers of a hook; returns what they decided together, `{}` for nothing."""
        handlers = self._handlers.get(name)
        if not handlers:
            return {}
        rule = rule_of(name)
        if rule.merge is None:
            await self._observe(name, handlers, event, context)
            return {}
        decided: Decision = {}
        for one in handlers:
            own = copy.deepcopy(event) if len(handlers) > 1 else event
            decided = await self._ask(name, one, own, context, decided)
            if rule.ends(decided):
                break
        return decided

    def run_sync(self, name: str, event: Event, context: Event) -> Decision:
        """Call the handlers of a synchronous hook, each with what the one before it made of the event."""
        decided: Decision = {}
        for one in self._handlers.get(name, ()):
            try:
                said = one.handler(event | decided, context)
            except Exception as error:
                self._note(name, error)
                continue
            if inspect.iscoroutine(said):
                said.close()
                self._note(name, TypeError("an async handler cannot serve a synchronous hook"))
            elif isinstance(said, dict):
                decided |= said
        return decided

    async def _ask(self, name: str, one: _Registration, event: Event, context: Event, decided: Decision) -> Decision:
        """What is decided with this handler; one that fails, or says what makes no sense, is left out or closes it."""
        rule = rule_of(name)
        assert rule.merge is not None
        try:
            said = one.handler(event, context)
            if inspect.isawaitable(said):
                said = await asyncio.wait_for(said, _timeout(one, rule))
            return rule.merge(decided, said) if isinstance(said, dict) else decided
        except Exception as error:
            self._note(name, error)
            reason = f"a handler of {name} failed: {_words(error)}"
            return decided if rule.when_broken is None else rule.merge(decided, rule.when_broken(reason))

    async def _observe(self, name: str, handlers: list[_Registration], event: Event, context: Event) -> None:
        waiting: list[Awaitable[Any]] = []
        for one in handlers:
            try:
                said = one.handler(event, context)
            except Exception as error:
                self._note(name, error)
                continue
            if inspect.isawaitable(said):
                waiting.append(asyncio.wait_for(said, _timeout(one, rule_of(name))))
        if waiting:
            for outcome in await asyncio.gather(*waiting, return_exceptions=True):
                if isinstance(outcome, Exception):
                    self._note(name, outcome)

    def _note(self, name: str, error: Exception) -> None:
        self.failures.append(HookFailure(name, _words(error)))
        del self.failures[:-_KEPT_FAILURES]


def _timeout(one: _Registration, rule: Rule) -> float | None:
    return rule.timeout if one.timeout is None else one.timeout


def _words(error: Exception) -> str:
    return "it took too long" if isinstance(error, TimeoutError) else f"{type(error).__name__}: {error}"
