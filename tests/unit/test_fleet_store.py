"""Bundles and manifests in an object store that is a folder."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from pathlib import Path

import msgspec
import pytest
from object_stores import seal_small_run
from support import Runs, attached, recorded

from critiqor.errors import BrokenRecordError, CritiqorError, UsageError
from critiqor.fleet.errors import FleetError, FleetUnavailableError
from critiqor.fleet.host import host_id, host_id_path
from critiqor.fleet.manifest import MAX_BUNDLES, Manifest, decode_manifest
from critiqor.fleet.reference import find_run, parse_reference
from critiqor.fleet.settings import FleetSettings
from critiqor.fleet.store import object_store
from critiqor.fleet.store.bundle import open_bundle, read_diagnosis, unpack_bundle, write_bundle
from critiqor.fleet.store.diagnoses import put_diagnosis, read_latest_diagnosis
from critiqor.fleet.store.object_store import FleetStore, checked_url, open_store
from critiqor.fleet.store.storing import store_run
from critiqor.fleet.store.verification import incomplete_bundles, verify_stored
from critiqor.run.store import Run
from critiqor.storage.annotations import Annotations, change_annotations
from critiqor.storage.seals.digests import file_digest

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SETTINGS = FleetSettings(host="build-7")


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def store(tmp_path: Path) -> FleetStore:
    return open_store(f"file://{tmp_path}/store")


def stored_files(store: FleetStore) -> list[str]:
    return sorted(name for folder in ("manifests", "bundles", "diagnoses", "uploads") for name in store.list(folder))


def bundle_of(run: Run) -> tuple[Manifest, zipfile.ZipFile]:
    file = io.BytesIO()
    manifest = write_bundle(run, file, "full", "build-7")
    return manifest, zipfile.ZipFile(file)


def forge(store: FleetStore, manifest: Manifest, files: dict[str, bytes]) -> Manifest:
    """Store a bundle with other files, and return the manifest that describes it."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    content = data.getvalue()
    forged = msgspec.structs.replace(
        manifest,
        run_id="run_666",
        bundle_size=len(content),
        bundle_digest=f"sha256:{hashlib.sha256(content).hexdigest()}",
    )
    assert store.create(forged.bundle_path, content)
    return forged


def test_a_pulled_run_has_the_same_evidence_and_diagnosis_and_all_its_seals_hold(
    runs: Runs, store: FleetStore, tmp_path: Path
) -> None:
    run = seal_small_run(runs)
    manifest = store_run(run, store, SETTINGS).manifest
    pulled = unpack_bundle(store, manifest, tmp_path / "other")
    assert pulled.verify(rediagnose=True).problems == []
    assert file_digest(pulled.evidence_path) == file_digest(run.evidence_path)
    assert file_digest(pulled.diagnosis_path) == file_digest(run.diagnosis_path)
    assert msgspec.json.decode(pulled.record_path.read_bytes()) == msgspec.json.decode(run.record_path.read_bytes())
    assert unpack_bundle(store, manifest, tmp_path / "other") == pulled
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == [".lock", "run_001", "run_001.json"]


def test_an_aborted_run_that_was_diagnosed_can_be_stored_and_pulled(
    runs: Runs, store: FleetStore, tmp_path: Path
) -> None:
    from critiqor.run.diagnosis import diagnose
    from critiqor.session import abort_session

    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2, "agent_start"))
    abort_session(run_id, runs.folder)
    run = Run(run_id, runs.paths)
    diagnose(run)
    pulled = unpack_bundle(store, store_run(run, store, SETTINGS).manifest, tmp_path / "other")
    assert pulled.verify().problems == []
    assert pulled.head().status == "ABORTED"


def test_the_same_run_makes_the_same_bundle(runs: Runs) -> None:
    run = seal_small_run(runs)
    assert bundle_of(run)[0] == bundle_of(run)[0]


