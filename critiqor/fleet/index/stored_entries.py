"""The entries of a run for the index, from its bundle and its later diagnoses.

A push reads the bundle that it has just written, and a rebuild the one in the store, so both give the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from zipfile import ZipFile

import msgspec

from critiqor.fleet.errors import FleetError, FleetUnavailableError
from critiqor.fleet.index.entry import IndexEntry
from critiqor.fleet.index.texts import conversation_texts
from critiqor.fleet.manifest import Manifest, diagnosis_path
from critiqor.fleet.store.diagnoses import stored_rule_sets
from critiqor.fleet.store.object_store import FleetStore
from critiqor.fleet.store.stored_bundle import MAX_DIAGNOSIS, decode_diagnosis, open_bundle, read_member
from critiqor.model import Event
from critiqor.storage.annotations import Annotations
from critiqor.storage.session_document import decode_event, evidence_lines

_MAX_ANNOTATIONS = 1 << 20


def read_entry(archive: ZipFile, manifest: Manifest) -> IndexEntry:
    """Return the entry of a run from its open bundle. Raise `FleetError` if the bundle is damaged."""
    data = read_member(archive, manifest, "diagnosis.json", MAX_DIAGNOSIS)
    diagnosis = decode_diagnosis(data, manifest, is_sealed=manifest.content == "full")
    if manifest.content == "structure":
        return IndexEntry(manifest=manifest, diagnosis=diagnosis)
    try:
        texts = conversation_texts(_events(archive, manifest))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FleetError(f"the evidence in the bundle of {manifest.name} cannot be read: {error}") from error
    return IndexEntry(manifest=manifest, diagnosis=diagnosis, texts=texts, tags=_tags(archive, manifest))


def stored_entries(store: FleetStore, manifest: Manifest) -> Iterator[IndexEntry]:
    """Yield the entry of a run in a store, and one for each later diagnosis.

    Raise `FleetError` if the bundle is damaged. A later diagnosis that cannot be used is added to `store.problems`.
    """
    with open_bundle(store, manifest) as archive:
        first = read_entry(archive, manifest)
    yield first
    for rule_set in stored_rule_sets(store, manifest.seal):
        if rule_set == first.diagnosis.rule_set_version:
            continue
        try:
            data = store.read(diagnosis_path(manifest.seal, rule_set), MAX_DIAGNOSIS)
            diagnosis = decode_diagnosis(data, manifest, is_sealed=manifest.content == "full")
        except FleetUnavailableError:
            raise
        except FleetError as error:
            store.problems.append(error.message)
            continue
        yield msgspec.structs.replace(first, diagnosis=diagnosis)


def _events(archive: ZipFile, manifest: Manifest) -> Iterator[Event]:
    try:
        info = archive.getinfo(f"{manifest.run_id}/session.json")
    except KeyError:
        raise FleetError(f"the bundle of {manifest.name} has no session.json") from None
    with archive.open(info) as file:
        for _, line in evidence_lines(file):
            yield decode_event(line)


def _tags(archive: ZipFile, manifest: Manifest) -> tuple[str, ...]:
    if f"{manifest.run_id}/annotations.json" not in archive.NameToInfo:
        return ()
    data = read_member(archive, manifest, "annotations.json", _MAX_ANNOTATIONS)
    try:
        return tuple(msgspec.json.decode(data, type=Annotations).tags)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()  # no seal covers it, and the run is indexed without it
