"""Tokens and money, as the provider told them; what was not told is unknown, not nothing."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from critiqor.diagnosis.signals.numbers import amount, price_of
from critiqor.model import CostAnalysis, Event, EventType, ModelUsage, Scope, ToolUsage, TurnUsage, Usage
from critiqor.model.sanitize import sanitize_line
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.late_usage import LateUsage, has_usage

MOST_TURNS = 100
_TOKENS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cacheRead": "cache_read_tokens",
    "cacheWrite": "cache_write_tokens",
}


class _Accounts(NamedTuple):
    """Where one model call is booked."""

    total: Usage
    model: ModelUsage
    turn: TurnUsage


class Ledger:
    """Adds up what every model call cost."""

    def __init__(self) -> None:
        self._total = Usage()
        self._models: dict[tuple[str | None, str | None], ModelUsage] = {}
        self._turns: dict[Scope, TurnUsage] = {}
        self._untold = LateUsage[_Accounts]()
        self._retries = 0

    def observe(self, event: Event) -> None:
        """Take in one event of an agent, if it tells of cost."""
        if event.event_type == EventType.TOKEN_USAGE or has_usage(event):
            self._model_call(event)
        elif event.event_type == "agent_end":
            self._recovered(event)
        elif event.event_type == "provider_retry":
            self._retries += 1

    def _model_call(self, event: Event) -> None:
        usage = event.payload.get("usage")
        accounts = self._accounts(event)
        for account in accounts:
            account.model_calls += 1
            account.failed_model_calls += event.status == "error"
            if isinstance(usage, dict):
                _add(account, usage)
            elif event.status == "ok":
                account.model_calls_without_usage += 1
        if not isinstance(usage, dict) and event.status == "ok":
            self._untold.add(event, accounts)

    def _recovered(self, event: Event) -> None:
        for known, usage in self._untold.take(event):
            for account in known or self._accounts(event):
                account.model_calls_without_usage -= known is not None
                _add(account, usage)

    def _accounts(self, event: Event) -> _Accounts:
        provider, model = _text(event.payload.get("provider")), _text(event.payload.get("model"))
        by_model = self._models.get((provider, model))
        if by_model is None:
            by_model = self._models[provider, model] = ModelUsage(provider=provider, model=model)
        return _Accounts(self._total, by_model, self._turn(Scope(event.session_key, event.agent_run_id)))

    def _turn(self, scope: Scope) -> TurnUsage:
        turn = self._turns.get(scope)
        if turn is None:
            turn = self._turns[scope] = TurnUsage(scope=scope)
        return turn

    def analysis(self, runs: list[AgentRun]) -> CostAnalysis:
        """Everything together, with what the tools did."""
        tools: dict[str, ToolUsage] = {}
        for run in runs:
            if run.actions:
                _count_tools(run, tools)
                self._turn(run.scope).tool_calls = len(run.actions)
        booked: list[Usage | ToolUsage] = [self._total, *self._models.values(), *self._turns.values(), *tools.values()]
        for usage in booked:
            if usage.cost_usd is not None:
                usage.cost_usd = round(usage.cost_usd, 6)
        per_tool = sorted(tools.values(), key=lambda tool: (-tool.calls, tool.tool))
        turns = sorted(self._turns.values(), key=lambda turn: (-(turn.cost_usd or 0), -_tokens_of(turn)))
        return CostAnalysis(
            **{name: getattr(self._total, name) for name in Usage.__struct_fields__},
            tool_calls=sum(tool.calls for tool in per_tool),
            failed_tool_calls=sum(tool.failed for tool in per_tool),
            repeated_tool_calls=sum(tool.repeated for tool in per_tool),
            provider_retries=self._retries,
            per_model=sorted(self._models.values(), key=lambda model: (model.provider or "", model.model or "")),
            per_tool=per_tool,
            per_turn=turns[:MOST_TURNS],
        )


def _count_tools(run: AgentRun, tools: dict[str, ToolUsage]) -> None:
    seen: set[bytes] = set()
    asked = Counter(step.model_call.event_id for step in run.actions if step.model_call is not None)
    spent: dict[str, float] = {}
    for step in run.actions:
        tool = tools.get(step.tool)
        if tool is None:
            tool = tools[step.tool] = ToolUsage(tool=step.tool)
        tool.calls += 1
        tool.failed += step.failed
        tool.repeated += step.same_call in seen
        tool.duration_ms += step.duration_ms
        seen.add(step.same_call)
        call = step.model_call
        if call is None:
            continue
        if call.tokens is not None:
            spent[step.tool] = spent.get(step.tool, 0) + call.tokens / asked[call.event_id]
        if call.cost_usd is not None:
            tool.cost_usd = (tool.cost_usd or 0.0) + call.cost_usd / asked[call.event_id]
    for name, tokens in spent.items():
        tools[name].tokens = (tools[name].tokens or 0) + round(tokens)


def _add(account: Usage, usage: dict[str, object]) -> None:
    for told, field in _TOKENS.items():
        setattr(account, field, getattr(account, field) + (amount(usage.get(told)) or 0))
    price = price_of(usage)
    if price is not None:
        account.cost_usd = (account.cost_usd or 0.0) + price


def _tokens_of(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens


def _text(value: object) -> str | None:
    return None if value is None else sanitize_line(str(value))
