"""Settings of OpenClaw as tables within tables: finding, joining and patching them, as `openclaw config patch` does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Keys = tuple[str, ...]
"""Where a setting is: its keys, from the root of the configuration."""


def setting_at(document: Any, keys: Keys) -> Any:
    """The setting under these keys; None where there is none."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def joined(before: Any, value: Any) -> Any:
    """A setting of the user's with ours: tables are merged, lists are joined, and of anything else ours counts."""
    if isinstance(before, dict) and isinstance(value, dict):
        return before | {key: joined(before.get(key), each) for key, each in value.items()}
    if isinstance(before, list) and isinstance(value, list):
        return [*before, *(item for item in value if item not in before)]
    return value


def as_patch(settings: Mapping[Keys, Any]) -> dict[str, Any]:
    """Settings as `config patch` takes them."""
    root: dict[str, Any] = {}
    for keys, value in settings.items():
        table = root
        for key in keys[:-1]:
            table = table.setdefault(key, {})
        table[keys[-1]] = value
    return root


def patched(document: Any, patch: Any) -> Any:
    """What `config patch` makes of a document: tables are merged, null takes a setting away, the rest is replaced."""
    if not isinstance(patch, dict):
        return patch
    table = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            table.pop(key, None)
        else:
            table[key] = patched(table.get(key), value)
    return table


def patch_between(now: Any, wanted: Any) -> Any:
    """The patch that makes `wanted` of `now`; None takes it away."""
    if not isinstance(now, dict) or not isinstance(wanted, dict):
        return wanted
    changed = {key: patch_between(now.get(key), value) for key, value in wanted.items() if now.get(key) != value}
    return dict.fromkeys(now.keys() - wanted.keys()) | changed
