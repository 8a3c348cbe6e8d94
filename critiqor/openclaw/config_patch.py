"""Patches of OpenClaw's settings, as `openclaw config patch` takes and applies them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Keys = tuple[str, ...]
"""Path of a setting: its keys from the root of the configuration."""


def setting_at(document: Any, keys: Keys) -> Any:
    """Return the setting that a patch with these keys would change; None if it is not set."""
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document


def merge_setting(before: Any, value: Any) -> Any:
    """Return a setting of a patch that adds to the user's: tables are merged, lists joined, other values replaced."""
    if isinstance(before, dict) and isinstance(value, dict):
        return before | {key: merge_setting(before.get(key), each) for key, each in value.items()}
    if isinstance(before, list) and isinstance(value, list):
        return [*before, *(item for item in value if item not in before)]
    return value


def as_patch(settings: Mapping[Keys, Any]) -> dict[str, Any]:
    """Return settings as a patch: nested tables, the input of `openclaw config patch`."""
    root: dict[str, Any] = {}
    for keys, value in settings.items():
        table = root
        for key in keys[:-1]:
            table = table.setdefault(key, {})
        table[keys[-1]] = value
    return root


def apply_patch(document: Any, patch: Any) -> Any:
    """Return settings after `openclaw config patch`: tables are merged, null removes a setting, the rest replaced."""
    if not isinstance(patch, dict):
        return patch
    table = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            table.pop(key, None)
        else:
            table[key] = apply_patch(table.get(key), value)
    return table


def patch_between(now: Any, wanted: Any) -> Any:
    """Return the patch that turns the settings `now` into `wanted`; None removes a setting."""
    if not isinstance(now, dict) or not isinstance(wanted, dict):
        return wanted
    changed = {key: patch_between(now.get(key), value) for key, value in wanted.items() if now.get(key) != value}
    return dict.fromkeys(now.keys() - wanted.keys()) | changed
