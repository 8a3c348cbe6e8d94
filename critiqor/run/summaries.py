"""Summaries of all runs of a folder, from which runs are ranked and trends are made."""

from __future__ import annotations

from critiqor.errors import CritiqorError
from critiqor.model import Metadata
from critiqor.model.report import RunSummary
from critiqor.run.store import Run, RunStore
from critiqor.run.view import RunView


def summarize_runs(store: RunStore) -> list[RunSummary]:
    """Summarize every run of a folder, in order of time. A broken run is listed with its problem."""
    return sorted(map(_summarize, store.runs()), key=lambda summary: summary.created_at or "")


def _summarize(run: Run) -> RunSummary:
    created_at: str | None = None
    metadata: Metadata | None = None
    try:
        view = RunView(run)
        created_at, metadata = view.head.timestamps.created_at, view.head.metadata
        return RunSummary(run_id=run.id, created_at=created_at, metadata=metadata, diagnosis=view.require_proof())
    except CritiqorError as error:
        problem, fix = error.message, error.fix
    except OSError as error:
        problem, fix = str(error), None
    return RunSummary(run_id=run.id, created_at=created_at, metadata=metadata, undiagnosed=problem, fix=fix)
