"""What is taken out of the events of the loop for a record, kind by kind; the same as in the plugin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from critiqor.model.sanitize import replace_lone_surrogates
from critiqor.storage.bounds import text_digest

Facts = dict[str, Any]
"""What is known of an event, under the names that records have for it."""
MEMORY_TOOLS = frozenset(("memory_search", "memory_get"))
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
_BAD_STATES = frozenset(("error", "failed", "timeout"))


class Outcome(NamedTuple):
    """How a tool call ended."""

    failure: str | None
    """Why it counts as a failure."""
    exit_code: Any
    """Of its command; None where there was none."""


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


def error_text(facts: Mapping[str, Any]) -> str:
    """What went wrong, in words, from whatever shape an error has."""
    for name in ("error", "errorMessage", "message"):
        value = facts.get(name)
        words = as_dict(value).get("message", value)
        if isinstance(value, BaseException):
            words = str(value)
        if isinstance(words, str) and words:
            return words
    return result_text(facts.get("result")) or "failed without saying why"


def result_text(result: Any) -> str | None:
    """The first text of a tool result."""
    if isinstance(result, str):
        return result or None
    content = as_dict(result).get("content", result)
    for part in content if isinstance(content, list) else ():
        text = as_dict(part).get("text")
        if isinstance(text, str) and text:
            return text
    return None


def outcome_of(end: Mapping[str, Any]) -> Outcome:
    """How a tool call ended, from all that was told of its end.

    A command that exits with another code than 0 is no error to OpenClaw; for whoever asks whether the tests passed,
    it is one.
    """
    result, error = end.get("result"), end.get("error")
    details = as_dict(as_dict(result).get("details"))
    code = details.get("exitCode")
    code = end.get("exitCode") if code is None else code
    failure = None
    if error:
        failure = error if isinstance(error, str) else error_text({"error": error})
    elif end.get("isError") is True:
        failure = error_text({"error": details.get("error"), "result": result})
    elif isinstance(code, int) and code != 0:
        failure = f"exit code {code}"
    elif isinstance(details.get("exitSignal"), str) and details["exitSignal"]:
        failure = f"ended by {details['exitSignal']}"
    elif details.get("timedOut") is True or details.get("noOutputTimedOut") is True:
        failure = "timed out"
    elif details.get("status") in _BAD_STATES:
        failure = error_text({"error": details.get("error"), "result": result})
    return Outcome(failure, code)


def error_of(event: Mapping[str, Any]) -> str | None:
    """What went wrong, of an event that says itself how it went."""
    error, outcome = event.get("error"), event.get("outcome")
    if outcome in _BAD_OUTCOMES and not error:
        return f"ended with {outcome}"
    failed = event.get("isError") is True or event.get("success") is False or bool(error)
    return error_text(event) if failed else None


def memory_lookup(arguments: Any, result: Any, *, ended: bool, failed: bool) -> Facts:
    """What was looked up, and how the lookup ended: `pending`, `found`, `empty` or `error`."""
    asked = as_dict(arguments)
    query = asked.get("query")
    key = next((asked[name] for name in ("key", "path", "id") if asked.get(name) is not None), None)
    lookup: Facts = {"query": query if isinstance(query, str) else None, "key": key}
    if not ended:
        return {**lookup, "lookup": "error" if failed else "pending"}
    details = as_dict(as_dict(result).get("details"))
    # A memory that is switched off or broken answers with no results, and says so beside them.
    unavailable = details.get("disabled") is True or details.get("unavailable") is True or bool(details.get("error"))
    if failed or unavailable:
        return {**lookup, "lookup": "error"}
    return {**lookup, "lookup": "found" if _found_anything(result) else "empty"}


def _found_anything(result: Any) -> bool:
    details = as_dict(result).get("details")
    details = as_dict(result if details is None else details)
    for name in ("results", "matches", "hits"):
        if isinstance(details.get(name), list):
            return bool(details[name])
    text = details.get("text")
    return bool((text if isinstance(text, str) else result_text(result) or "").strip())


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
