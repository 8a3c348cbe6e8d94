"""What a tool result means: failure or not and why, exit code, first text, and the outcome of a memory lookup.

The recorder plugin applies the same rules (`toolFailure` and `memoryLookup` in its `events.js`), so that a run is
judged in the same way whether it was recorded by the plugin, recorded by the embedded loop or imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypedDict, TypeGuard

NO_REASON = "no error message was given"
"""The error text of a failure that gives no reason."""
_MEMORY_TOOLS = frozenset(("memory_search", "memory_get"))
_FAILED_STATUSES = frozenset(("error", "failed", "timeout"))


class ToolOutcome(NamedTuple):
    """How a tool call ended."""

    failure: str | None
    """Why it counts as a failure; None if it succeeded."""
    exit_code: int | None
    """Exit code of its command; None if it ran no command."""


class LookupFacts(TypedDict):
    """The members of a memory event's payload that describe the lookup."""

    query: str | None
    key: Any
    lookup: Literal["pending", "found", "empty", "error"]


def tool_outcome(
    result: Any, *, error: Any = None, is_error: bool = False, reported_exit_code: Any = None
) -> ToolOutcome:
    """Return how a tool call ended.

    `error`, `is_error` and `reported_exit_code` are what was reported beside the result. OpenClaw does not treat a
    non-zero exit code as an error, but it decides whether tests passed, so it counts as a failure here.
    """
    details = result_details(result)
    code = details.get("exitCode")
    code = reported_exit_code if code is None else code
    code = code if isinstance(code, int) and not isinstance(code, bool) else None
    return ToolOutcome(_failure(result, error, is_error, code), code)


def _failure(result: Any, error: Any, is_error: bool, code: int | None) -> str | None:
    details = result_details(result)
    if error:
        return error_text({"error": error})
    if is_error:
        return error_text({"error": details.get("error"), "result": result})
    if code:
        return f"exit code {code}"
    signal, status = details.get("exitSignal"), details.get("status")
    if isinstance(signal, str) and signal:
        return f"ended by {signal}"
    if details.get("timedOut") is True or details.get("noOutputTimedOut") is True:
        return "timed out"
    if isinstance(status, str) and status in _FAILED_STATUSES:
        return error_text({"error": details.get("error"), "result": result})
    return None


def error_text(facts: Mapping[str, Any]) -> str:
    """Return the error message of an event: from `error`, `errorMessage`, `message` or the text of its `result`."""
    for name in ("error", "errorMessage", "message"):
        if text := _message_of(facts.get(name)):
            return text
    return result_text(facts.get("result")) or NO_REASON


def _message_of(error: Any) -> str | None:
    if isinstance(error, BaseException):
        error = str(error)
    elif isinstance(error, Mapping):
        error = error.get("message")
    return error if isinstance(error, str) and error else None


def result_details(result: Any) -> Mapping[str, Any]:
    """Return the `details` of a tool result; empty if it has none."""
    details = result.get("details") if isinstance(result, Mapping) else None
    return details if isinstance(details, Mapping) else {}


def result_text(result: Any) -> str | None:
    """Return the first non-empty text of a tool result."""
    if isinstance(result, str):
        return result or None
    content = result.get("content") if isinstance(result, Mapping) else result
    for part in content if isinstance(content, list) else ():
        text = part.get("text") if isinstance(part, Mapping) else None
        if isinstance(text, str) and text:
            return text
    return None


def is_memory_tool(name: str | None) -> TypeGuard[str]:
    """Whether a tool looks something up in memory."""
    return name in _MEMORY_TOOLS


def memory_lookup(arguments: Any, result: Any, *, has_ended: bool, failed: bool) -> LookupFacts:
    """Return what was looked up in memory and how the lookup ended."""
    wanted = arguments if isinstance(arguments, Mapping) else {}
    query = wanted.get("query")
    key = next((wanted[name] for name in ("key", "path", "id") if wanted.get(name) is not None), None)
    outcome: Literal["pending", "found", "empty", "error"]
    if failed or (has_ended and _is_unavailable(result)):
        outcome = "error"
    elif not has_ended:
        outcome = "pending"
    else:
        outcome = "found" if _found_anything(result) else "empty"
    return {"query": query if isinstance(query, str) else None, "key": key, "lookup": outcome}


def _is_unavailable(result: Any) -> bool:
    # A memory that is disabled or broken returns no results and reports the reason in its details.
    details = result_details(result)
    is_disabled = details.get("disabled") is True or details.get("unavailable") is True
    return is_disabled or _message_of(details.get("error")) is not None


def _found_anything(result: Any) -> bool:
    has_details = isinstance(result, Mapping) and result.get("details") is not None
    found = result_details(result) if has_details or not isinstance(result, Mapping) else result
    for name in ("results", "matches", "hits"):
        if isinstance(found.get(name), list):
            return bool(found[name])
    text = found.get("text")
    return bool((text if isinstance(text, str) else result_text(result) or "").strip())