def test_nothing_that_was_not_redacted_is_in_a_bundle(runs: Runs) -> None:
    """A credential is in every file of the run that may hold one before sealing."""
    run_id = runs.start()
    runs.write(
        run_id,
        attached(),
        recorded(2, "agent_start"),
        recorded(3, "input", payload={"role": "user", "text": f"use {SECRET}"}),
        recorded(4, "message_end", payload={"role": "assistant", "text": f"I used {SECRET}."}),
        recorded(5, "agent_end"),
    )
    timeline = runs.paths.timeline_path(run_id)
    timeline.parent.mkdir()
    timeline.write_text(json.dumps({"type": "mark", "name": "x", "attributes": {"command": f"curl {SECRET}"}}) + "\n")
    runs.finalize(run_id)
    for name in (
        "prompts.jsonl",
        "output.log",
        "redaction.key",
        "openclaw/config.json",
        "openclaw/profiles/a.heapsnapshot",
    ):
        path = runs.paths.run_folder(run_id) / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(SECRET)
    change_annotations(runs.paths, run_id, lambda _: Annotations(note=f"it leaked {SECRET}", tags=[SECRET]))
    assert SECRET in runs.paths.journal_path(run_id).read_text()
    _, archive = bundle_of(Run(run_id, runs.paths))
    names = {name.partition("/")[2] for name in archive.namelist()}
    assert names == {"SHA256SUMS", "annotations.json", "diagnosis.json", "record.json", "session.json"}
    for name in archive.namelist():
        assert SECRET not in archive.read(name).decode()


def test_a_timeline_without_secrets_is_stored_and_verified(runs: Runs, store: FleetStore) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2, "agent_start"), recorded(3, "agent_end"))
    timeline = runs.paths.timeline_path(run_id)
    timeline.parent.mkdir()
    timeline.write_text('{"type":"mark","name":"x"}\n')
    runs.finalize(run_id)
    with timeline.open("a") as file:
        file.write(f'{{"after the seal": "{SECRET}"}}\n')
    result = verify_stored(store, store_run(Run(run_id, runs.paths), store, SETTINGS).manifest)
    assert {check.name: check.state for check in result.checks}["timeline"] == "passed"
    assert result.intact


def test_a_timeline_with_a_secret_stays_on_its_machine_and_verification_says_so(runs: Runs, store: FleetStore) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2, "agent_start"), recorded(3, "agent_end"))
    timeline = runs.paths.timeline_path(run_id)
    timeline.parent.mkdir()
    timeline.write_text(f'{{"type":"mark","name":"{SECRET}"}}\n')
    runs.finalize(run_id)
    result = verify_stored(store, store_run(Run(run_id, runs.paths), store, SETTINGS).manifest)
    assert result.intact
    assert {check.name: check.state for check in result.checks}["timeline"] == "not checked"


def test_structure_has_no_texts_names_or_paths_in_bundle_and_manifest(runs: Runs, store: FleetStore) -> None:
    words = {"agent_id": "agent-of-acme", "tenant_id": "acme", "benchmark_id": "acme-suite", "difficulty_tier": "acme"}
    run = seal_small_run(runs, "Wrote /home/acme/report.txt for Ana.", **words)
    change_annotations(runs.paths, run.id, lambda _: Annotations(note="seen by acme", tags=["acme"]))
    settings = FleetSettings(content="structure", host="acme-build-7")
    manifest = store_run(run, store, settings).manifest
    with open_bundle(store, manifest) as archive:
        content = b"".join(archive.read(name) for name in archive.namelist())
        assert {name.partition("/")[2] for name in archive.namelist()} == {
            "SHA256SUMS", "README.txt", "diagnosis.json", "events.jsonl", "record.json",
        }  # fmt: skip
    for text in (content, msgspec.json.encode(manifest), "\n".join(stored_files(store)).encode()):
        assert not any(word in text for word in (b"acme", b"Ana", b"/home", b"pytest", b"run the tests", b"passed"))
    assert manifest.host_id == host_id(settings, "structure")
    assert verify_stored(store, manifest).intact
    assert read_diagnosis(store, manifest).evidence_digest == manifest.seal
    with pytest.raises(FleetError, match="pushed as structure"):
        unpack_bundle(store, manifest, runs.folder)


def test_an_anonymous_run_leaves_as_structure_whatever_the_settings_say(runs: Runs, store: FleetStore) -> None:
    assert store_run(seal_small_run(runs, visibility="anonymous"), store, SETTINGS).manifest.content == "structure"


def test_a_run_that_is_not_sealed_or_was_changed_is_not_stored(runs: Runs, store: FleetStore) -> None:
    run = seal_small_run(runs)
    run.evidence_path.chmod(0o600)
    run.evidence_path.write_bytes(run.evidence_path.read_bytes().replace(b"tests pass", b"tests fail"))
    with pytest.raises(BrokenRecordError, match="changed after sealing"):
        store_run(run, store, SETTINGS)
    with pytest.raises(CritiqorError, match="not sealed"):
        store_run(Run(runs.start(), runs.paths), store, SETTINGS)
    assert stored_files(store) == []


