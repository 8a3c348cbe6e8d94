"""Assembles the message of an answer from its streamed deltas."""

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
_MAX_QUOTED_CHARS = 120
"""Characters of invalid arguments that are quoted."""


class _ToolCallDraft:
    """A tool call that is being streamed."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


class ResponseBuilder:
    """Builds the message of one model call from its deltas."""

    def __init__(self, provider: str, model: str, api: str, prices: Prices) -> None:
        self._provider = provider
        self._model = model
        self._api = api
        self._prices = prices
        self._started_ms = now_ms()
        self._parts: list[tuple[type[Text] | type[Thinking], list[str]]] = []
        """Text and reasoning in the order of arrival; consecutive deltas of one kind form one part."""
        self._calls: dict[int, _ToolCallDraft] = {}
        self._usage: UsageDelta | None = None
        self._reason: str | None = None

    def add(self, delta: Delta) -> None:
        """Add a delta to the response."""
        match delta:
            case TextDelta(text):
                self._add_text(Text, text)
            case ThinkingDelta(text):
                self._add_text(Thinking, text)
            case ToolCallDelta():
                call = self._calls.setdefault(delta.index, _ToolCallDraft())
                call.id = call.id or delta.id or ""
                call.name = call.name or delta.name or ""
                call.arguments.append(delta.arguments)
            case UsageDelta():
                # Counts are totals of the call so far, so the latest replace the earlier ones.
                self._usage = delta
            case Finished(reason):
                self._reason = reason

    def _add_text(self, kind: type[Text] | type[Thinking], text: str) -> None:
        if not text:
            return
        if not self._parts or self._parts[-1][0] is not kind:
            self._parts.append((kind, []))
        self._parts[-1][1].append(text)

    def message(self, stop_reason: StopReason | None = None, error: str | None = None) -> AssistantMessage:
        """Return the message; `stop_reason` is given for an answer that the model did not finish."""
        content: list[Text | Thinking | ToolCall] = [kind("".join(pieces)) for kind, pieces in self._parts]
        calls = _tool_calls([self._calls[index] for index in sorted(self._calls)])
        if stop_reason is None:
            stop_reason, error = self._final_reason(bool(calls))
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

    def _final_reason(self, has_tool_calls: bool) -> tuple[StopReason, str | None]:
        reason = _STOP_REASONS.get(self._reason or "stop")
        if reason is None:
            return "error", f"Provider finish_reason: {self._reason}"
        # Some servers report `stop` although the answer calls tools.
        return ("toolUse" if has_tool_calls and reason == "stop" else reason), None

    @property
    def usage(self) -> Usage:
        """Tokens and cost of the call, as far as the provider has reported them."""
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


def _tool_calls(drafts: list[_ToolCallDraft]) -> list[ToolCall]:
    calls: list[ToolCall] = []
    ids: set[str] = set()
    for number, draft in enumerate(drafts):
        wanted = draft.id or f"call_{number}"
        # Results refer to calls by id, so ids must be unique within an answer.
        given, copy = wanted, 2
        while given in ids:
            given, copy = f"{wanted}_{copy}", copy + 1
        ids.add(given)
        calls.append(_tool_call(given, draft))
    return calls


def _tool_call(call_id: str, draft: _ToolCallDraft) -> ToolCall:
    text = "".join(draft.arguments)
    if not draft.name:
        return ToolCall(id=call_id, name="", malformed="the call names no tool")
    try:
        arguments = msgspec.json.decode(text) if text.strip() else {}
    except (msgspec.DecodeError, RecursionError) as error:
        return ToolCall(id=call_id, name=draft.name, malformed=f"must be JSON: {error}: {_excerpt(text)}")
    if not isinstance(arguments, dict):
        return ToolCall(id=call_id, name=draft.name, malformed=f"must be object: {_excerpt(text)}")
    return ToolCall(id=call_id, name=draft.name, arguments=arguments)


def _excerpt(text: str) -> str:
    return text if len(text) <= _MAX_QUOTED_CHARS else f"{text[:_MAX_QUOTED_CHARS]}…"
