"""The pages of a run as one file, for verbs that write them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path


def pages(run_id: str, runs_dir: str | Path) -> Iterator[bytes]:
    """Drawn by the dashboard, which is imported only where something is drawn."""
    from critiqor.dashboard.render.offline import offline_pages

    return offline_pages(run_id, runs_dir)
