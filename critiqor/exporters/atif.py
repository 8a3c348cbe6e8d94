"""ATIF, the Agent Trajectory Interchange Format of Harbor: one trajectory per session, each on a line.

A step is a message of the user, or a response of the model with the tool calls that it requests and their results. Tool
calls that were made later than the response are a step of their own, as in Harbor's converter of Claude Code. Steps
have one time, so the times of results are lost, and so are failed model calls; `critiqor import` reads all the rest
back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from critiqor.diagnosis.prices.price import tokens_of
from critiqor.diagnosis.signals.text import plain_text
from critiqor.model import Event, EventType
from critiqor.model.report import Recorded
from critiqor.model.usage import is_plausible

SCHEMA_VERSION = "ATIF-v1.4"
_SIDECHAIN = "sidechain-"
"""How the agent runs of subagents of Claude Code begin in an imported trajectory."""


class _Step(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One step of a trajectory."""

    step_id: int
    timestamp: str
    source: str
    message: str
    model_name: str | None = None
    tool_calls: list[dict[str, Any]] = msgspec.field(default_factory=list)
    observation: dict[str, list[dict[str, Any]]] = msgspec.field(default_factory=dict)
    metrics: dict[str, Any] | None = None
    extra: dict[str, Any] = msgspec.field(default_factory=dict)


