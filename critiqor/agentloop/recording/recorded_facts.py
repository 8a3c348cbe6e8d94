"""What is taken out of the events of the loop for a record, kind by kind; the same as in the plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from critiqor.model.sanitize import replace_lone_surrogates
from critiqor.spans.tool_results import error_text
from critiqor.storage.bounds import text_digest

Facts = dict[str, Any]
"""What is known of an event, under the names that records have for it."""
_MODEL_FACTS = (
    "callId",
    "provider",
    "model",
    "api",
    "transport",
    "contextTokenBudget",
    "contextWindowSource",
    "durationMs",
    "outcome",
    "errorCategory",
    "failureKind",
    "requestPayloadBytes",
    "responseStreamBytes",
    "timeToFirstByteMs",
)
_LONGEST_MS = 1 << 53
_BAD_OUTCOMES = frozenset(("error", "timeout", "killed"))


def told(**facts: Any) -> Facts:
    """The facts that there are."""
    return {name: value for name, value in facts.items() if value is not None}


def as_dict(value: Any) -> Mapping[str, Any]:
    """The value, or nothing where it is no object."""
    return value if isinstance(value, Mapping) else {}


def measured(value: Any) -> float | None:
    """The value where it is a number that can be meant as a duration."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number and abs(value) < _LONGEST_MS else None


def error_of(event: Mapping[str, Any]) -> str | None:
    """What went wrong, of an event that says itself how it went."""
    error, outcome = event.get("error"), event.get("outcome")
    if outcome in _BAD_OUTCOMES and not error:
        return f"ended with {outcome}"
    failed = event.get("isError") is True or event.get("success") is False or bool(error)
    return error_text(event) if failed else None


def model_facts(event: Mapping[str, Any]) -> Facts:
    """What a hook tells of a model call."""
    return {name: event[name] for name in _MODEL_FACTS if event.get(name) is not None}


def prompt_facts(event: Mapping[str, Any]) -> Facts:
    """What can be told from a prompt without keeping it: it is large, and the same on every turn."""
    system = event.get("systemPrompt")
    system = replace_lone_surrogates(system) if isinstance(system, str) else ""
    tools, history = event.get("tools"), event.get("historyMessages")
    names = [_tool_name(tool) for tool in tools] if isinstance(tools, list) else []
    return {
        "system_prompt": {"size": len(system.encode()), "digest": text_digest(system)},
        "tools": {"count": len(names), "digest": text_digest("\n".join(names))},
        "history_messages": len(history) if isinstance(history, list) else None,
    }


def _tool_name(tool: Any) -> str:
    name = as_dict(tool).get("name")
    name = as_dict(as_dict(tool).get("function")).get("name") if name is None else name
    return "" if name is None else replace_lone_surrogates(str(name))


def message_facts(message: Mapping[str, Any]) -> Facts:
    """What is kept of a saved message."""
    content = message.get("content")
    parts = [as_dict(part) for part in content] if isinstance(content, list) else [{"text": content}]
    texts = [text for part in parts if isinstance(text := part.get("text"), str)]
    calls = [told(id=part.get("id"), name=part.get("name")) for part in parts if part.get("type") == "toolCall"]
    return told(
        text="\n".join(texts),
        tool_calls=calls or None,
        stop_reason=message.get("stopReason"),
        provider=message.get("provider"),
        model=message.get("model"),
    )
