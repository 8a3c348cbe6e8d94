"""Recovery of a run whose record was lost or cannot be read: a new record from its journal, evidence and diagnosis.

The files of the run are only read. A sealed session.json keeps its bytes, and a record that cannot be read is kept
beside it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import msgspec

from critiqor.errors import BrokenRecordError, CritiqorError, UsageError
from critiqor.model import Diagnosis, Event, Metadata, Seal, SessionRecord, iso_from_ms, now_ms
from critiqor.model.event import EventType, place_of
from critiqor.model.record import Cut, Status, Timestamps, Transition, VisibilityChange
from critiqor.run.importing import IMPORTED
from critiqor.run.owner import this_process
from critiqor.run.store import Run, RunStore
from critiqor.storage import exclusive
from critiqor.storage import run_record as records
from critiqor.storage.lock import is_sealed
from critiqor.storage.paths import checked_slot
from critiqor.storage.seals.digests import file_digest
from critiqor.storage.session_document import events_extent, read_coverage, readable_events, write_live_document

DAMAGED_RECORD = "record.damaged.json"
"""Name of a record that could not be read, in the folder of its run."""
DAMAGED_EVIDENCE = "session.damaged.json"
"""Name of the copy of a sealed session.json that cannot be read, because sealing again replaces the file."""


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """What was rebuilt of a run."""

    run_id: str
    status: Status
    events: int
    """Events that can be read."""
    restored: list[str]
    """What the new record has, and where it comes from, in sentences."""
    lost: list[str]
    """What could not be restored or not be checked, in sentences."""


def recover(run: Run, metadata: Mapping[str, str]) -> Recovery:
    """Rebuild the record of a run from its other files. `metadata` replaces what was lost of whose run it is.

    Raise an error if the record can be read, or if there is nothing to rebuild it from.
    """
    paths = run.paths
    with exclusive(paths.finalize_lock_path(run.id)), exclusive(paths.lock_path):
        _refuse_readable(run)
        rebuilt = _Rebuilt(run, metadata)
        _keep_damaged_record(run)
        rebuilt.save()
    return rebuilt.result()


def run_to_recover(store: RunStore) -> Run:
    """Return the only run of a folder whose record is lost or cannot be read. Raise an error if there is not one."""
    found = [*store.paths.lost_run_ids(), *(run.id for run in store.runs() if _is_broken(run))]
    if len(found) == 1:
        return store.run(found[0])
    if not found:
        raise UsageError("every run in this folder has a record that can be read", fix="critiqor runs")
    message = f"the records of {len(found)} runs are lost or cannot be read; recover them one by one"
    raise UsageError(message, fix="\n    ".join(f"critiqor recover {run_id}" for run_id in found))


def _is_broken(run: Run) -> bool:
    try:
        run.record()
    except (CritiqorError, OSError):
        return True
    return False


def _refuse_readable(run: Run) -> None:
    if run.record_path.exists() and not _is_broken(run):
        message = f"the record of {run.id} can be read; nothing has to be recovered"
        raise UsageError(message, fix=f"critiqor show {run.id}")
    if not run.folder.is_dir():
        run.record()  # raises the error for a run that does not exist, or that is only a broken record


def _keep_damaged_record(run: Run) -> None:
    """Move a record that cannot be read into the folder of its run; an earlier one is not replaced."""
    if not run.record_path.exists():
        return
    kept = run.folder / DAMAGED_RECORD
    number = 1
    while kept.exists():
        number += 1
        kept = run.folder / f"{DAMAGED_RECORD.removesuffix('.json')}-{number}.json"
    run.record_path.rename(kept)


class _Rebuilt:
    """A record while it is rebuilt."""

    def __init__(self, run: Run, metadata: Mapping[str, str]) -> None:
        self._run = run
        self._restored: list[str] = []
        self._lost: list[str] = []
        self._old = _Remains(run.record_path)
        self._diagnosis = self._read_diagnosis()
        self._is_sealed = self._was_sealed()
        self._events = self._read_events()
        self._supervised = self._read_supervised()
        if not self._events and not self._is_sealed:
            raise BrokenRecordError(
                f"{run.folder} has no journal and no evidence with events, so {run.id} cannot be rebuilt",
                fix=f"restore {run.record_path.name} from a backup",
            )
        self._record = self._new_record(metadata)
        if self._is_sealed:
            self._add_seal()

    def save(self) -> None:
        """Write the record. The events of sealed evidence are copied into it, as finalizing does."""
        paths, record = self._run.paths, self._record
        extent = events_extent(self._run.evidence_path) if record.status == "COMPLETED" else None
        if extent is not None:
            records.save_completed(paths, record, *extent)
        else:
            records.save(paths, record)

    def result(self) -> Recovery:
        return Recovery(
            run_id=self._run.id,
            status=self._record.status,
            events=len(self._events),
            restored=self._restored,
            lost=self._lost,
        )

    def _read_diagnosis(self) -> Diagnosis | None:
        if not self._run.diagnosis_path.exists():
            return None
        try:
            return records.load_diagnosis(self._run.paths, self._run.id)
        except (CritiqorError, OSError):
            self._lost.append("diagnosis.json cannot be read")
            return None

    def _was_sealed(self) -> bool:
        """Return whether session.json is sealed evidence. One that can be sealed again is copied."""
        document = self._run.evidence_path
        if not document.is_file():
            if self._diagnosis is not None:
                self._lost.append("session.json, the sealed evidence, is gone; the run can be sealed again")
            return False
        try:
            read_coverage(document)
        except (CritiqorError, OSError):
            if self._diagnosis is not None:
                return True
            if is_sealed(self._run.paths.session_lock_path(self._run.id)):
                shutil.copyfile(document, document.with_name(DAMAGED_EVIDENCE))
                self._lost.append(
                    f"the end of session.json: it is not sealed evidence, and a copy is kept as {DAMAGED_EVIDENCE}"
                )
            return False
        return True

    def _read_events(self) -> list[str]:
        """Return the ids of the events that can be read: of the sealed evidence, else of the journal."""
        self._sealed_supervised: list[Event] = []
        if not self._is_sealed:
            found = [event.event_id for event in self._run.events_without_record()]
            source = "journal.jsonl" if self._run.paths.journal_path(self._run.id).exists() else "session.json"
            if found:
                self._restored.append(f"{len(found)} events from {source}, not sealed yet")
            return found
        found = []
        for event in readable_events(self._run.evidence_path):
            found.append(event.event_id)
            if event.source_layer == "supervisor":
                self._sealed_supervised.append(event)
        self._restored.append(f"{len(found)} sealed events in session.json, which was not changed")
        return found

    def _read_supervised(self) -> list[Event]:
        """Return the lifecycle events: those in the evidence, else what is left of them in the old record."""
        if self._is_sealed:
            return self._sealed_supervised
        found = []
        for entry in self._old.member("event_log", list[Any]) or []:
            with suppress(msgspec.ValidationError):
                found.append(msgspec.convert(entry, Event))
        if found:
            self._restored.append(f"{len(found)} lifecycle events from the damaged record")
        else:
            self._lost.append("the lifecycle events: how and when OpenClaw was launched and how it ended")
        return found

    def _new_record(self, named: Mapping[str, str]) -> SessionRecord:
        transitions = [
            Transition(state, event.timestamp)
            for event in self._supervised
            if event.event_type == EventType.STATE_TRANSITION and (state := _state(event)) is not None
        ]
        begin = self._begin()
        record = SessionRecord(
            run_id=self._run.id,
            status=transitions[-1].state if transitions else "IDLE",
            lifecycle=[Transition("IDLE", begin), *transitions],
            timestamps=self._old.member("timestamps", Timestamps) or Timestamps(created_at=begin, started_at=begin),
            metadata=self._metadata(named),
            owner=this_process(),
            slot=self._slot(),
            recording=self._old.member("recording", str),
            continues=self._old.member("continues", str),
            segment=self._old.member("segment", str),
            visibility_changes=self._old.member("visibility_changes", list[VisibilityChange]) or [],
            event_log=[msgspec.to_builtins(event) for event in self._supervised],
        )
        if not self._is_sealed and record.status != "ABORTED":
            # Its cut is unknown, so finalizing starts again.
            records.change_state(record, "MONITORING", now_ms(), recovered=True)
        return record

    def _slot(self) -> str | None:
        slot = self._old.member("slot", str)
        try:
            return checked_slot(slot)
        except UsageError:
            self._lost.append("the slot: what the damaged record names is no name of a slot")
            return None

    def _metadata(self, named: Mapping[str, str]) -> Metadata:
        old: Metadata | None = self._old.member("metadata", Metadata)
        if old is not None:
            self._restored.append("agent, tenant, benchmark and visibility from the damaged record")
            return Metadata.parse(**{**msgspec.structs.asdict(old), **named})
        if any(event.event_type == EventType.RUN_IMPORTED for event in self._supervised):
            named = {**IMPORTED, **named}
        unknown = [name for name in ("agent_id", "tenant_id", "visibility", "benchmark_id") if name not in named]
        if unknown:
            options = ", ".join(f"--{name.replace('_', '-')}" for name in unknown)
            self._lost.append(f"what these options name, which are set to their defaults: {options}")
        return Metadata.parse(**named)

    def _add_seal(self) -> None:
        document, record = self._run.evidence_path, self._record
        found = file_digest(document) or ""
        named = self._diagnosis.evidence_digest if self._diagnosis is not None else None
        digest = named or found
        if named is None:
            self._lost.append("the digest of the seal: it is taken from session.json as it is now, and was not checked")
        elif named == found:
            self._restored.append("the seal: session.json has the digest that diagnosis.json names")
        else:
            self._lost.append("session.json does not have the digest that diagnosis.json names: it was changed")
        moment = self._diagnosis.generated_at if self._diagnosis is not None else iso_from_ms(now_ms())
        record.seal = Seal(digest, document.stat().st_size, len(self._events), moment)
        record.cut = self._cut()
        if record.status != "ABORTED":
            records.change_state(record, "COMPLETED", now_ms(), recovered=True)
        record.timestamps = msgspec.structs.replace(record.timestamps, finalized_at=moment)
        if self._diagnosis is not None:
            records.set_diagnosis(record, self._diagnosis)
            self._restored.append("the diagnosis from diagnosis.json")
        else:
            self._lost.append("the diagnosis")

    def _cut(self) -> Cut | None:
        try:
            coverage = read_coverage(self._run.evidence_path)
        except (CritiqorError, OSError):
            return None
        size = coverage.timeline.bytes if coverage.timeline is not None else None
        return Cut(coverage.journal_bytes, len(self._supervised), size)

    def _begin(self) -> str:
        """Return when the run began: at its first event, or when its folder was changed."""
        places = [place for event_id in self._events if (place := place_of(event_id)) is not None]
        first = min((place.milliseconds for place in places), default=None)
        return iso_from_ms(first if first is not None else self._run.folder.stat().st_mtime_ns // 1_000_000)


class _Remains:
    """The members of a record that cannot be read as a whole, as far as each of them can be read."""

    def __init__(self, path: Path) -> None:
        self._members: dict[str, Any] = {}
        with suppress(OSError):
            if path.is_file():
                self._members = records.readable_members(path.read_bytes())

    def member(self, name: str, kind: Any) -> Any:
        """Return a member as its type; None if it is missing or has another type."""
        try:
            # Half a character becomes a question mark.
            data = json.dumps(self._members.get(name), ensure_ascii=False).encode("utf-8", "replace")
            return msgspec.json.decode(data, type=kind | None)
        except (ValueError, RecursionError, msgspec.DecodeError):
            return None


def _state(event: Event) -> Status | None:
    return next((state for state in get_args(Status) if state == event.payload.get("to")), None)


def refresh_live_document(run: Run) -> None:
    """Update session.json of an unsealed run from its journal, after its recorder was killed."""
    paths = run.paths
    # A finalize takes this lock before it locks session.json permanently.
    with exclusive(paths.finalize_lock_path(run.id)):
        if paths.journal_path(run.id).exists() and not paths.session_lock_path(run.id).exists():
            write_live_document(paths, run.id)
