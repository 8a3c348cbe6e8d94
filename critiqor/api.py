"""The public Python API: recorded runs as objects, and the diagnosis of runs and files."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from critiqor.errors import UsageError
from critiqor.model import Diagnosis, Event, Finding
from critiqor.run.store import DEFAULT_RUNS_DIR, RunStore
from critiqor.run.store import Run as StoredRun
from critiqor.storage.seals.verification import Verification

if TYPE_CHECKING:
    from critiqor.exporters import Export
    from critiqor.policy.policy_file import Policy

__all__ = ["Diagnosis", "Event", "Finding", "Run", "Verification", "diagnose", "runs"]


class Run(StoredRun):
    """A recorded run. Nothing is read until a method is called, and nothing is kept."""

    def export(
        self,
        format: str,
        output: str | Path | BinaryIO | None = None,
        *,
        content: bool = False,
        policy: Policy | None = None,
    ) -> Export:
        """Write the run in a format of `critiqor export`: to a file, a stream, or `<run><suffix>` in this folder.

        `content` includes arguments, outputs and messages, in formats that can contain them; `policy` is checked by the
        format `junit`.
        """
        from critiqor.dashboard import offline_pages
        from critiqor.exporters import ExportOptions, export_run
        from critiqor.policy.policy_file import DEFAULT_POLICY

        options = ExportOptions(content, DEFAULT_POLICY if policy is None else policy, offline_pages)
        return export_run(self, format, Path(output) if isinstance(output, str) else output, options)


def runs(runs_dir: str | Path = DEFAULT_RUNS_DIR) -> list[Run]:
    """Return every run of a runs folder, oldest first."""
    paths = RunStore(runs_dir).paths
    return [Run(run_id, paths) for run_id in paths.run_ids()]


def diagnose(what: StoredRun | str | Path) -> Diagnosis:
    """Diagnose a run, or a file: a session.json, or a trace in a format that `critiqor import` reads.

    A run is diagnosed again from its sealed evidence, and the diagnosis is saved, as by `critiqor diagnose`. For a
    file, nothing is written.
    """
    from critiqor.run.diagnosis import diagnose as diagnose_run

    if isinstance(what, StoredRun):
        return diagnose_run(what)
    file = Path(what)
    if not file.is_file():
        raise UsageError(f"there is no file {file}", fix=f"for a recorded run: diagnose(Run.load({file.name!r}))")
    return _diagnose_only_trace(file)


def _diagnose_only_trace(file: Path) -> Diagnosis:
    from critiqor.importers import read_traces
    from critiqor.run.diagnosis import diagnose_trace
    from critiqor.storage.seals.digests import file_digest

    traces = list(islice(read_traces(file), 2))
    if len(traces) != 1:
        fix = f"critiqor diagnose {file} --json (one line per trace), or critiqor import {file} (one run per trace)"
        raise UsageError(f"{file.name} has {'several traces' if traces else 'no trace'}", fix=fix)
    return diagnose_trace(traces[0], file_digest(file) or "" if traces[0].coverage is not None else "")
