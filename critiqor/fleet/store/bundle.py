"""The bundle of a run: a ZIP archive of the files that prove and explain it on another machine.

    RUN/record.json        head of the run record: metadata, lifecycle, times, seal and signature
    RUN/session.json       the sealed evidence
    RUN/diagnosis.json     the diagnosis with its seal
    RUN/carried.jsonl      events of earlier segments that belong to the diagnosis, if there are any
    RUN/timeline.jsonl     OpenClaw's timeline as far as it was sealed, unless a secret is in it
    RUN/annotations.json   tags, note and feedback of the user, redacted
    RUN/SHA256SUMS

Everything in it was redacted before it was sealed, or is redacted here. The journal, the key and the rules of the
redaction, prompts, outputs, profiles and the configuration of OpenClaw are never in it; neither is the event log of
the record, which is made again from the evidence. With the content `structure`, it holds an anonymized view instead:
record.json, diagnosis.json and events.jsonl, none of which has the bytes that were sealed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from critiqor.errors import NoActiveSessionError
from critiqor.exporters.zip import packed_file, packed_json, report
from critiqor.fleet.host import host_id
from critiqor.fleet.manifest import Content, Manifest
from critiqor.fleet.settings import FleetSettings
from critiqor.fleet.store.stored_bundle import open_bundle, read_diagnosis, unpack_bundle
from critiqor.model.evidence import SealedFile
from critiqor.model.report import Bundle, BundledFile
from critiqor.privacy.visibility import OWNER, STRUCTURE
from critiqor.run.store import Run
from critiqor.run.view import RunView
from critiqor.storage.annotations import read_annotations
from critiqor.storage.atomic import open_regular_file
from critiqor.storage.journal import MAX_LINE
from critiqor.storage.redaction import Redactor, new_redaction_key

__all__ = ["open_bundle", "read_diagnosis", "unpack_bundle", "write_bundle"]


def write_bundle(run: Run, file: BinaryIO, content: Content = "full", host: str | None = None) -> Manifest:
    """Write the bundle of a sealed run into a file. Return its manifest.

    `host` is the id of the machine, by default that of the settings' defaults. A run whose visibility is anonymous
    leaves this machine as structure only. Raise an error if the run is not sealed, or was changed since.
    """
    view = RunView(run, OWNER)
    if view.head.metadata.visibility == "anonymous" or content == "structure":
        content, view = "structure", RunView(run, STRUCTURE)
    seal = view.seal
    if seal is None:
        raise NoActiveSessionError(f"{run.id} is not sealed yet", fix=f"critiqor finalize {run.id}")
    diagnosis = view.require_proof()
    files = [packed_json("record.json", view.head)]
    if content == "structure":
        # Imported here, because it loads every reporter.
        from critiqor.exporters.gathering import anonymous_files

        files += [packed_json("diagnosis.json", diagnosis), *anonymous_files(view, seal)]
    else:
        files += _sealed_files(run, view)
    written = _write(Bundle(run.id, files), file)
    coverage = view.coverage()
    recorders = coverage.recorders if coverage is not None else []
    return Manifest(
        host_id=host_id(FleetSettings(), content) if host is None else host,
        run_id=run.id,
        seal=seal.digest,
        signature=view.head.seal.signature if view.head.seal is not None else None,
        metadata=view.head.metadata,
        timestamps=view.head.timestamps,
        sealed_at=seal.sealed_at,
        events=seal.events,
        rule_set=diagnosis.rule_set_version,
        verdict=diagnosis.readiness,
        critiqor_version=diagnosis.engine_version,
        openclaw_version=next((each.openclaw_version for each in recorders if each.openclaw_version), None),
        content=content,
        bundle_size=written.bytes,
        bundle_digest=written.digest,
    )


def _sealed_files(run: Run, view: RunView) -> Iterator[BundledFile]:
    """Yield the files of a run as they were sealed, and what the user says about it."""
    yield packed_file("session.json", run.evidence_path)
    yield packed_file("diagnosis.json", run.diagnosis_path)
    redactor = Redactor.of_run(new_redaction_key(), run.paths.redaction_rules_path(run.id))
    coverage = run.coverage()
    if coverage.carried is not None:
        yield packed_file("carried.jsonl", run.paths.carried_path(run.id), coverage.carried.bytes)
    if coverage.timeline is not None and not _holds_secret(run.timeline_path, coverage.timeline.bytes, redactor):
        yield packed_file("timeline.jsonl", run.timeline_path, coverage.timeline.bytes)
    if annotations := read_annotations(run.paths, run.id):
        yield packed_json("annotations.json", redactor.value(msgspec.to_builtins(annotations)))


def _holds_secret(path: Path, size: int, redactor: Redactor) -> bool:
    """Return whether a secret is in the first bytes of a file of JSON lines.

    OpenClaw writes its timeline itself, without redaction, and a seal covers its bytes: it leaves this machine as it
    is, or not at all.
    """
    with open_regular_file(path, buffering=1 << 18) as file:
        while size > 0 and (line := file.readline(min(MAX_LINE, size))):
            size -= len(line)
            if redactor.may_hold_secret(line) and _is_redacted(line, redactor):
                return True
    return False


def _is_redacted(line: bytes, redactor: Redactor) -> bool:
    """Return whether redaction changes a line."""
    value: Any
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = line.decode("utf-8", "replace")
    return bool(redactor.value(value) != value)


def _write(bundle: Bundle, file: BinaryIO) -> SealedFile:
    """Write a bundle as an archive. Return its size and digest."""
    digest, size = hashlib.sha256(), 0
    for piece in report(bundle):
        digest.update(piece)
        size += len(piece)
        file.write(piece)
    return SealedFile(size, f"sha256:{digest.hexdigest()}")
