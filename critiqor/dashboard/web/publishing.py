"""Letting others see a run, and withdrawing it."""

from __future__ import annotations

from critiqor.dashboard.web.links import Links
from critiqor.run.visibility import Standing, change_visibility
from critiqor.storage import SessionPaths


def publish(paths: SessionPaths, run_id: str, to: str) -> Standing:
    """Change who sees a run. One that becomes private loses its links: sharing it again revives none of them."""
    standing = change_visibility(run_id, to, paths.runs_dir)
    if standing.visibility == "private":
        Links(paths).revoke_all(run_id)
    return standing
