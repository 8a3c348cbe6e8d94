"""Tokens and cost as reported by the provider. Values that were not reported are unknown, not zero."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from critiqor.diagnosis.signals.numbers import amount, is_plausible
from critiqor.model import CostAnalysis, Event, EventType, ModelUsage, Scope, ToolUsage, TurnUsage, Usage
from critiqor.model.sanitize import sanitize_line
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.late_usage import LateUsage, has_usage

MAX_TURNS = 100
"""Maximum number of agent runs that the cost analysis lists, the most expensive first."""
_TOKEN_FIELDS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cacheRead": "cache_read_tokens",
    "cacheWrite": "cache_write_tokens",
}
"""Fields of `Usage` by the key that OpenClaw reports."""


class _Totals(NamedTuple):
    """The three totals to which the usage of a model call is added."""

    total: Usage
    model: ModelUsage
    turn: TurnUsage


def reported_price(usage: Mapping[str, object]) -> float | None:
    """Return the cost of a model call in US dollars, from the usage that its provider reported; None if unknown.

    OpenClaw reports a cost of 0 for a model without a configured price, so 0 for a call that used tokens means unknown.
    """
    cost = usage.get("cost")
    total = cost.get("total") if isinstance(cost, dict) else None
    if not is_plausible(total) or (total == 0 and any(amount(usage.get(name)) for name in _TOKEN_FIELDS)):
        return None
    return float(total)


class Ledger:
    """Adds up the usage of every model call: in total, by model and by agent run."""

    def __init__(self) -> None:
        self._total = Usage()
        self._models: dict[tuple[str | None, str | None], ModelUsage] = {}
        self._turns: dict[Scope, TurnUsage] = {}
        self._late_usage = LateUsage[_Totals]()
        self._retries = 0

    def observe(self, event: Event) -> None:
        """Process one event of an agent. Events that do not affect the cost are ignored."""
        if event.event_type == EventType.TOKEN_USAGE or has_usage(event):
            self._model_call(event)
        elif event.event_type == "agent_end":
            self._add_late_usage(event)
        elif event.event_type == "provider_retry":
            self._retries += 1

    def _model_call(self, event: Event) -> None:
        usage = event.payload.get("usage")
        totals = self._totals_of(event)
        for total in totals:
            total.model_calls += 1
            total.failed_model_calls += event.status == "error"
            if isinstance(usage, dict):
                _add(total, usage)
            elif event.status == "ok":
                total.model_calls_without_usage += 1
        if not isinstance(usage, dict) and event.status == "ok":
            self._late_usage.add(event, totals)

    def _add_late_usage(self, event: Event) -> None:
        for known, usage in self._late_usage.take(event):
            for total in known or self._totals_of(event):
                total.model_calls_without_usage -= known is not None
                _add(total, usage)

    def _totals_of(self, event: Event) -> _Totals:
        provider, model = _text(event.payload.get("provider")), _text(event.payload.get("model"))
        by_model = self._models.get((provider, model))
        if by_model is None:
            by_model = self._models[provider, model] = ModelUsage(provider=provider, model=model)
        return _Totals(self._total, by_model, self._turn(Scope(event.session_key, event.agent_run_id)))

    def _turn(self, scope: Scope) -> TurnUsage:
        turn = self._turns.get(scope)
        if turn is None:
            turn = self._turns[scope] = TurnUsage(scope=scope)
        return turn

    def analysis(self, runs: list[AgentRun]) -> CostAnalysis:
        """Return the cost analysis. Its tool calls are counted from these agent runs."""
        tools: dict[str, ToolUsage] = {}
        for run in runs:
            if run.actions:
                _count_tools(run, tools)
                self._turn(run.scope).tool_calls = len(run.actions)
        totals: list[Usage | ToolUsage] = [self._total, *self._models.values(), *self._turns.values(), *tools.values()]
        for usage in totals:
            if usage.cost_usd is not None:
                usage.cost_usd = round(usage.cost_usd, 6)
        per_tool = sorted(tools.values(), key=lambda tool: (-tool.calls, tool.tool))
        turns = sorted(self._turns.values(), key=lambda turn: (-(turn.cost_usd or 0), -turn.total_tokens))
        return CostAnalysis(
            **{name: getattr(self._total, name) for name in Usage.__struct_fields__},
            tool_calls=sum(tool.calls for tool in per_tool),
            failed_tool_calls=sum(tool.failed for tool in per_tool),
            repeated_tool_calls=sum(tool.repeated for tool in per_tool),
            provider_retries=self._retries,
            per_model=sorted(self._models.values(), key=lambda model: (model.provider or "", model.model or "")),
            per_tool=per_tool,
            per_turn=turns[:MAX_TURNS],
        )


def _count_tools(run: AgentRun, tools: dict[str, ToolUsage]) -> None:
    """Add the tool calls of an agent run. The cost of a model call is divided among the calls that it requested."""
    seen: set[bytes] = set()
    requested = Counter(call.model_call.event_id for call in run.actions if call.model_call is not None)
    spent: dict[str, float] = {}
    for call in run.actions:
        tool = tools.get(call.tool)
        if tool is None:
            tool = tools[call.tool] = ToolUsage(tool=call.tool)
        tool.calls += 1
        tool.failed += call.failed
        tool.repeated += call.same_call in seen
        tool.duration_ms += call.duration_ms
        seen.add(call.same_call)
        request = call.model_call
        if request is None:
            continue
        if request.tokens is not None:
            spent[call.tool] = spent.get(call.tool, 0) + request.tokens / requested[request.event_id]
        if request.cost_usd is not None:
            tool.cost_usd = (tool.cost_usd or 0.0) + request.cost_usd / requested[request.event_id]
    for name, tokens in spent.items():
        tools[name].tokens = (tools[name].tokens or 0) + round(tokens)


def _add(total: Usage, usage: dict[str, object]) -> None:
    for key, field in _TOKEN_FIELDS.items():
        setattr(total, field, getattr(total, field) + (amount(usage.get(key)) or 0))
    price = reported_price(usage)
    if price is not None:
        total.cost_usd = (total.cost_usd or 0.0) + price


def _text(value: object) -> str | None:
    return None if value is None else sanitize_line(str(value))
