"""Pushing runs to a store in the background, after a verb has sealed or diagnosed them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.output import say

if TYPE_CHECKING:
    from critiqor.run.store import Run


def push_sealed(runs: Sequence[Run], began: str | None = None) -> None:
    """Push runs that a verb has just sealed or diagnosed in the background, if the settings say so, and print that."""
    from critiqor.cli.settings import has_user_settings

    if has_user_settings():
        from critiqor.fleet.store.after_seal import push_in_background

        for message, fix in push_in_background(runs, began):
            say(message if fix is None else f"{message}\n  → {add_runs_dir(fix)}")
