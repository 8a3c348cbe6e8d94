"""Storing of one run: its bundle first, which is read back and compared, then its manifest, which makes it appear.

Every step can be repeated, and several processes may store the same run at once: the first object of a name counts,
and the others check that it is the run that they wanted to store.
"""

from __future__ import annotations

import tempfile
from typing import BinaryIO, NamedTuple

import msgspec

from critiqor.errors import CritiqorError
from critiqor.fleet.errors import FleetError, FleetUnavailableError
from critiqor.fleet.host import checked_host, host_id
from critiqor.fleet.manifest import MAX_BUNDLES, Content, Manifest, decode_manifest, manifest_name, rule_set_order
from critiqor.fleet.scratch import scratch_folder
from critiqor.fleet.settings import FleetSettings
from critiqor.fleet.store.bundle import write_bundle
from critiqor.fleet.store.diagnoses import put_diagnosis
from critiqor.fleet.store.object_store import MAX_MANIFEST, FleetStore
from critiqor.fleet.store.origin import read_origin
from critiqor.fleet.store.stored_bundle import read_diagnosis, unpack_bundle
from critiqor.model import RunHead
from critiqor.model.evidence import SealedFile
from critiqor.privacy.visibility import STRUCTURE
from critiqor.run.store import Run
from critiqor.run.view import RunView
from critiqor.storage.atomic import read_regular_file
from critiqor.storage.run_record import load_diagnosis


class StoredRun(NamedTuple):
    """A run that is in the store."""

    manifest: Manifest
    rule_set: str
    """The rule set of the diagnosis that this machine has, which is stored, too."""
    is_new: bool
    """Whether this process has stored it; False if it was there already."""


def content_of(head: RunHead, content: Content) -> Content:
    """Return what is stored of a run. One that is anonymous is stored as structure only, as in every export."""
    return "structure" if head.metadata.visibility == "anonymous" else content


def store_run(run: Run, store: FleetStore, settings: FleetSettings) -> StoredRun:
    """Store a sealed run, unless it is stored, and its diagnosis if that is a later one.

    Raise `FleetUnavailableError` if the store fails, and another `CritiqorError` if this run cannot be stored.
    """
    head = run.head()
    content = content_of(head, settings.content)
    host = _host_of(run, settings, content)
    if head.seal is not None:
        name = manifest_name(host, run.id, head.seal.digest)
        if (data := store.read_if_exists(name, MAX_MANIFEST)) is not None:
            manifest = _same_run(data, name, head.seal.digest, store)
            return StoredRun(manifest, _store_diagnosis(run, store, manifest), is_new=False)
    # Without a name, so that nothing is left behind if this process is killed.
    with tempfile.TemporaryFile(dir=run.paths.runs_dir) as file:
        manifest = _store_bundle(store, write_bundle(run, file, content, host), file)
    is_new = store.create(manifest.manifest_path, msgspec.json.encode(manifest))
    if not is_new:
        manifest = _same_run(
            store.read(manifest.manifest_path, MAX_MANIFEST), manifest.manifest_path, manifest.seal, store
        )
    return StoredRun(manifest, _store_diagnosis(run, store, manifest), is_new)


def _host_of(run: Run, settings: FleetSettings, content: Content) -> str:
    """Return the host of a run: that of its machine if it was pulled. Raise `FleetError` if it must stay private."""
    if (origin := read_origin(run)) is None:
        return host_id(settings, content)
    if content == "structure":
        message = f"{run.id} was pulled from {origin.host}: only its own machine can push its structure"
        raise FleetError(message, fix=f"critiqor push {run.id} --content full")
    return checked_host(origin.host)


def _store_bundle(store: FleetStore, manifest: Manifest, file: BinaryIO) -> Manifest:
    """Store a bundle under the first of its names that is free or has a bundle of this run. Return its manifest.

    What has a name of it and is no bundle of this run came from a push that failed, or from others. It stays as it is.
    """
    made = SealedFile(manifest.bundle_size, manifest.bundle_digest)
    for number in range(1, MAX_BUNDLES + 1):
        manifest = msgspec.structs.replace(manifest, bundle_number=number)
        is_created = store.create_from_file(manifest.bundle_path, file, made.bytes, made.digest)
        found = store.sealed_file(manifest.bundle_path, made.bytes)
        if found == made:
            return manifest
        if is_created:
            message = f"the bundle of {manifest.name} arrived damaged in {store.url}"
            raise FleetUnavailableError(message, fix="critiqor push   (stores it again, under another name)")
        if (adopted := _adopted(store, manifest, found)) is not None:
            return adopted
    message = (
        f"{manifest.bundle_path} in {store.url} is not this run, and is not replaced; neither are the others of it"
    )
    raise FleetError(
        message, fix=f"delete bundles/{manifest.name}.* in the store, then critiqor push {manifest.run_id}"
    )


def _same_run(data: bytes, name: str, seal: str, store: FleetStore) -> Manifest:
    """Return the manifest that is in the store. Raise `FleetError` if it is not one of this run with a bundle."""
    try:
        manifest = decode_manifest(data, name)
    except ValueError as error:
        fix = "delete this object in the store, then critiqor push"
        raise FleetError(f"{name} in {store.url} is no manifest of a run: {error}", fix=fix) from error
    if manifest.seal != seal:
        raise FleetError(f"{name} in {store.url} belongs to another run, which is not replaced")
    return manifest


def _adopted(store: FleetStore, manifest: Manifest, found: SealedFile) -> Manifest | None:
    """Return the manifest for a bundle that is in the store without one, and has other bytes than that of now.

    A push was killed after the bundle, and a note or the diagnosis was changed since. None if it is not a bundle of
    this run.
    """
    there = msgspec.structs.replace(manifest, bundle_size=found.bytes, bundle_digest=found.digest)
    try:
        diagnosis = read_diagnosis(store, there)
        if there.content == "full":
            with scratch_folder("push-") as folder:
                unpack_bundle(store, there, folder)
    except FleetUnavailableError:
        raise
    except CritiqorError:
        return None
    return msgspec.structs.replace(there, rule_set=diagnosis.rule_set_version)


def _store_diagnosis(run: Run, store: FleetStore, manifest: Manifest) -> str:
    """Store the diagnosis of a run if it is by a later rule set than that of the bundle. Return its rule set."""
    rule_set = load_diagnosis(run.paths, run.id).rule_set_version
    if rule_set_order(rule_set) > rule_set_order(manifest.rule_set):
        RunView(run).require_proof()
        if manifest.content == "full":
            data = read_regular_file(run.diagnosis_path)
        else:
            data = msgspec.json.encode(RunView(run, STRUCTURE).require_diagnosis())
        put_diagnosis(store, manifest.seal, data)
    return rule_set
