"""Memory lookups that a tool call makes: which tools make them, what is looked up, and how the lookup ended.

The recorder plugin applies the same rules (`memoryLookup` in its `events.js`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict, TypeGuard

from critiqor.spans.tool_results import error_message, result_details, result_text

_MEMORY_TOOLS = frozenset(("memory_search", "memory_get"))


class LookupFacts(TypedDict):
    """The members of a memory event's payload that describe the lookup."""

    query: str | None
    key: Any
    lookup: Literal["pending", "found", "empty", "error"]


def is_memory_tool(name: str | None) -> TypeGuard[str]:
    """Return whether the calls of a tool are memory lookups."""
    return name in _MEMORY_TOOLS


def memory_lookup(arguments: Any, result: Any, *, has_ended: bool, failed: bool) -> LookupFacts:
    """Return what a tool call looked up in memory and how the lookup ended, for the memory event that is recorded."""
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
    return is_disabled or error_message(details.get("error")) is not None


def _found_anything(result: Any) -> bool:
    has_details = isinstance(result, Mapping) and result.get("details") is not None
    found = result_details(result) if has_details or not isinstance(result, Mapping) else result
    for name in ("results", "matches", "hits"):
        if isinstance(found.get(name), list):
            return bool(found[name])
    text = found.get("text")
    return bool((text if isinstance(text, str) else result_text(result) or "").strip())
