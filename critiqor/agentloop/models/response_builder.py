"""An answer, put together from its pieces as they come."""

from __future__ import annotations

import msgspec

from critiqor.agentloop.models.model_client import Delta, Finished, TextDelta, ThinkingDelta, ToolCallDelta, UsageDelta
from critiqor.agentloop.sessions.messages import AssistantMessage, Cost, StopReason, Text, Thinking, ToolCall, Usage
from critiqor.agentloop.settings import Prices
from critiqor.model import now_ms

_STOP_REASONS: dict[str, StopReason] = {
    "stop": "stop",
    "end": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
}
_SHOWN_CHARS = 120
"""How much of unreadable arguments is quoted."""


class _Call:
    """A tool call in the making."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


class Answer:
    """What a model has said so far in one call."""

    def __init__(self, provider: str, model: str, api: str, prices: Prices) -> None:
        self._provider = provider
        self._model = model
        self._api = api
        self._prices = prices
        self._started_ms = now_ms()
        self._parts: list[tuple[type[Text] | type[Thinking], list[str]]] = []
        """Words and reasoning in the order in which they came; what follows its like belongs to it."""
        self._calls: dict[int, _Call] = {}
        self._usage: UsageDelta | None = None
        self._reason: str | None = None

    def add(self, delta: Delta) -> None:
        """One more piece."""
        match delta:
            case TextDelta(text):
                self._say(Text, text)
            case ThinkingDelta(text):
                self._say(Thinking, text)
            case ToolCallDelta():
                call = self._calls.setdefault(delta.index, _Call())
                call.id = call.id or delta.id or ""
                call.name = call.name or delta.name or ""
                call.arguments.append(delta.arguments)
            case UsageDelta():
                # Counts are for the whole call so far, so the last ones hold.
                self._usage = delta
            case Finished(reason):
                self._reason = reason

    def _say(self, kind: type[Text] | type[Thinking], text: str) -> None:
        if not text:
            return
        if not self._parts or self._parts[-1][0] is not kind:
            self._parts.append((kind, []))
        self._parts[-1][1].append(text)

    def message(self, stop_reason: StopReason | None = None, error: str | None = None) -> AssistantMessage:
        """The message that came of it; `stop_reason` is for an answer that was not finished by the model."""
        content: list[Text | Thinking | ToolCall] = [kind("".join(pieces)) for kind, pieces in self._parts]
        calls = _tool_calls([self._calls[index] for index in sorted(self._calls)])
        if stop_reason is None:
            stop_reason, error = self._ending(bool(calls))
        return AssistantMessage(
            content=[*content, *calls],
            provider=self._provider,
            model=self._model,
            api=self._api,
            usage=self.usage,
            stop_reason=stop_reason,
            error_message=error,
            timestamp=self._started_ms,
        )

    def _ending(self, asks_for_tools: bool) -> tuple[StopReason, str | None]:
        reason = _STOP_REASONS.get(self._reason or "stop")
        if reason is None:
            return "error", f"Provider finish_reason: {self._reason}"
        # Servers are careless about the reason; what counts is whether tools are to be run.
        return ("toolUse" if asks_for_tools and reason == "stop" else reason), None

    @property
    def usage(self) -> Usage:
        """What the call has used so far, as far as that was told."""
        used = self._usage
        if used is None:
            return Usage()
        prices = self._prices
        cost = Cost(
            input=prices.input / 1_000_000 * used.input,
            output=prices.output / 1_000_000 * used.output,
            cache_read=prices.cache_read / 1_000_000 * used.cache_read,
            cache_write=prices.cache_write / 1_000_000 * used.cache_write,
        )
        return Usage(
            input=used.input,
            output=used.output,
            cache_read=used.cache_read,
            cache_write=used.cache_write,
            total_tokens=used.input + used.output + used.cache_read + used.cache_write,
            cost=msgspec.structs.replace(cost, total=cost.input + cost.output + cost.cache_read + cost.cache_write),
        )


def _tool_calls(drafts: list[_Call]) -> list[ToolCall]:
    calls: list[ToolCall] = []
    ids: set[str] = set()
    for number, draft in enumerate(drafts):
        wanted = draft.id or f"call_{number}"
        # Results are told apart by the id, so that no two calls of an answer may share one.
        given, copy = wanted, 2
        while given in ids:
            given, copy = f"{wanted}_{copy}", copy + 1
        ids.add(given)
        calls.append(_tool_call(given, draft))
    return calls


def _tool_call(call_id: str, draft: _Call) -> ToolCall:
    text = "".join(draft.arguments)
    if not draft.name:
        return ToolCall(id=call_id, name="", malformed="the call names no tool")
    try:
        arguments = msgspec.json.decode(text) if text.strip() else {}
    except (msgspec.DecodeError, RecursionError) as error:
        return ToolCall(id=call_id, name=draft.name, malformed=f"must be JSON: {error}: {_quoted(text)}")
    if not isinstance(arguments, dict):
        return ToolCall(id=call_id, name=draft.name, malformed=f"must be object: {_quoted(text)}")
    return ToolCall(id=call_id, name=draft.name, arguments=arguments)


def _quoted(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
