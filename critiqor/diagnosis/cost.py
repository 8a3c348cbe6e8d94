"""Tokens and cost of model calls. What was not reported is unknown, not zero, unless a list price is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from critiqor.diagnosis.prices.list_prices import price_table
from critiqor.diagnosis.prices.price import price_of, tokens_of
from critiqor.model import CostAnalysis, Event, EventType, ModelUsage, Scope, ToolUsage, TurnUsage, Usage
from critiqor.model.sanitize import sanitize_line
from critiqor.model.usage import Cost
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.hidden_calls import HiddenCalls
from critiqor.spans.late_usage import LateUsage, has_usage

COST_EVENTS = frozenset((EventType.TOKEN_USAGE, "message_end", "agent_end", "provider_retry"))
"""Events that affect the cost."""
MAX_TURNS = 100
"""Maximum number of agent runs that the cost analysis lists, the most expensive first."""


class _Totals(msgspec.Struct, frozen=True, eq=False):
    """The totals to which the usage of a model call is added."""

    total: Usage
    model: ModelUsage
    turn: TurnUsage
    session: Usage

    @property
    def all(self) -> tuple[Usage, Usage, Usage, Usage]:
        """All of them."""
        return self.total, self.model, self.turn, self.session


class _Turn(NamedTuple):
    """The usage of an agent run, and its number in order of the first model call."""

    number: int
    usage: TurnUsage


class Ledger:
    """Adds up the usage of every model call: in total, by model, by agent run and by session."""

    def __init__(self, *, lists_turns: bool = True) -> None:
        """Without `lists_turns`, the usage of single agent runs is not kept."""
        self._lists_turns = lists_turns
        self._total = Usage()
        self._models: dict[tuple[str | None, str | None], ModelUsage] = {}
        self._turns: dict[Scope, _Turn] = {}
        self._turns_begun = 0
        self._past_turns: list[_Turn] = []
        """The most expensive agent runs of those that are over."""
        self._sessions: dict[str | None, Usage] = {}
        self._latest: tuple[object, ...] = ()
        """Provider, model, session and agent run of the last model call."""
        self._latest_totals: _Totals | None = None
        """The totals to which it was added."""
        self._late_usage = LateUsage[_Totals]()
        self._hidden_calls = HiddenCalls()
        self._retries = 0

    def observe(self, event: Event) -> None:
        """Process one event of an agent. Events that do not affect the cost are ignored."""
        kind = event.event_type
        if kind == EventType.TOKEN_USAGE:
            self._model_call(event)
        elif kind == "message_end":
            if has_usage(event):
                self._model_call(event)
        elif kind == "agent_end":
            self._add_late_usage(event)
            self._add_hidden_calls(event)
        elif kind == "provider_retry":
            self._retries += 1

    def _model_call(self, event: Event) -> None:
        self._hidden_calls.observe_model_call(event)
        usage = event.payload.get("usage")
        totals = self._totals_of(event)
        failed = event.status == "error"
        for total in totals.all:
            total.model_calls += 1
            total.failed_model_calls += failed
        if isinstance(usage, dict):
            _add(totals, usage)
        elif event.status == "ok":
            for total in totals.all:
                total.model_calls_without_usage += 1
            self._late_usage.add(event, totals)

    def _add_late_usage(self, event: Event) -> None:
        for known, usage in self._late_usage.take(event):
            totals = known or self._totals_of(event)
            for total in totals.all:
                total.model_calls_without_usage -= known is not None
            _add(totals, usage)

    def _add_hidden_calls(self, event: Event) -> None:
        """Add what a backend reports at the end of an agent run whose model calls were not visible."""
        usage = event.payload.get("usage_total")
        if self._hidden_calls.end_attempt(event):
            totals = self._totals_of(event)
            for total in totals.all:
                total.agent_runs_with_hidden_calls += 1
            if isinstance(usage, dict):
                _add(totals, usage)

    def _totals_of(self, event: Event) -> _Totals:
        payload = event.payload
        key = (payload.get("provider"), payload.get("model"), event.session_key, event.agent_run_id)
        if self._latest_totals is None or key != self._latest:
            provider, model = _text(key[0]), _text(key[1])
            by_model = self._models.get((provider, model))
            if by_model is None:
                by_model = self._models[provider, model] = ModelUsage(provider=provider, model=model)
            turn = self._turn(Scope(event.session_key, event.agent_run_id))
            session = self._sessions.get(event.session_key)
            if session is None:
                session = self._sessions[event.session_key] = Usage()
            self._latest, self._latest_totals = key, _Totals(self._total, by_model, turn, session)
        return self._latest_totals

    def _turn(self, scope: Scope) -> TurnUsage:
        if not self._lists_turns:
            return TurnUsage(scope=scope)
        turn = self._turns.get(scope)
        if turn is None:
            self._turns_begun += 1
            turn = self._turns[scope] = _Turn(self._turns_begun, TurnUsage(scope=scope))
        return turn.usage

    def end_turn(self, run: AgentRun) -> None:
        """Note that an agent run is over: of those, only the most expensive ones are kept."""
        turn = self._turns.pop(run.scope, None)
        if turn is None:
            return
        turn.usage.tool_calls = run.action_count or turn.usage.tool_calls
        self._past_turns.append(turn)
        if len(self._past_turns) >= 2 * MAX_TURNS:
            self._past_turns = sorted(self._past_turns, key=_expense)[:MAX_TURNS]

    def analysis(self, runs: Iterable[AgentRun], tools: Mapping[str, ToolUsage] | None = None) -> CostAnalysis:
        """Return the cost analysis, with the usage of these tools by these agent runs."""
        tools = tools or {}
        for run in runs:
            if run.action_count:
                self._turn(run.scope).tool_calls = run.action_count
        listed = sorted((*self._past_turns, *self._turns.values()), key=_expense)[:MAX_TURNS]
        turns = [turn.usage for turn in listed]
        totals: list[Usage | ToolUsage] = [self._total, *self._models.values(), *turns, *tools.values()]
        for usage in totals:
            if usage.cost_usd is not None:
                usage.cost_usd = round(usage.cost_usd, 6)
        per_tool = sorted(tools.values(), key=lambda tool: (-tool.calls, tool.tool))
        return CostAnalysis(
            **{name: getattr(self._total, name) for name in Usage.__struct_fields__},
            tool_calls=sum(tool.calls for tool in per_tool),
            failed_tool_calls=sum(tool.failed for tool in per_tool),
            repeated_tool_calls=sum(tool.repeated for tool in per_tool),
            provider_retries=self._retries,
            list_prices_date=price_table().date if self._total.cost_is_estimated else None,
            per_model=sorted(self._models.values(), key=lambda model: (model.provider or "", model.model or "")),
            per_tool=per_tool,
            per_turn=turns,
        )

    @property
    def total(self) -> Usage:
        """The usage of all model calls so far; it changes with every event."""
        return self._total

    @property
    def total_cost(self) -> Cost:
        """The cost of all model calls so far."""
        return _rounded(self._total.cost)

    def session_costs(self) -> dict[str | None, Cost]:
        """Return the cost of the model calls of each session that has any."""
        costs = {key: usage.cost for key, usage in self._sessions.items()}
        return {key: _rounded(cost) for key, cost in costs.items() if cost.model_calls}


def _expense(turn: _Turn) -> tuple[float, int, int]:
    """Return the sort key of an agent run: the most expensive first, then in order of start."""
    usd = turn.usage.cost_usd
    return -(0 if usd is None else round(usd, 6)), -turn.usage.total_tokens, turn.number


def _rounded(cost: Cost) -> Cost:
    return cost if cost.usd is None else cost._replace(usd=round(cost.usd, 6))


def _add(totals: _Totals, usage: dict[str, object]) -> None:
    """Add the usage of a model call to its totals."""
    tokens = tokens_of(usage)
    price = price_of(usage, totals.model.provider, totals.model.model)
    read, written, cache_read, cache_write = tokens
    for total in totals.all:
        total.input_tokens += read
        total.output_tokens += written
        total.cache_read_tokens += cache_read
        total.cache_write_tokens += cache_write
        if price is not None:
            total.cost_usd = (total.cost_usd or 0.0) + price.usd
            total.cost_is_estimated = total.cost_is_estimated or price.is_estimated


def _text(value: object) -> str | None:
    return None if value is None else sanitize_line(str(value))
