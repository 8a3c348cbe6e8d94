"""The documented functions of a session: create, append, finalize, abort, import, diagnose, load.

They take run ids or records and return dictionaries; `critiqor.run` has the same with types.
Importing it loads no detector: the diagnosis is imported when a run is finalized.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from critiqor.model import Event, Metadata, RunHead
from critiqor.run.active_slot import active_record
from critiqor.run.lifecycle import abort, append_lifecycle_event, start_session
from critiqor.run.store import DEFAULT_RUNS_DIR, Run, RunStore
from critiqor.storage import SessionPaths, paths_for, write_json
from critiqor.storage import run_record as records
from critiqor.storage.normalization import normalize_plugin_event
from critiqor.storage.paths import checked_slot

if TYPE_CHECKING:
    from critiqor.importers import ImportedTrace
    from critiqor.policy.contract import Contract

__all__ = [
    "SessionPaths",
    "abort_session",
    "append_event_to_run",
    "complete_session",
    "create_attached_session",
    "create_session",
    "diagnose_run",
    "finalize_session",
    "import_run",
    "load_active_session",
    "load_diagnosis",
    "load_record",
    "load_record_head",
    "load_session_evidence_events",
    "normalize_plugin_event",
    "paths_for",
    "refresh_live_evidence",
    "request_finalize",
    "write_json",
]

RunReference = str | Mapping[str, Any]
"""A run named by its id or by its record."""


def create_session(
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    agent_id: str = Metadata().agent_id,
    tenant_id: str = Metadata().tenant_id,
    framework: str = Metadata().framework,
    visibility: str = Metadata().visibility,
    benchmark_id: str = Metadata().benchmark_id,
    difficulty_tier: str = Metadata().difficulty_tier,
    slot: str | None = None,
) -> dict[str, Any]:
    """Start a session: claim the active slot and write the record of a new run, MONITORING. Return the record.

    Several sessions of one folder need a `slot` each. Raise `ActiveSessionError` while another session holds the slot.
    """
    named = {"agent_id": agent_id, "tenant_id": tenant_id, "framework": framework, "visibility": visibility}
    metadata = Metadata.parse(**named, benchmark_id=benchmark_id, difficulty_tier=difficulty_tier)
    return _as_dict(start_session(RunStore(runs_dir), metadata, slot=checked_slot(slot)))


def create_attached_session(runs_dir: str | Path = DEFAULT_RUNS_DIR, **metadata: str) -> dict[str, Any]:
    """Start a session for an OpenClaw that Critiqor did not launch. No process owns it, so it is never abandoned."""
    return _as_dict(start_session(RunStore(runs_dir), Metadata.parse(**metadata), owned=False))


def append_event_to_run(
    run: RunReference, event: Mapping[str, Any], runs_dir: str | Path = DEFAULT_RUNS_DIR
) -> dict[str, Any] | None:
    """Write a lifecycle event into the run record. Return the written event, or None if the run accepts no more events.

    `event` needs an `event_type`; `payload`, `status` and `error` are optional; all other keys are moved into the
    payload.
    """
    return append_lifecycle_event(RunStore(runs_dir).run(_run_id(run)), event)


def refresh_live_evidence(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> None:
    """Update session.json of an unsealed run from its journal, after its recorder was killed."""
    from critiqor.run.recovery import refresh_live_document

    refresh_live_document(RunStore(runs_dir).run(run_id))


def abort_session(
    run: RunReference | None = None,
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    reason: str = "aborted on request",
    slot: str | None = None,
) -> dict[str, Any]:
    """Set a session to ABORTED and free its slot. The recorded events are kept and can still be diagnosed."""
    store = RunStore(runs_dir)
    return _as_dict(abort(_named_run(run, store), store, reason, checked_slot(slot)))


def request_finalize(run: RunReference | None = None, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """Set a session to FINALIZING, in its record and in the active slot, and fix the end of its evidence.

    The default is the active session. A session that is already FINALIZING or COMPLETED is not changed. Return the head
    of the record.
    """
    from critiqor.run.finalization import begin_finalization

    store = RunStore(runs_dir)
    return _as_dict(begin_finalization(_named_run(run, store), store).head())


def finalize_session(
    run: RunReference | None = None, runs_dir: str | Path = DEFAULT_RUNS_DIR, slot: str | None = None
) -> dict[str, Any]:
    """Seal the evidence of a session, diagnose it and complete its record. Return the whole record.

    The default is the active session of the slot. It can be called repeatedly, concurrently, and after a kill: the
    evidence is the same, byte for byte.
    """
    from critiqor.run.finalization import finalize

    store = RunStore(runs_dir)
    finalized = finalize(_named_run(run, store), store, slot=checked_slot(slot))
    return cast("dict[str, Any]", msgspec.json.decode(finalized.record_path.read_bytes()))


def complete_session(
    run: RunReference | None = None,
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    observe: Callable[[Event], None] | None = None,
    contracts: "Sequence[Contract]" = (),
    slot: str | None = None,
) -> dict[str, Any]:
    """Finalize a session like `finalize_session`, but return the record without its event log, which can be large.

    `observe` is called with every event while it is sealed, to show progress. `contracts` of a policy are checked, too.
    """
    from critiqor.run.finalization import finalize

    store = RunStore(runs_dir)
    return _with_diagnosis(finalize(_named_run(run, store), store, observe, contracts, checked_slot(slot)))


def import_run(trace: "ImportedTrace", runs_dir: str | Path = DEFAULT_RUNS_DIR, **metadata: str) -> dict[str, Any]:
    """Create a run from an imported trace: seal its events, diagnose them and complete the record.

    `metadata` takes the names that `create_session` takes. Return the record without its event log.
    """
    from critiqor.run.importing import import_trace

    return _with_diagnosis(import_trace(trace, RunStore(runs_dir), metadata))


def load_active_session(runs_dir: str | Path = DEFAULT_RUNS_DIR, slot: str | None = None) -> dict[str, Any] | None:
    """Return the record of the session that holds the slot: only MONITORING and FINALIZING are active."""
    record = active_record(paths_for(runs_dir), checked_slot(slot))
    return None if record is None else _as_dict(record)


def load_record(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """Return the record of a session that is or was recorded, event log included."""
    return _as_dict(RunStore(runs_dir).run(run_id).record())


def load_record_head(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """Return the record of a session without its diagnosis and event log, however large the run is."""
    return _as_dict(RunStore(runs_dir).run(run_id).head())


def load_session_evidence_events(run: RunReference, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> list[dict[str, Any]]:
    """Return all events of a run, normalised and in true order, whether it is sealed yet or not."""
    return [msgspec.to_builtins(event) for event in RunStore(runs_dir).run(_run_id(run)).events()]


def diagnose_run(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """Diagnose a run again from its sealed evidence, which is not changed. An aborted run is sealed first."""
    from critiqor.run.diagnosis import diagnose

    return cast("dict[str, Any]", msgspec.to_builtins(diagnose(RunStore(runs_dir).run(run_id))))


def load_diagnosis(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> dict[str, Any]:
    """Return the diagnosis of a run that was saved last, as a dictionary; `diagnose_run` makes a new one."""
    paths = RunStore(runs_dir).paths
    return cast("dict[str, Any]", msgspec.to_builtins(records.load_diagnosis(paths, run_id)))


def _run_id(run: RunReference) -> str:
    return run if isinstance(run, str) else str(run["run_id"])


def _named_run(run: RunReference | None, store: RunStore) -> Run | None:
    return store.run(_run_id(run)) if run else None


def _as_dict(record: RunHead) -> dict[str, Any]:
    return cast("dict[str, Any]", msgspec.to_builtins(record))


def _with_diagnosis(run: Run) -> dict[str, Any]:
    diagnosis = msgspec.to_builtins(run.diagnosis)
    parts = ("headline", "trust_score", "confidence_score", "failure_analysis", "causal_graph", "cost_analysis")
    return {**_as_dict(run.head()), "diagnosis": diagnosis, **{name: diagnosis[name] for name in parts}}
