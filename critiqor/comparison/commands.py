"""Commands that comparisons suggest: to diagnose a run again, or to show it."""

from __future__ import annotations


def diagnose_command(run_id: str, placeholder: str | None = None) -> str:
    """Return the command that diagnoses a run again; a run of a store is named `HOST/RUN`, as no run of a folder is."""
    return "critiqor fleet diagnose" if "/" in run_id else f"critiqor diagnose {placeholder or run_id}"


def show_command(run_id: str) -> str:
    """Return the command that shows a run, or that fetches it from its store."""
    return f"critiqor {'pull' if '/' in run_id else 'show'} {run_id}"
