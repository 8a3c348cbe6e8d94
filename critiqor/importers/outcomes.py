"""What counts as a failure and what a memory lookup found: the recorder's own rules, for what it did not record.

OpenClaw does not call a command that exits non-zero an error; for whoever asks whether the tests passed, it is one.
"""

from __future__ import annotations

from typing import Any

from critiqor.importers.values import as_list, as_object, as_text

_MEMORY_TOOLS = frozenset({"memory_search", "memory_get"})
_BAD_STATES = frozenset({"error", "failed", "timeout"})


def tool_failure(result: Any, *, is_error: bool) -> str | None:
    """Why a tool result counts as a failure, in words, or None; an empty text where nobody said why."""
    details = as_object(as_object(result).get("details"))
    if is_error:
        return _said(details.get("error")) or result_text(result) or ""
    code = exit_code(result)
    if code:
        return f"exit code {code}"
    if signal := _said(details.get("exitSignal")):
        return f"ended by {signal}"
    if details.get("timedOut") is True or details.get("noOutputTimedOut") is True:
        return "timed out"
    if as_text(details.get("status")) in _BAD_STATES:
        return _said(details.get("error")) or result_text(result) or ""
    return None


def exit_code(result: Any) -> int | None:
    """How a command ended, where the result is of one."""
    code = as_object(as_object(result).get("details")).get("exitCode")
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def result_text(result: Any) -> str | None:
    """The first text of a tool result."""
    if isinstance(result, str):
        return result or None
    parts = as_list(result.get("content") if isinstance(result, dict) else result)
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return next((text for text in texts if isinstance(text, str) and text), None)


def is_memory_tool(name: str | None) -> bool:
    """Whether a tool looks something up in memory."""
    return name in _MEMORY_TOOLS


def memory_lookup(arguments: Any, result: Any, *, failed: bool, ended: bool) -> dict[str, Any]:
    """What was looked up, and how the lookup ended: `pending`, `found`, `empty` or `error`."""
    asked = as_object(arguments)
    query = asked.get("query")
    keys = (asked[name] for name in ("key", "path", "id") if asked.get(name) is not None)
    lookup = {"query": query if isinstance(query, str) else None, "key": next(keys, None)}
    if not ended:
        return {**lookup, "lookup": "error" if failed else "pending"}
    if failed or _is_unavailable(as_object(as_object(result).get("details"))):
        return {**lookup, "lookup": "error"}
    return {**lookup, "lookup": "found" if _found_anything(result) else "empty"}


def _is_unavailable(details: dict[str, Any]) -> bool:
    # A memory that is switched off or broken answers with no results, and says so beside them.
    return details.get("disabled") is True or details.get("unavailable") is True or bool(_said(details.get("error")))


def _found_anything(result: Any) -> bool:
    details = as_object(as_object(result).get("details")) or as_object(result)
    for name in ("results", "matches", "hits"):
        if isinstance(details.get(name), list):
            return bool(details[name])
    if isinstance(details.get("text"), str):
        return bool(details["text"].strip())
    return bool((result_text(result) or "").strip())


def _said(error: Any) -> str | None:
    if isinstance(error, dict):
        error = error.get("message")
    return error if isinstance(error, str) and error else None