def test_an_object_is_created_once_and_stays_as_it_is(store: FleetStore) -> None:
    assert store.create("bundles/a/b.zip", b"one")
    assert not store.create("bundles/a/b.zip", b"two")
    assert store.read("bundles/a/b.zip") == b"one"


def test_a_large_file_is_sent_in_parts_and_never_replaces_another(
    store: FleetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "MAX_SINGLE", 10)
    first, second = b"x" * 100, b"y" * 100
    digests = [f"sha256:{hashlib.sha256(data).hexdigest()}" for data in (first, second)]
    assert store.create_from_file("bundles/a/b.zip", io.BytesIO(first), 100, digests[0])
    assert not store.create_from_file("bundles/a/b.zip", io.BytesIO(second), 100, digests[1])
    assert store.read("bundles/a/b.zip") == first
    assert stored_files(store) == ["bundles/a/b.zip"]


def test_storing_a_run_again_changes_nothing(runs: Runs, store: FleetStore) -> None:
    run = seal_small_run(runs)
    first, again = store_run(run, store, SETTINGS), store_run(run, store, SETTINGS)
    assert (first.is_new, again.is_new) == (True, False)
    assert again.manifest == first.manifest
    assert len(stored_files(store)) == 2


def test_a_different_run_with_the_same_name_gets_a_name_of_its_own(
    runs: Runs, store: FleetStore, tmp_path: Path
) -> None:
    one, two = seal_small_run(runs), seal_small_run(Runs(tmp_path / "second"), "Something else.")
    assert one.id == two.id
    manifests = [store_run(run, store, SETTINGS).manifest for run in (one, two)]
    assert store.read(manifests[0].bundle_path) != store.read(manifests[1].bundle_path)
    assert {verify_stored(store, each).intact for each in manifests} == {True}
    with pytest.raises(UsageError, match="means 2 runs"):
        find_run(store, parse_reference("build-7/run_001"))
    digits = manifests[1].seal.removeprefix("sha256:")[:10]
    assert find_run(store, parse_reference(f"build-7/run_001@{digits}")) == manifests[1]


def test_a_bundle_that_a_killed_push_left_behind_is_used_if_it_is_of_this_run(runs: Runs, store: FleetStore) -> None:
    run = seal_small_run(runs)
    file = io.BytesIO()
    old = write_bundle(run, file, "full", "build-7")
    assert store.create(old.bundle_path, file.getvalue())
    change_annotations(runs.paths, run.id, lambda _: Annotations(note="written since"))
    manifest = store_run(run, store, SETTINGS).manifest
    assert manifest.bundle_digest == old.bundle_digest
    assert verify_stored(store, manifest).intact


@pytest.mark.parametrize("damaged", [1, 3])
def test_a_damaged_bundle_without_a_manifest_is_neither_replaced_nor_believed_and_blocks_no_run(
    runs: Runs, store: FleetStore, tmp_path: Path, damaged: int
) -> None:
    run = seal_small_run(runs)
    manifest = write_bundle(run, io.BytesIO(), "full", "build-7")
    names = [msgspec.structs.replace(manifest, bundle_number=number + 1).bundle_path for number in range(damaged)]
    for name in names:
        assert store.create(name, b"something else")
    stored = store_run(run, store, SETTINGS)
    assert stored.is_new
    assert {store.read(name) for name in names} == {b"something else"}
    assert [each.bundle_path for each in store.manifests()] == [stored.manifest.bundle_path]
    assert stored.manifest.bundle_path not in names
    assert verify_stored(store, stored.manifest).intact
    assert unpack_bundle(store, stored.manifest, tmp_path / "other").verify(rediagnose=True).problems == []
    assert not store_run(run, store, SETTINGS).is_new
    assert len(stored_files(store)) == damaged + 2
    assert incomplete_bundles(store) == []


