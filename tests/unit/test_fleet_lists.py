"""The verbs that list runs with --fleet, from an index in SQLite and a store that is a folder."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from object_stores import seal_small_run
from support import Cli, Runs

from critiqor.errors import ExitCode
from critiqor.fleet.index.opening import open_index
from critiqor.fleet.manifest import Manifest
from critiqor.fleet.settings import FleetSettings
from critiqor.fleet.store.bundle import write_bundle
from critiqor.fleet.store.diagnoses import put_diagnosis
from critiqor.fleet.store.object_store import FleetStore, open_store
from critiqor.fleet.store.storing import store_run
from critiqor.run.store import RunStore
from critiqor.storage.annotations import Annotations, change_annotations
from critiqor.storage.paths import user_settings_path
from critiqor.storage.seals.diagnosis_seal import write_diagnosis


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FleetStore:
    """A store that is named in the settings of the user."""
    folder = tmp_path / "config" / "critiqor"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f'[fleet]\nstore = "file://{tmp_path}/store"\n')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return open_store(f"file://{tmp_path}/store")


@pytest.fixture
def stored(store: FleetStore, tmp_path: Path, cli: Cli) -> list[Manifest]:
    """Three indexed runs of two hosts."""
    first, second = Runs(tmp_path / "first"), Runs(tmp_path / "second")
    tagged = seal_small_run(first)
    change_annotations(first.paths, tagged.id, lambda _: Annotations(tags=["nightly"]))
    manifests = [
        store_run(tagged, store, FleetSettings(host="build-1")).manifest,
        store_run(seal_small_run(second, "Deployed the site."), store, FleetSettings(host="build-2")).manifest,
        store_run(seal_small_run(second, agent_id="docs"), store, FleetSettings(host="build-2")).manifest,
    ]
    assert cli("fleet", "reindex", "--json").data == {"runs": 3, "added": 3, "other_tenants": 0, "problems": []}
    return manifests


def test_runs_of_all_hosts_are_listed_with_their_host(cli: Cli, stored: list[Manifest]) -> None:
    rows = {row["run_id"]: row for row in cli("runs", "--fleet", "--json").data}
    assert set(rows) == {"build-1/run_001", "build-2/run_001", "build-2/run_002"}
    assert rows["build-1/run_001"]["host"] == "build-1"
    lines = cli("runs", "--fleet").out.splitlines()
    assert lines[0].split()[:3] == ["run", "id", "status"]
    assert len(lines) == 4
    assert all(line.count(host) == 1 for line, host in zip(lines[1:], ["build-2", "build-2", "build-1"], strict=True))
    local = cli("runs", "--runs-dir", "first", "--json").data[0]
    assert {**rows["build-1/run_001"], "run_id": None} == {**local, "run_id": None, "host": "build-1"}


@pytest.mark.parametrize(
    ("options", "number"),
    [
        (["--host", "build-2"], 2),
        (["--host", "b*-1"], 1),
        (["--agent", "doc*"], 1),
        (["--tag", "nightly"], 1),
        (["--since", "2099-01-01"], 0),
        (["--verdict", "ready", "--verdict", "review", "--verdict", "unsafe", "--verdict", "unknown"], 3),
    ],
)
def test_the_list_has_the_same_filters(cli: Cli, stored: list[Manifest], options: list[str], number: int) -> None:
    assert len(cli("runs", "--fleet", "--json", *options).data) == number


def test_host_needs_fleet(cli: Cli) -> None:
    assert "--host has no effect without --fleet" in cli("runs", "--host", "a").err


def test_a_search_finds_texts_of_all_hosts(cli: Cli, stored: list[Manifest]) -> None:
    [found] = cli("search", "--fleet", "deployed", "--json").data
    assert (found["run_id"], found["host"]) == ("build-2/run_001", "build-2")
    assert found["events"][0]["event_type"] == "answer"
    assert found["events"][0]["text"] == "Deployed the site."
    text = cli("search", "--fleet", "deployed").out
    assert text.splitlines()[0].startswith("build-2/run_001")
    assert "critiqor pull build-2/run_001" in text


def test_trends_are_over_all_hosts_and_name_the_agents_to_choose_from(cli: Cli, stored: list[Manifest]) -> None:
    several = cli("trends", "--fleet")
    assert several.code == ExitCode.USAGE
    assert "critiqor trends --fleet --agent docs" in several.err
    data = cli("trends", "--fleet", "--agent", "openclaw_agent", "--json").data
    assert [(point["run_id"], point["host"]) for point in data["runs"]] == [
        ("build-1/run_001", "build-1"),
        ("build-2/run_001", "build-2"),
    ]
    assert "critiqor pull build-2/run_001" in cli("trends", "--fleet", "--agent", "openclaw_agent").out
    assert "there are no runs of 'nobody'" in cli("trends", "--fleet", "--agent", "nobody").err


def test_a_run_is_ranked_among_those_of_all_hosts(cli: Cli, stored: list[Manifest]) -> None:
    data = cli("benchmark", "--fleet", "build-1/run_001", "--json").data
    assert (data["run_id"], data["host"], data["others"]) == ("build-1/run_001", "build-1", 2)
    assert "comparable with 2 other runs" in cli("benchmark", "--fleet", "build-1/run_001").out
    missing = cli("benchmark", "--fleet", "build-9/run_001")
    assert "there is no run build-9/run_001" in missing.err
    assert "critiqor runs --fleet" in missing.err


def test_runs_of_two_hosts_are_compared_from_the_store(cli: Cli, stored: list[Manifest]) -> None:
    data = cli("compare", "--fleet", "build-1/run_001", "build-2/run_001", "--json").data
    assert (data["before"], data["after"]) == ("build-1/run_001", "build-2/run_001")
    assert (data["host_before"], data["host_after"]) == ("build-1", "build-2")
    local = cli("compare", "run_001", "run_002", "--runs-dir", "second", "--json").data
    assert data.keys() - local.keys() == {"host_before", "host_after"}
    assert "Next: critiqor pull build-2/run_001" in cli("compare", "--fleet", "build-1/run_001", "build-2/run_001").out


def test_a_later_diagnosis_becomes_the_current_row(cli: Cli, stored: list[Manifest], store: FleetStore) -> None:
    path, run = Path("later.json"), RunStore("first").run("run_001")
    write_diagnosis(path, msgspec.structs.replace(run.diagnosis, rule_set_version="99", trust_score=1))
    assert put_diagnosis(store, stored[0].seal, path.read_bytes())
    assert cli("fleet", "reindex", "--json").data["added"] == 1
    rows = {row["run_id"]: row["trust"] for row in cli("runs", "--fleet", "--json").data}
    assert len(rows) == 3
    assert rows["build-1/run_001"] == 1
    data = cli("compare", "--fleet", "build-1/run_001", "build-2/run_001", "--json").data
    assert data["verdict"] == "cannot be compared"
    assert data["summary"].endswith("diagnose both again with the current rules: critiqor fleet diagnose")


def test_a_later_diagnosis_that_was_changed_is_reported_and_left_out(
    cli: Cli, stored: list[Manifest], store: FleetStore
) -> None:
    path, run = Path("later.json"), RunStore("first").run("run_001")
    write_diagnosis(path, msgspec.structs.replace(run.diagnosis, rule_set_version="99"))
    put_diagnosis(store, stored[0].seal, path.read_bytes().replace(b'"99"', b'"98"'))
    result = cli("fleet", "reindex", "--json")
    assert result.code == ExitCode.ERROR
    assert len(result.data["problems"]) == 1
    with open_index(None) as index:
        assert index.find("build-1", "run_001")[0].rule_set == stored[0].rule_set


def test_a_damaged_bundle_costs_only_itself(
    cli: Cli, store: FleetStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs(tmp_path / "first")
    manifests = [store_run(seal_small_run(runs), store, FleetSettings(host="build-1")).manifest for _ in range(3)]
    bundle = tmp_path / "store" / manifests[1].bundle_path
    bundle.chmod(0o600)
    bundle.write_bytes(bundle.read_bytes()[:-100] + b"x" * 100)
    result = cli("fleet", "reindex", "--json")
    assert result.code == ExitCode.ERROR
    assert (result.data["runs"], result.data["added"]) == (3, 2)
    assert [manifests[1].name in problem for problem in result.data["problems"]] == [True]
    assert manifests[1].name in result.err
    assert len(cli("runs", "--fleet", "--json").data) == 2


def test_a_run_whose_rows_the_index_refuses_costs_only_itself(cli: Cli, store: FleetStore, tmp_path: Path) -> None:
    runs = Runs(tmp_path / "first")
    for number in range(3):
        run = seal_small_run(runs, f"Answer {number}.")
        data = io.BytesIO()
        manifest = write_bundle(run, data, host="build-1")
        manifest = msgspec.structs.replace(manifest, events=2**63 if number == 1 else manifest.events)
        assert store.create(manifest.bundle_path, data.getvalue())
        assert store.create(manifest.manifest_path, msgspec.json.encode(manifest))
    result = cli("fleet", "reindex", "--json")
    assert result.code == ExitCode.ERROR
    assert (result.data["runs"], result.data["added"]) == (3, 2)
    [problem] = result.data["problems"]
    assert problem.startswith("build-1/run_002-")
    assert "refuses it" in problem
    (tmp_path / "data" / "critiqor" / "fleet.sqlite").unlink()
    path = user_settings_path()
    path.write_text(f'{path.read_text()}push = "private"\nhost = "build-1"\n')
    pushed = cli("push", "--runs-dir", "first")
    assert "3 runs stored before" in pushed.out
    assert "run_002: it is stored, but not indexed" in cli("fleet", "status", "--runs-dir", "first").out
    assert len(cli("runs", "--fleet", "--json").data) == 2


def test_tenants_need_postgresql(cli: Cli, store: FleetStore) -> None:
    refused = cli("fleet", "tenants", "add", "team-a", "--role", "team_a")
    assert refused.code == ExitCode.USAGE
    assert "--index postgresql://OWNER@HOST/DATABASE" in refused.err


def test_an_index_that_cannot_be_used_is_reported(cli: Cli, store: FleetStore, tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    for command in (["runs"], ["trends"], ["search", "word"], ["benchmark", "host/run_001"]):
        result = cli(*command, "--fleet")
        assert result.code == ExitCode.ERROR
        assert "the index" in result.err
        assert "XDG_DATA_HOME" in result.err
