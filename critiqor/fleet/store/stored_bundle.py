"""Reading of bundles from a store. Others may have written them, so nothing in them is believed before it is checked.

The digest of a bundle is in its manifest. Only the names that a bundle has are read; sizes are bounded by what the
archive states, and what it states by the size of the archive.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import shutil
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from critiqor.errors import CritiqorError
from critiqor.fleet.errors import FleetError
from critiqor.fleet.manifest import Manifest
from critiqor.fleet.reference import reference_to
from critiqor.fleet.scratch import scratch_folder
from critiqor.fleet.store.object_store import MAX_SINGLE, FleetStore
from critiqor.fleet.store.origin import write_origin
from critiqor.model import Diagnosis, RunHead, SessionRecord
from critiqor.model.timestamps import ms_from_iso
from critiqor.run.store import Run
from critiqor.storage import exclusive, paths_for, take_permanent_lock
from critiqor.storage import run_record as records
from critiqor.storage.atomic import FILE_MODE, sync_folder
from critiqor.storage.paths import FOLDER_MODE, SessionPaths
from critiqor.storage.seals.diagnosis_seal import diagnosis_problem, find_seal
from critiqor.storage.seals.digests import file_digest
from critiqor.storage.seals.evidence_seal import SEALED_MODE
from critiqor.storage.session_document import events_extent

MAX_RECORD = 1 << 20
"""Largest head of a record in bytes."""
MAX_DIAGNOSIS = 64 << 20
"""Largest diagnosis in bytes."""
MAX_RATIO = 300
"""Most bytes of content for each byte of a large archive; recorded JSON is far below that, on average."""
MIN_ALLOWED = 128 << 20
"""Bytes of content that an archive of any size may have: an output of one repeated letter shrinks a thousandfold."""
_FILES = {
    "session.json": "session.json",
    "diagnosis.json": "diagnosis.json",
    "carried.jsonl": "carried.jsonl",
    "timeline.jsonl": "openclaw/timeline.jsonl",
    "annotations.json": "annotations.json",
}
"""Files of a bundle, and where they are in the folder of a run."""
_OTHER = frozenset({"record.json", "SHA256SUMS", "events.jsonl", "README.txt"})
_DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError, ValueError)
"""What reading a damaged or hostile archive raises."""


@contextlib.contextmanager
def open_bundle(store: FleetStore, manifest: Manifest) -> Iterator[zipfile.ZipFile]:
    """Open the bundle of a run. A small one is fetched at once and compared with its digest; of a large one, only
    what is read is fetched. Raise `FleetError` if it is missing or damaged."""
    path = manifest.bundle_path
    file: BinaryIO
    if manifest.bundle_size <= MAX_SINGLE:
        data = store.read(path, MAX_SINGLE)
        _compare(store, manifest, len(data), hashlib.sha256(data))
        file = io.BytesIO(data)
    else:
        file = store.reader(path)
    with file, _reported(store, manifest), zipfile.ZipFile(file) as archive:
        _check(archive, manifest)
        yield archive


def read_member(archive: zipfile.ZipFile, manifest: Manifest, name: str, limit: int) -> bytes:
    """Return a file of an open bundle. Raise `FleetError` if it is missing or larger than the limit."""
    try:
        info = archive.getinfo(f"{manifest.run_id}/{name}")
    except KeyError:
        raise FleetError(f"the bundle of {manifest.name} has no {name}") from None
    if info.file_size > limit:
        raise FleetError(f"{name} in the bundle of {manifest.name} is larger than the {limit:,} bytes it may have")
    with archive.open(info) as file:
        return file.read(limit + 1)


def read_diagnosis(store: FleetStore, manifest: Manifest) -> Diagnosis:
    """Return the diagnosis in the stored bundle of a run. Raise `FleetError` if there is none."""
    with open_bundle(store, manifest) as archive:
        data = read_member(archive, manifest, "diagnosis.json", MAX_DIAGNOSIS)
    return decode_diagnosis(data, manifest, is_sealed=manifest.content == "full")


def decode_diagnosis(data: bytes, manifest: Manifest, *, is_sealed: bool = True) -> Diagnosis:
    """Decode the diagnosis in a stored bundle. Raise `FleetError` if it was changed, or belongs to other evidence."""
    try:
        diagnosis = msgspec.json.decode(data, type=Diagnosis)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FleetError(f"the diagnosis of {manifest.name} cannot be read: {error}") from error
    if diagnosis.evidence_digest != manifest.seal or diagnosis.run_id != manifest.run_id:
        raise FleetError(f"the diagnosis of {manifest.name} belongs to other evidence")
    # Versions before the seal of diagnoses existed stored no runs, so one without a seal was changed.
    if is_sealed and (problem := diagnosis_problem(find_seal(data), is_required=True)) is not None:
        raise FleetError(f"{manifest.name}: {problem}")
    return diagnosis


def unpack_bundle(store: FleetStore, manifest: Manifest, runs_dir: Path, limit: int | None = None) -> Run:
    """Make the run of a bundle in a runs folder, unless it is there already. Return it.

    The files are compared with the digests of manifest and seal before the run appears in the folder. `limit` is the
    most that the bundle and its files may have together, in bytes. Raise `FleetError` if they differ or are larger, if
    another run has this id there, or if only structure was stored.
    """
    if manifest.content == "structure":
        message = f"{manifest.name} was pushed as structure: the store has no evidence of it"
        raise FleetError(message, fix=f"critiqor verify --store {store.url}")
    paths = paths_for(runs_dir)
    run = Run(manifest.run_id, paths)
    if _is_there(run, manifest):
        return run
    paths.runs_dir.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    with scratch_folder(".pull-", paths.runs_dir) as folder:
        unpacked = paths_for(folder)
        head = _unpack(store, manifest, unpacked, limit)
        _make_record(unpacked, head)
        with exclusive(paths.lock_path):
            if _is_there(run, manifest):
                return run
            # With the same evidence, it was left by a pull that was killed, or is a run whose record was lost.
            if not run.folder.exists():
                unpacked.run_folder(run.id).rename(run.folder)
            unpacked.run_path(run.id).rename(run.record_path)
            sync_folder(paths.runs_dir)
    return run


def _is_there(run: Run, manifest: Manifest) -> bool:
    """Return whether a run is in its folder. Raise `FleetError` if another run has its place."""
    if not run.record_path.exists():
        evidence = file_digest(run.evidence_path) if run.folder.exists() else manifest.seal
        is_free = evidence == manifest.seal
    else:
        try:
            seal = run.head().seal
        except CritiqorError:
            seal = None
        if seal is not None and seal.digest == manifest.seal:
            return True
        is_free = False
    if not is_free:
        message = f"another run in {run.paths.runs_dir} is called {run.id}"
        name = reference_to(manifest)  # two machines with one name have runs of one name, and one folder has no room
        fix = f"critiqor pull {name} --runs-dir runs-{name.replace('/', '-').replace('@', '-')}"
        raise FleetError(message, fix=fix)
    return False


def _unpack(store: FleetStore, manifest: Manifest, paths: SessionPaths, limit: int | None) -> RunHead:
    """Fetch a bundle and write its files into an empty runs folder. Return the head of the record."""
    _refuse_larger(manifest, 0, limit)
    run = Run(manifest.run_id, paths)
    run.folder.mkdir(mode=FOLDER_MODE)
    with tempfile.TemporaryFile(dir=paths.runs_dir) as file:
        digest, size = hashlib.sha256(), 0
        for piece in store.pieces(manifest.bundle_path, manifest.bundle_size):
            digest.update(piece)
            size += len(piece)
            file.write(piece)
        _compare(store, manifest, size, digest)
        file.seek(0)
        with _reported(store, manifest), zipfile.ZipFile(file) as archive:
            _check(archive, manifest)
            _refuse_larger(manifest, sum(info.file_size for info in archive.infolist()), limit)
            head = _decode_head(read_member(archive, manifest, "record.json", MAX_RECORD), manifest)
            for name, place in _FILES.items():
                if f"{manifest.run_id}/{name}" in archive.NameToInfo:
                    _extract(archive, f"{manifest.run_id}/{name}", run.folder / place)
    if file_digest(run.evidence_path) != manifest.seal:
        raise FleetError(f"the evidence in the bundle of {manifest.name} is not what was sealed")
    run.evidence_path.chmod(SEALED_MODE)
    take_permanent_lock(paths.session_lock_path(run.id))
    write_origin(run.folder, store.url, manifest)
    return head


def _refuse_larger(manifest: Manifest, content: int, limit: int | None) -> None:
    if limit is not None and manifest.bundle_size + content > limit:
        message = f"{manifest.name} has more than the {limit:,} bytes that are unpacked here"
        raise FleetError(message, fix=f"critiqor pull {reference_to(manifest)}")


def _decode_head(data: bytes, manifest: Manifest) -> RunHead:
    try:
        head = msgspec.json.decode(data, type=RunHead)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FleetError(f"the record in the bundle of {manifest.name} cannot be read: {error}") from error
    if head.run_id != manifest.run_id or head.seal is None or head.seal.digest != manifest.seal:
        raise FleetError(f"the record in the bundle of {manifest.name} belongs to another run")
    if head.status not in ("COMPLETED", "ABORTED"):
        raise FleetError(f"the run in the bundle of {manifest.name} is {head.status}, which no sealed run is")
    return head


def _make_record(paths: SessionPaths, head: RunHead) -> None:
    """Write the record of a run: its event log is that of the evidence and the last transition, as after finalizing."""
    record = SessionRecord(**{name: getattr(head, name) for name in RunHead.__struct_fields__})
    with contextlib.suppress(CritiqorError):  # `verify` reports a diagnosis that cannot be read
        records.set_diagnosis(record, records.load_diagnosis(paths, head.run_id))
    extent = events_extent(paths.evidence_summary_path(head.run_id)) if head.status == "COMPLETED" else None
    if extent is None or head.cut is None:
        records.save(paths, record)
        return
    completed = head.lifecycle[-1]
    record.event_log = [None] * head.cut.lifecycle_events  # the number of the transition follows theirs
    transition = {"event_type": "state_transition", "payload": {"from": "FINALIZING", "to": completed.state}}
    records.append_event(record, transition, ms_from_iso(completed.timestamp))
    records.save_completed(paths, record, *extent)


def _check(archive: zipfile.ZipFile, manifest: Manifest) -> None:
    """Raise `ValueError` if an archive is no bundle of the run, or has too much content for its size."""
    names = [info.filename for info in archive.infolist()]
    known = {f"{manifest.run_id}/{name}" for name in (*_FILES, *_OTHER)}
    if len(set(names)) != len(names) or not known.issuperset(names):
        raise ValueError("it contains files that no bundle has, or one of them twice")
    if (f"{manifest.run_id}/session.json" in names) != (manifest.content == "full"):
        raise ValueError("its content is not the one that its manifest states")
    if sum(info.file_size for info in archive.infolist()) > max(MIN_ALLOWED, MAX_RATIO * manifest.bundle_size):
        raise ValueError("it has more content than an archive of its size can have")


def _extract(archive: zipfile.ZipFile, name: str, target: Path) -> None:
    """Write a file of an archive. `zipfile` ends a file at its stated size, and raises an error if it differs."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    with archive.open(name) as source, target.open("xb") as file:
        target.chmod(FILE_MODE)
        shutil.copyfileobj(source, file, 1 << 18)


def _compare(store: FleetStore, manifest: Manifest, size: int, digest: hashlib._Hash) -> None:
    if size != manifest.bundle_size or f"sha256:{digest.hexdigest()}" != manifest.bundle_digest:
        message = f"the bundle of {manifest.name} in {store.url} is not the one that its manifest describes"
        raise FleetError(message, fix=f"critiqor verify --store {store.url} {reference_to(manifest)}")


@contextlib.contextmanager
def _reported(store: FleetStore, manifest: Manifest) -> Iterator[None]:
    """Report what reading a damaged archive raises."""
    try:
        yield
    except CritiqorError:
        raise
    except (*_DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise  # the disk of this machine is full, and not a place in the archive wrong
        message = f"the bundle of {manifest.name} in {store.url} cannot be used: {str(error) or type(error).__name__}"
        raise FleetError(message) from error
