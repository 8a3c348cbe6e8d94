"""The documented functions of a session: create, append, finalize, abort, load.

A thin facade over `critiqor.run` and `critiqor.storage` that takes run ids or records and returns dictionaries.
Importing it loads no detector: the diagnosis is imported when a run is finalized.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from critiqor.model import Event
from critiqor.run.lifecycle import (
    RunReference,
    abort_session,
    append_event_to_run,
    as_dict,
    create_attached_session,
    create_session,
    refresh_live_evidence,
    request_finalize,
    run_id_of,
)
from critiqor.run.store import DEFAULT_RUNS_DIR, Run, RunStore
from critiqor.storage import SessionPaths, paths_for, write_json
from critiqor.storage import run_record as records
from critiqor.storage.normalization import normalize_plugin_event

if TYPE_CHECKING:
    from critiqor.importers import ImportedTrace

__all__ = [
    "SessionPaths",
    "abort_session",
    "append_event_to_run",
    "complete_session",
    "create_attached_session",
    "create_session",
    "evidence_events",
    "finalize_session",
    "import_run",
    "load_active_session",
    "load_record",
    "load_record_head",
    "load_session_evidence_events",
    "normalize_plugin_event",
    "owner_is_alive",
    "paths_for",
    "refresh_live_evidence",
    "request_finalize",
    "write_json",
]


def finalize_session(run: RunReference | None = None, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """Seal the evidence of a session, diagnose it and complete its record. Return the whole record.

    The default is the active session. It can be called repeatedly, concurrently, and after a kill: the evidence is the
    same, byte for byte.
    """
    from critiqor.run.finalization import finalize

    handle = finalize(run, RunStore(runs_dir))
    return cast("dict[str, Any]", msgspec.json.decode(handle.record_path.read_bytes()))


def complete_session(
    run: RunReference | None = None,
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    observe: Callable[[Event], None] | None = None,
) -> dict[str, Any]:
    """Finalize a session like `finalize_session`, but return the record without its event log, which can be large.

    `observe` is called with every event while it is sealed, to show progress.
    """
    from critiqor.run.finalization import finalize

    return _with_diagnosis(finalize(run, RunStore(runs_dir), observe))


def import_run(trace: "ImportedTrace", runs_dir: str | Path = DEFAULT_RUNS_DIR, **metadata: str) -> dict[str, Any]:
    """Create a run from an imported trace: seal its events, diagnose them and complete the record.

    `metadata` takes the names that `create_session` takes. Return the record without its event log.
    """
    from critiqor.run.importing import import_trace

    return _with_diagnosis(import_trace(trace, RunStore(runs_dir), metadata))


def load_active_session(runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any] | None:
    """Return the record of the session that holds the active slot: only MONITORING and FINALIZING are active."""
    record = records.active_record(paths_for(runs_dir))
    return None if record is None else as_dict(record)


def load_record(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """Return the whole run record, event log included."""
    return as_dict(RunStore(runs_dir).run(run_id).record())


def load_record_head(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """Return a run record without its diagnosis and event log, however large the run is."""
    return as_dict(RunStore(runs_dir).run(run_id).head())


def load_session_evidence_events(run: RunReference, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> list[dict[str, Any]]:
    """Return all events of a run, normalised and in true order, whether it is sealed yet or not."""
    return [msgspec.to_builtins(event) for event in evidence_events(run_id_of(run), runs_dir)]


def evidence_events(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> Iterator[Event]:
    """Yield the events of a run one by one: the sealed ones, or as they would be sealed now."""
    return RunStore(runs_dir).run(run_id).events()


def owner_is_alive(record: Mapping[str, Any]) -> bool:
    """Return whether the process that created a session still runs: the same pid with the same start time."""
    from critiqor.processes import is_alive

    owner = record.get("owner")
    return is_alive(owner["pid"], owner["started_at"]) if owner else False


def _with_diagnosis(run: Run) -> dict[str, Any]:
    diagnosis = msgspec.to_builtins(run.diagnosis())
    parts = ("failure_analysis", "causal_graph", "cost_analysis")
    return {**as_dict(run.head()), "diagnosis": diagnosis, **{name: diagnosis[name] for name in parts}}