def test_a_bundle_that_arrives_damaged_is_stored_again_by_the_next_push(
    runs: Runs, store: FleetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = seal_small_run(runs)
    create = FleetStore.create

    def create_damaged(self: FleetStore, path: str, content: bytes) -> bool:
        return create(self, path, content[:-7] if path.startswith("bundles/") else content)

    with monkeypatch.context() as damaging:
        damaging.setattr(FleetStore, "create", create_damaged)
        with pytest.raises(FleetUnavailableError, match="arrived damaged"):
            store_run(run, store, SETTINGS)
    assert verify_stored(store, store_run(run, store, SETTINGS).manifest).intact


def test_a_name_of_which_every_bundle_is_damaged_is_an_error(runs: Runs, store: FleetStore) -> None:
    run = seal_small_run(runs)
    manifest = write_bundle(run, io.BytesIO(), "full", "build-7")
    for number in range(MAX_BUNDLES):
        store.create(msgspec.structs.replace(manifest, bundle_number=number + 1).bundle_path, b"something else")
    with pytest.raises(FleetError, match="is not replaced"):
        store_run(run, store, SETTINGS)
    assert list(store.manifests()) == []


def test_a_foreign_manifest_under_the_name_of_a_run_is_not_replaced(runs: Runs, store: FleetStore) -> None:
    run = seal_small_run(runs)
    manifest = write_bundle(run, io.BytesIO(), "full", "build-7")
    other = msgspec.structs.replace(manifest, seal=manifest.seal[:40] + "0" * 31)
    assert other.manifest_path == manifest.manifest_path
    assert store.create(manifest.manifest_path, msgspec.json.encode(other))
    with pytest.raises(FleetError, match="belongs to another run"):
        store_run(run, store, SETTINGS)


def test_later_diagnoses_are_further_objects_and_the_newest_rule_set_wins(runs: Runs, store: FleetStore) -> None:
    from critiqor.storage.seals.diagnosis_seal import write_diagnosis

    run = seal_small_run(runs)
    manifest = store_run(run, store, SETTINGS).manifest
    path = runs.folder / "later.json"
    for rule_set in ("9", "100", "20"):
        write_diagnosis(path, msgspec.structs.replace(run.diagnosis, rule_set_version=rule_set))
        assert put_diagnosis(store, manifest.seal, path.read_bytes())
        assert not put_diagnosis(store, manifest.seal, path.read_bytes())
    assert read_latest_diagnosis(store, manifest).rule_set_version == "100"
    assert verify_stored(store, manifest).intact
    tampered = path.read_bytes().replace(b'"20"', b'"101"')
    assert put_diagnosis(store, manifest.seal, tampered)
    assert read_latest_diagnosis(store, manifest).rule_set_version == "100"
    assert "diagnosis.json was changed" in store.problems[0]
    assert not verify_stored(store, manifest).intact


@pytest.mark.parametrize(
    "name",
    ["../../evil.json", "run_666/../../../evil", "/etc/evil", "run_666/journal.jsonl",
     "run_666/openclaw/timeline.jsonl", "other/session.json", "run_666/", "C:\\evil"],
)  # fmt: skip
def test_a_bundle_with_a_hostile_name_is_refused_and_writes_nothing(
    runs: Runs, store: FleetStore, tmp_path: Path, name: str
) -> None:
    manifest, archive = bundle_of(seal_small_run(runs))
    files = {each.replace("run_001", "run_666"): archive.read(each) for each in archive.namelist()}
    forged = forge(store, manifest, {**files, name: b"{}"})
    target = tmp_path / "pulled" / "runs"
    with pytest.raises(FleetError, match="cannot be used"):
        unpack_bundle(store, forged, target)
    assert [path.name for path in target.iterdir()] == [".lock"]
    assert not (tmp_path / "evil.json").exists()
    assert not verify_stored(store, forged).intact


def test_a_bundle_with_far_too_much_content_is_refused(runs: Runs, store: FleetStore, tmp_path: Path) -> None:
    manifest, archive = bundle_of(seal_small_run(runs))
    files = {each.replace("run_001", "run_666"): archive.read(each) for each in archive.namelist()}
    bomb = forge(store, manifest, {**files, "run_666/carried.jsonl": bytes(160 << 20)})
    with pytest.raises(FleetError, match="more content"):
        unpack_bundle(store, bomb, tmp_path / "pulled")


def test_a_bundle_of_another_run_is_refused(runs: Runs, store: FleetStore, tmp_path: Path) -> None:
    manifest, archive = bundle_of(seal_small_run(runs))
    files = {each.replace("run_001", "run_666"): archive.read(each) for each in archive.namelist()}
    forged = forge(store, manifest, files)  # the record inside is that of run_001
    with pytest.raises(FleetError, match="belongs to another run"):
        unpack_bundle(store, forged, tmp_path / "pulled")


def test_every_changed_byte_of_a_stored_bundle_is_found(runs: Runs, store: FleetStore, tmp_path: Path) -> None:
    manifest = store_run(seal_small_run(runs), store, SETTINGS).manifest
    path = tmp_path / "store" / manifest.bundle_path
    whole = path.read_bytes()
    for place in range(0, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert not verify_stored(store, manifest).intact
    path.write_bytes(whole)
    assert verify_stored(store, manifest).intact


def test_a_manifest_that_says_something_else_than_the_sealed_record_is_found(runs: Runs, store: FleetStore) -> None:
    manifest = store_run(seal_small_run(runs), store, SETTINGS).manifest
    other = msgspec.structs.replace(manifest, metadata=msgspec.structs.replace(manifest.metadata, tenant_id="mallory"))
    assert not verify_stored(store, other).intact


def test_damaged_and_foreign_objects_are_reported_and_hide_no_run(runs: Runs, store: FleetStore) -> None:
    manifest = store_run(seal_small_run(runs), store, SETTINGS).manifest
    hostile = msgspec.json.encode(msgspec.structs.replace(manifest, run_id="../../etc"))
    for name, content in {
        "manifests/x/a.json": b"{",
        "manifests/x/b.json": hostile,
        "manifests/c.txt": b"hello",
    }.items():
        assert store.create(name, content)
    moved = msgspec.json.encode(manifest)
    assert store.create("manifests/other/run_001-0123456789abcdef.json", moved)
    assert list(store.manifests()) == [manifest]
    assert len(store.problems) == 4


def test_a_pull_never_replaces_another_run_of_that_name(runs: Runs, store: FleetStore, tmp_path: Path) -> None:
    manifest = store_run(seal_small_run(runs), store, SETTINGS).manifest
    local = Runs(tmp_path / "local")
    mine = seal_small_run(local, "Mine.")
    before = mine.record_path.read_bytes()
    with pytest.raises(FleetError, match="another run in"):
        unpack_bundle(store, manifest, local.folder)
    assert mine.record_path.read_bytes() == before
    assert mine.verify().intact


def test_a_pull_into_a_folder_whose_record_was_lost_keeps_its_other_files(
    runs: Runs, store: FleetStore, tmp_path: Path
) -> None:
    run = seal_small_run(runs)
    manifest = store_run(run, store, SETTINGS).manifest
    run.record_path.unlink()
    journal = runs.paths.journal_path(run.id).read_bytes()
    assert unpack_bundle(store, manifest, runs.folder).verify(rediagnose=True).problems == []
    assert runs.paths.journal_path(run.id).read_bytes() == journal


@pytest.mark.parametrize(
    "url",
    ["", "s3:", "http://host/x", "memory://", "s3://key:secret@bucket", "s3://bucket?x=1", "file://host/path",
     "file:rel", "file:///a/../b", "s3://"],
)  # fmt: skip
def test_an_address_that_is_no_store_is_refused_without_showing_its_secret(url: str) -> None:
    with pytest.raises(UsageError) as error:
        checked_url(url)
    assert "secret@" not in str(error.value)


@pytest.mark.parametrize("text", ["run_001", "a/b/c", "../run_001", "a/../b", "a/", "/b", "a/b@", "a/b@xyz", "a b/c"])
def test_what_names_no_run_of_a_store_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_reference(text)


def test_the_id_of_a_machine_is_made_once_and_names_neither_host_nor_user() -> None:
    first = host_id(FleetSettings())
    assert host_id(FleetSettings()) == first
    assert host_id_path().read_text().strip() == first
    assert host_id(FleetSettings(host="build-7")) == "build-7"
    for name in ("", "a/b", "..", "x" * 65, "a\nb"):
        with pytest.raises(UsageError):
            host_id(FleetSettings(host=name))


def test_a_manifest_of_a_later_schema_is_reported(runs: Runs) -> None:
    manifest = write_bundle(seal_small_run(runs), io.BytesIO(), "full", "h")
    later = msgspec.structs.replace(manifest, schema_version="critiqor.fleet.manifest.v2")
    with pytest.raises(ValueError, match="this version reads"):
        decode_manifest(msgspec.json.encode(later), manifest.manifest_path)
