"""Agent runs of backends such as `claude-cli`, which make their model calls themselves: OpenClaw does not see them."""

from __future__ import annotations

from critiqor.model import Event


class HiddenCalls:
    """Tells, attempt by attempt, whether a model answered although no model call was visible."""

    def __init__(self) -> None:
        self._visible: set[tuple[str | None, str | None]] = set()
        """Agent runs with a visible model call in the current attempt."""

    def observe_model_call(self, event: Event) -> None:
        """Note a request to a model, or its response."""
        self._visible.add((event.session_key, event.agent_run_id))

    def end_attempt(self, agent_end: Event) -> bool:
        """Return whether the model calls of an attempt were hidden, and forget it.

        The recorder adds the usage that OpenClaw reports with the last answer; without a model there is none.
        """
        scope = (agent_end.session_key, agent_end.agent_run_id)
        is_visible = scope in self._visible
        self._visible.discard(scope)
        # Of the model calls of another harness, such as Codex, OpenClaw reports one, without its usage.
        if is_visible and not isinstance(agent_end.payload.get("harness"), str):
            return False
        return agent_end.status == "ok" and isinstance(agent_end.payload.get("usage_total"), dict)


def backend_of(agent_end: Event) -> str:
    """Return the name of the backend that ran an attempt."""
    names = (agent_end.payload.get(name) for name in ("harness", "provider"))
    return next((name for name in names if isinstance(name, str) and name), "unknown")