class _Trajectory(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The agent runs of one session, one after the other."""

    schema_version: str
    session_id: str
    agent: dict[str, Any]
    steps: list[_Step]
    final_metrics: dict[str, Any]


def report(recorded: Recorded) -> Iterator[bytes]:
    """Yield one trajectory per session, each on a line."""
    builders: dict[str, _Builder] = {}
    for event in recorded.events:
        if event.source_layer != "supervisor":
            key = event.session_key or event.agent_run_id or recorded.run.run_id
            builders.setdefault(key, _Builder(key, recorded.run.metadata.agent_id)).add(event)
    for builder in builders.values():
        if builder.steps:
            yield msgspec.json.encode(builder.trajectory()) + b"\n"


class _Builder:
    """Builds the steps of one session, event by event."""

    def __init__(self, session_id: str, agent: str) -> None:
        self._session_id = session_id
        self._agent: dict[str, Any] = {"name": agent, "version": "unknown"}
        self.steps: list[_Step] = []
        self._awaits_message = False
        """Whether the last step is a model call whose message was not seen yet."""
        self._calling: dict[str | None, list[_Step]] = {}
        """Steps with tool calls without a result, by the id of the call."""
        self._totals = {"prompt": 0, "completion": 0, "cached": 0}
        self._cost: float | None = None

    def add(self, event: Event) -> None:
        """Add the next event of the session."""
        kind, payload = event.event_type, event.payload
        if kind == "agent_start" and payload.get("agent_name"):
            self._agent = {"name": payload["agent_name"], "version": payload.get("agent_version") or "unknown"}
        elif kind == EventType.TOKEN_USAGE:
            usage = payload.get("usage")
            self._step(event, "agent", metrics=self._metrics(usage) if isinstance(usage, dict) else {})
            self._awaits_message = True
        elif kind in ("input", "message_end"):
            self._add_message(event)
        elif kind == EventType.TOOL_CALL:
            self._add_call(event, payload["arguments"] if "arguments" in payload else payload.get("args"))
        elif kind == EventType.TOOL_OUTPUT:
            self._add_result(event)
        elif kind == "compaction_end":
            step = self._step(event, "system", plain_text(payload.get("summary") or ""))
            step.extra["context_management"] = {}
        elif kind == "agent_end":
            for late in payload.get("recovered_usage") or ():
                if isinstance(late, dict) and isinstance(late.get("usage"), dict):
                    self._metrics(late["usage"])

    def trajectory(self) -> _Trajectory:
        """Return the trajectory of all events."""
        totals: dict[str, Any] = {f"total_{name}_tokens": count for name, count in self._totals.items()}
        cost = {} if self._cost is None else {"total_cost_usd": self._cost}
        models = [step.model_name for step in self.steps if step.model_name]
        return _Trajectory(
            schema_version=SCHEMA_VERSION,
            session_id=self._session_id,
            agent=self._agent | ({"model_name": models[0]} if models else {}),
            steps=self.steps,
            final_metrics={**totals, **cost, "total_steps": len(self.steps)},
        )

    def _step(self, event: Event, source: str, message: str = "", metrics: dict[str, Any] | None = None) -> _Step:
        model = event.payload.get("model")
        step = _Step(
            step_id=len(self.steps) + 1,
            timestamp=event.timestamp,
            source=source,
            message=message,
            model_name=model if isinstance(model, str) and source == "agent" else None,
            metrics=metrics,
            extra={"is_sidechain": True} if (event.agent_run_id or "").startswith(_SIDECHAIN) else {},
        )
        self._awaits_message = False
        self.steps.append(step)
        return step

    def _add_message(self, event: Event) -> None:
        payload = event.payload
        text = plain_text(payload.get("text") or "")
        role = payload.get("role") or ("user" if event.event_type == "input" else "assistant")
        if role == "user":
            self._step(event, "user", text)
            return
        if role != "assistant":
            return
        step = self.steps[-1] if self._awaits_message else self._step(event, "agent")
        step.message, self._awaits_message = text, False
        if isinstance(payload.get("usage"), dict) and step.metrics is None:
            step.metrics = self._metrics(payload["usage"])
        if payload.get("stop_reason"):
            step.extra["stop_reason"] = payload["stop_reason"]

    def _add_call(self, event: Event, arguments: Any) -> _Step:
        step = self.steps[-1] if self.steps else None
        if step is None or step.source != "agent" or step.timestamp != event.timestamp or step.observation:
            step = self._step(event, "agent")
        call = {"tool_call_id": event.tool_call_id, "function_name": event.tool_name or "unknown"}
        step.tool_calls.append(
            {**call, "arguments": arguments if isinstance(arguments, dict) else {"value": arguments}}
        )
        self._awaits_message = False
        self._calling.setdefault(event.tool_call_id, []).append(step)
        return step

    def _add_result(self, event: Event) -> None:
        payload = event.payload
        waiting = self._calling.get(event.tool_call_id)
        step = waiting.pop(0) if waiting else None
        if step is None:
            step = self._add_call(event, None)
            self._calling[event.tool_call_id].pop()
        value = payload["result"] if "result" in payload else payload.get("output") or ""
        extra: dict[str, Any] = {}
        if isinstance(value, dict) and value.get("cut") is True and isinstance(value.get("excerpt"), str):
            extra["cut"] = {"size": value.get("size"), "digest": value.get("digest")}
            value = value["excerpt"]
        text = plain_text(value)
        if event.status == "error":
            extra["is_error"] = True
            text = text or event.error or ""
        result: dict[str, Any] = {"source_call_id": event.tool_call_id, "content": text}
        if extra:
            result["extra"] = extra
        step.observation.setdefault("results", []).append(result)

    def _metrics(self, usage: Mapping[str, Any]) -> dict[str, Any]:
        """Return tokens and cost of a model call, and add them to the totals."""
        fresh, output, cached, written = tokens_of(usage)
        metrics: dict[str, Any] = {
            "prompt_tokens": fresh + cached + written,
            "completion_tokens": output,
            "cached_tokens": cached,
        }
        for name, count in zip(self._totals, metrics.values(), strict=True):
            self._totals[name] += count
        if written:
            metrics["extra"] = {"cache_write_tokens": written}
        cost = usage.get("cost")
        total = cost.get("total") if isinstance(cost, dict) else None
        if is_plausible(total):
            metrics["cost_usd"] = total
            self._cost = (self._cost or 0) + float(total)
        return metrics
