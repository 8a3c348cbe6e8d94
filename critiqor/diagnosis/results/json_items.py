"""Items of a JSON answer: what they are called, and how many of them failed."""

from __future__ import annotations

from typing import Any, NamedTuple

from critiqor.diagnosis.results.state_words import StateWords, name_of, state_words

_MAX_NAME = 80
_MAX_NAMES = 50
_MAX_PARTS = 4
"""Maximum number of words in the name of a member that counts items."""


class Count(NamedTuple):
    """A member that counts items."""

    key: str
    number: int


def item_name(item: Any) -> str:
    """Return what an item is called; empty if nothing tells."""
    if isinstance(item, str):
        return item[:_MAX_NAME]
    if not isinstance(item, dict):
        return ""
    named = {name_of(key): value for key, value in item.items() if isinstance(value, str | int)}
    for name in state_words().names:
        value = named.get(name)
        if value is not None and not isinstance(value, bool) and len(str(value)) <= _MAX_NAME:
            return str(value)
    return ""


def names_of(items: Any) -> tuple[str, ...]:
    """Return the names of the items of a list, or of an object with one member for each."""
    if isinstance(items, dict):
        return tuple(items)[:_MAX_NAMES]
    if not isinstance(items, list):
        return ()
    return tuple(name for item in items[:_MAX_NAMES] if (name := item_name(item)))


def counts_of(value: dict[str, Any], known: StateWords) -> dict[str, Count]:
    """Return how many items failed, passed and exist by the members of a JSON object: numbers or lists of items."""
    found: dict[str, Count] = {}
    for key, member in value.items():
        if type(member) is int:
            number = member
        elif type(member) is list or type(member) is dict:
            number = len(member)
        else:
            continue
        name = name_of(key)
        for kind in ("failed", "passed", "total"):
            if _counts(name, kind, known) and not (kind == "total" and type(member) is dict):
                if kind not in found:
                    found[kind] = Count(key, number)
                elif kind == "passed" and type(member) is int:
                    # Some were created, others updated.
                    found[kind] = Count(found[kind].key, found[kind].number + number)
    return found


def _counts(name: str, kind: str, known: StateWords) -> bool:
    lists = known.lists
    if name in lists[f"{kind}_members"] or name.replace("_", "") in lists[f"{kind}_members"]:
        return True
    parts = name.split("_")
    if len(parts) > _MAX_PARTS or not lists["attempt_words"].isdisjoint(parts):
        return False
    return parts[0] in lists[f"{kind}_words"] or parts[-1] in lists[f"{kind}_words"]
