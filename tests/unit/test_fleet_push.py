"""`critiqor push`, `pull`, `verify --store`, `fleet init` and `fleet status`, with a store that is a folder."""

from __future__ import annotations

import re
import shutil
import time
import tomllib
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from object_stores import environment_of, free_port, seal_small_run
from support import Cli, Runs, attached, recorded, wait_until
from terminal import spawn

from critiqor.fleet.index.opening import open_index
from critiqor.fleet.settings import read_fleet
from critiqor.fleet.store.object_store import open_store
from critiqor.fleet.store.outbox import PushOutbox
from critiqor.fleet.store.sender import OutboxSender, send_in_background
from critiqor.fleet.store.storing import StoredRun, store_run
from critiqor.model import Metadata
from critiqor.policy.retention import parse_retention
from critiqor.run.lifecycle import start_session
from critiqor.run.retention.pruning import prune
from critiqor.run.segments.handover import hand_over
from critiqor.run.store import Run, RunStore
from critiqor.storage.paths import user_settings_path


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path}/store"


def write_settings(text: str) -> None:
    path = user_settings_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def configure(url: str, push: str = "private", **more: str) -> None:
    values = {"store": url, "push": push, "host": "build-7", **more}
    write_settings("[fleet]\n" + "".join(f'{name} = "{value}"\n' for name, value in values.items()))


def stored_runs(url: str) -> list[str]:
    return sorted(f"{each.host_id}/{each.run_id}" for each in open_store(url).manifests())


def indexed_runs() -> list[str]:
    with open_index(None) as index:
        return sorted(f"{run.host}/{run.run}" for run in index.runs())


def test_push_stores_and_indexes_every_sealed_run_once_and_says_what_leaves(runs: Runs, cli: Cli, url: str) -> None:
    configure(url)
    for _ in range(3):
        seal_small_run(runs)
    runs.start()
    first = cli("push")
    assert first.code == 0
    assert first.out.startswith(f"3 runs stored in {url}\n")
    assert f"pushing to {url}: private runs too, full content" in first.err
    assert stored_runs(url) == ["build-7/run_001", "build-7/run_002", "build-7/run_003"]
    assert indexed_runs() == stored_runs(url)
    again = cli("push", "--json")
    assert again.document["data"]["stored"] == []
    named = cli("push", "run_002", "--json").document["data"]
    assert [(each["run_id"], each["is_new"]) for each in named["stored"]] == [("run_002", False)]
    assert (named["push"], named["content"]) == ("private", "full")


def test_private_runs_stay_where_only_shared_ones_are_pushed(runs: Runs, cli: Cli, url: str) -> None:
    configure(url, "shared")
    seal_small_run(runs)
    seal_small_run(runs, visibility="shared")
    seal_small_run(runs, visibility="anonymous")
    pushed = cli("push")
    assert "no private runs" in pushed.err
    assert "1 private run kept on this machine" in pushed.out
    found = {each.run_id: each.content for each in open_store(url).manifests()}
    assert found == {"run_002": "full", "run_003": "structure"}
    assert cli("visibility", "run_001", "shared").code == 0
    assert cli("push").code == 0
    assert len(stored_runs(url)) == 3


def test_nothing_leaves_before_it_is_decided_what_may(runs: Runs, cli: Cli, url: str) -> None:
    seal_small_run(runs)
    refused = cli("push", "--to", url)
    assert refused.code == 2
    assert "not decided which runs may leave" in refused.err
    assert "critiqor fleet init" in refused.err
    assert stored_runs(url) == []
    assert cli("push", "--to", url, "--allow", "private").code == 0
    assert len(stored_runs(url)) == 1


def test_a_folder_cannot_say_where_runs_are_sent(runs: Runs, cli: Cli, tmp_path: Path) -> None:
    seal_small_run(runs)
    (tmp_path / "critiqor.toml").write_text('[fleet]\nstore = "file:///tmp/elsewhere"\npush = "private"\n')
    assert "unknown settings in critiqor.toml: fleet" in cli("runs").err
    (tmp_path / "critiqor.toml").unlink()
    (tmp_path / "pyproject.toml").write_text('[tool.critiqor.fleet]\nstore = "file:///tmp/elsewhere"\n')
    assert "these settings are ignored: fleet" in cli("runs").err
    assert "no store is configured" in cli("push").err


@pytest.mark.parametrize("table", ['push = "all"', "push = 1", 'content = "some"', 'stor = "s3://x"', "store = 1"])
def test_a_mistake_in_the_table_names_the_file(cli: Cli, table: str) -> None:
    write_settings(f"[fleet]\n{table}\n")
    answer = cli("runs")
    assert answer.code == 2
    assert "fleet in config.toml" in answer.err


def test_runs_wait_while_the_store_is_away_and_catch_up(runs: Runs, cli: Cli, url: str, tmp_path: Path) -> None:
    (tmp_path / "store").write_text("something that is no folder")
    configure(url)
    seal_small_run(runs)
    away = cli("push")
    assert away.code == 1
    assert "cannot be opened" in away.err
    (tmp_path / "store").unlink()
    assert cli("push").code == 0
    assert stored_runs(url) == ["build-7/run_001"]


def test_runs_are_stored_while_the_index_is_away_and_indexed_later(
    runs: Runs, cli: Cli, url: str, tmp_path: Path
) -> None:
    (tmp_path / "data").write_text("something that is no folder")
    configure(url)
    for _ in range(2):
        seal_small_run(runs)
    away = cli("push")
    assert away.code == 1
    assert "2 runs stored, and waiting for the index" in away.out
    assert len(stored_runs(url)) == 2
    assert "2 waiting for the index" in cli("fleet", "status").out
    (tmp_path / "data").unlink()
    assert cli("push").code == 0
    assert indexed_runs() == stored_runs(url)
    assert "0 waiting for the index" in cli("fleet", "status").out


def test_a_run_that_cannot_be_stored_is_named_and_holds_up_no_other(runs: Runs, cli: Cli, url: str) -> None:
    configure(url)
    broken = seal_small_run(runs)
    seal_small_run(runs)
    broken.evidence_path.chmod(0o600)
    broken.evidence_path.write_bytes(b"{}")
    pushed = cli("push")
    assert pushed.code == 1
    assert "run_001 is not stored: run_001: the evidence was changed after sealing" in pushed.out
    assert stored_runs(url) == ["build-7/run_002"]
    assert "1 refused" in cli("fleet", "status").out


def test_a_later_diagnosis_of_a_stored_run_is_pushed_as_a_further_object(
    runs: Runs, cli: Cli, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(url)
    seal_small_run(runs)
    cli("push")
    monkeypatch.setattr("critiqor.diagnosis.diagnoser.RULE_SET_VERSION", "99")
    assert cli("diagnose", "run_001").code == 0
    assert cli("push").code == 0
    [name] = open_store(url).list("diagnoses")
    assert name.endswith("/99.json")
    assert cli("verify", "--store", url).code == 0
    with open_index(None) as index:
        assert [run.rule_set for run in index.runs()] == ["99"]


def test_imported_and_aborted_runs_are_pushed_too(runs: Runs, cli: Cli, url: str, tmp_path: Path) -> None:
    configure(url)
    seal_small_run(runs)
    trace = tmp_path / "session.json"
    trace.write_bytes(runs.evidence_bytes("run_001"))
    imported = cli("import", trace)
    assert imported.code == 0
    assert f"run_002 is pushed to {url} in the background (private runs too, full content)" in imported.err
    wait_until(lambda: stored_runs(url) == ["build-7/run_002"])
    runs.start()
    assert cli("abort").code == 0
    assert "run_003 is pushed" in cli("diagnose", "run_003").err
    wait_until(lambda: stored_runs(url) == ["build-7/run_002", "build-7/run_003"])
    wait_until(lambda: not PushOutbox(runs.paths).has_work())


def test_finalize_also_pushes_the_segments_before_that_it_seals(runs: Runs, cli: Cli, url: str) -> None:
    configure(url)
    store = RunStore(runs.folder)
    first = store.run(start_session(store, Metadata(), owned=False, segment="24h").run_id)
    runs.write(first.id, attached(), recorded(2, "agent_start"), recorded(3, "agent_end"))
    following = hand_over(first, lambda _: {})
    assert following is not None
    runs.write(following.run.id, recorded(4, "agent_start"), recorded(5, "agent_end"))
    assert cli("finalize", following.run.id, "--no-dashboard").code == 0
    wait_until(lambda: stored_runs(url) == [f"build-7/{first.id}", f"build-7/{following.run.id}"])
    wait_until(lambda: not PushOutbox(runs.paths).has_work())


def test_init_asks_in_a_terminal_which_runs_leave_and_what_of_them(tmp_path: Path, url: str) -> None:
    child = spawn("fleet", "init", home=tmp_path, variables={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    child.expect("Store")
    child.sendline(url)
    child.expect("Which runs leave this machine")
    child.sendline("private")
    child.expect("What leaves of a run")
    child.sendline("structure")
    child.expect("private runs too, structure and numbers only")
    child.wait()
    assert (read_fleet().store, read_fleet().push, read_fleet().content) == (url, "private", "structure")


def test_retention_keeps_a_run_that_waits_to_be_stored(runs: Runs) -> None:
    for _ in range(3):
        seal_small_run(runs)
    PushOutbox(runs.paths).expect("run_001")
    pruned = prune(RunStore(runs.folder), parse_retention({"max_runs": 1}))
    assert [each.run_id for each in pruned.removed] == ["run_002"]
    assert pruned.not_sealed == ["run_001"]


def test_a_pulled_run_is_read_by_every_verb(runs: Runs, cli: Cli, url: str, tmp_path: Path) -> None:
    configure(url)
    seal_small_run(runs)
    cli("push")
    pulled = cli("pull", "build-7/run_001", "--runs-dir", "other")
    assert pulled.code == 0
    assert "critiqor show run_001 --runs-dir other" in pulled.out
    assert cli("verify", "run_001", "--runs-dir", "other").code == 0
    assert cli("show", "run_001", "--runs-dir", "other").code == 0
    assert "there is no run build-7/run_009" in cli("pull", "build-7/run_009").err
    shutil.rmtree(tmp_path / "other")


def test_a_pulled_run_keeps_its_host_and_is_not_pushed_as_a_run_of_this_one(
    runs: Runs, cli: Cli, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(url)
    seal_small_run(runs)
    cli("push")
    configure(url, host="laptop")
    assert cli("pull", "build-7/run_001", "--runs-dir", "other").code == 0
    assert cli("push", "--runs-dir", "other", "--json").document["data"]["stored"] == []
    named = cli("push", "run_001", "--runs-dir", "other", "--json").document["data"]["stored"]
    assert [(each["name"].partition("/")[0], each["is_new"]) for each in named] == [("build-7", False)]
    assert "only its own machine" in cli("push", "run_001", "--runs-dir", "other", "--content", "structure").out
    elsewhere = f"file://{tmp_path}/elsewhere"
    assert cli("push", "--to", elsewhere, "--runs-dir", "other").code == 0
    assert stored_runs(elsewhere) == []
    assert cli("push", "run_001", "--to", elsewhere, "--runs-dir", "other").code == 0
    assert stored_runs(elsewhere) == ["build-7/run_001"]
    monkeypatch.setattr("critiqor.diagnosis.diagnoser.RULE_SET_VERSION", "99")
    assert cli("diagnose", "run_001", "--runs-dir", "other").code == 0
    assert cli("push", "--runs-dir", "other").code == 0
    assert [name.rpartition("/")[2] for name in open_store(url).list("diagnoses")] == ["99.json"]
    assert stored_runs(url) == ["build-7/run_001"]
    configure(elsewhere, host="laptop")
    assert "pushed" not in cli("diagnose", "run_001", "--runs-dir", "other").err
    assert PushOutbox(RunStore(tmp_path / "other").paths).names("waiting") == []


def test_runs_of_two_machines_with_one_name_are_pulled_by_the_commands_of_the_messages(
    runs: Runs, cli: Cli, url: str, tmp_path: Path
) -> None:
    """Both are copies of one disk image, so their names and the numbers of their runs are the same."""
    configure(url)
    clone = Runs(tmp_path / "clone")
    for folder, text in ((runs, "Mine."), (clone, "Theirs.")):
        seal_small_run(folder, text)
        assert cli("push", "--runs-dir", str(folder.folder)).code == 0
    assert len(stored_runs(url)) == len(indexed_runs()) == 2
    refused = cli("pull", "build-7/run_001", "--runs-dir", "other")
    first, second = re.findall(r"build-7/run_001@[0-9a-f]{8}", refused.err)
    assert cli("pull", first, "--runs-dir", "other").code == 0
    taken = cli("pull", second, "--runs-dir", "other")
    assert taken.code == 1
    [command] = re.findall(r"→ critiqor (.*)", taken.err)
    assert cli(*command.split()).code == 0
    assert cli("verify", "run_001", "--runs-dir", command.split()[-1]).code == 0


def test_a_run_that_is_sealed_while_others_are_pushed_is_pushed_too(
    runs: Runs, cli: Cli, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(url)
    seal_small_run(runs)

    def seal_another(run: Run, *others: Any) -> StoredRun:
        if run.id == "run_001":
            PushOutbox(runs.paths).expect(seal_small_run(runs).id)
        return store_run(run, *others)

    monkeypatch.setattr("critiqor.fleet.store.sender.store_run", seal_another)
    pushed = cli("push")
    assert (pushed.code, "waiting" in pushed.out) == (0, False)
    assert stored_runs(url) == indexed_runs() == ["build-7/run_001", "build-7/run_002"]


def test_a_run_that_is_sealed_when_another_push_has_just_ended_is_sent_by_its_own_sender(
    runs: Runs, cli: Cli, url: str
) -> None:
    """The other process still holds the lock, but does not look at the outbox any more."""
    configure(url)
    outbox = PushOutbox(runs.paths)
    outbox.expect(seal_small_run(runs).id)
    with outbox.sending():
        started = Thread(
            target=send_in_background, args=(OutboxSender(RunStore(runs.folder), read_fleet(), "private"), 60.0)
        )
        started.start()
        time.sleep(1)
        assert started.is_alive()
    started.join()
    assert stored_runs(url) == ["build-7/run_001"]


def test_verify_of_a_store_finds_a_changed_bundle_and_lists_what_is_incomplete(
    runs: Runs, cli: Cli, url: str, tmp_path: Path
) -> None:
    configure(url)
    for _ in range(2):
        seal_small_run(runs)
    cli("push")
    whole = cli("verify", "--store", url)
    assert whole.code == 0
    assert whole.out.startswith(f"2 runs verified in {url}: 0 broken")
    bundles = sorted((tmp_path / "store" / "bundles" / "build-7").iterdir())
    bundles[0].write_bytes(bundles[0].read_bytes()[:-1] + b"x")
    manifests = sorted((tmp_path / "store" / "manifests" / "build-7").iterdir())
    manifests[1].unlink()
    broken = cli("verify", "--store", url, "--json")
    assert broken.code == 1
    data = broken.document["data"]
    assert (data["verified"], data["broken"]) == (1, 1)
    assert [(run["run_id"], run["intact"]) for run in data["runs"]] == [("run_001", False)]
    assert len(data["incomplete"]) == 1
    assert cli("verify", "--store", url, "build-7/run_001").code == 1
    assert cli("push", "run_002").code == 0
    whole = cli("verify", "--store", url, "build-7/run_002", "--json")
    assert (whole.code, [run["intact"] for run in whole.document["data"]["runs"]]) == (0, [True])
    assert cli("verify").code == 2


def test_verify_of_a_store_holds_only_what_is_broken(
    runs: Runs, cli: Cli, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(url)
    for number in range(5):
        seal_small_run(runs, f"Answer {number}.")
    cli("push")
    monkeypatch.setattr("critiqor.fleet.store.verification.MAX_LISTED", 2)
    assert cli("verify", "--store", url, "--json").document["data"]["runs"] == []
    for bundle in sorted((tmp_path / "store" / "bundles" / "build-7").iterdir())[1:]:
        bundle.write_bytes(b"damaged")
    data = cli("verify", "--store", url, "--json").document["data"]
    assert (data["verified"], data["broken"], len(data["runs"])) == (5, 4, 2)
    assert "and 2 more" in cli("verify", "--store", url).out


def test_verify_of_a_store_checks_signatures(runs: Runs, cli: Cli, url: str) -> None:
    assert cli("keys", "init").code == 0
    configure(url)
    seal_small_run(runs)
    cli("push")
    verified = cli("verify", "--store", url)
    assert "1 signed by a trusted signer" in verified.out
    [manifest] = open_store(url).manifests()
    assert manifest.signature is not None


def test_init_writes_what_may_leave_and_keeps_the_other_settings(cli: Cli, url: str) -> None:
    write_settings('agent_id = "mine"  # kept\n\n[fleet]\nstore = "s3://old"\n\n[retention]\nmax_runs = 9\n')
    answer = cli("fleet", "init", "--store", url, "--push", "shared", "--content", "structure", "--host", "build-7")
    assert answer.code == 0
    assert "no private runs, structure and numbers only" in answer.out
    text = user_settings_path().read_text()
    assert "# kept" in text
    assert tomllib.loads(text) == {
        "agent_id": "mine",
        "retention": {"max_runs": 9},
        "fleet": {"store": url, "push": "shared", "content": "structure", "host": "build-7"},
    }
    assert read_fleet().push == "shared"
    assert cli("fleet", "init", "--push", "private").code == 0
    assert (read_fleet().store, read_fleet().push, read_fleet().content) == (url, "private", "structure")


def test_init_without_a_terminal_wants_the_decision_as_an_option(cli: Cli, url: str) -> None:
    answer = cli("fleet", "init", "--store", url)
    assert answer.code == 2
    assert "--push private" in answer.err
    assert not user_settings_path().exists()
    assert cli("fleet", "init", "--push", "private").code == 2
    assert cli("fleet", "init", "--store", "http://x", "--push", "private").code == 2


def test_init_says_so_if_the_store_cannot_be_reached(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "made-up")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up")
    monkeypatch.setattr("critiqor.fleet.store.object_store.RETRIES", 0)
    answer = cli("fleet", "init", "--store", "s3://bucket", "--push", "private")
    assert answer.code == 0
    assert "the store cannot be used yet" in answer.err
    assert "made-up" not in answer.err + answer.out


def test_status_shows_no_password(cli: Cli, url: str) -> None:
    configure(url, index="postgresql://ana:s3cret@db.example:5432/fleet?sslmode=require")
    answer = cli("fleet", "status")
    assert "s3cret" not in answer.out + answer.err
    assert "index: postgresql://ana@db.example:5432/fleet" in answer.out


def test_status_without_a_store_says_that_nothing_leaves(cli: Cli) -> None:
    assert "nothing leaves this machine" in cli("fleet", "status").out


def test_an_outbox_of_others_names_no_store_and_no_file_outside(runs: Runs, cli: Cli, url: str) -> None:
    configure(url)
    seal_small_run(runs)
    waiting = runs.paths.fleet_folder / "waiting"
    waiting.mkdir(parents=True)
    for name in ("..", "run_404", "x y", "run_001.tmp"):
        (waiting / name).write_text("s3://attacker") if name != ".." else None
    (runs.paths.fleet_folder / "state.json").write_text("damaged")
    assert cli("push").code == 0
    assert stored_runs(url) == ["build-7/run_001"]


def test_a_run_that_is_expected_and_not_sealed_waits_without_failing(runs: Runs, cli: Cli, url: str) -> None:
    configure(url)
    run_id = runs.start()
    PushOutbox(runs.paths).expect(run_id)
    assert cli("push").code == 0
    assert stored_runs(url) == []
    runs.write(run_id, attached(), recorded(2, "agent_start"), recorded(3, "agent_end"))
    runs.finalize(run_id)
    assert cli("push").code == 0
    assert stored_runs(url) == ["build-7/run_001"]


def test_runs_that_are_pushed_with_other_options_than_those_of_the_settings_do_not_wait(
    runs: Runs, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment_of(free_port()).items():
        monkeypatch.setenv(name, value)
    configure("s3://bucket/runs")
    for _ in range(2):
        seal_small_run(runs)
    PushOutbox(runs.paths).expect("run_002")
    failed = cli("push", "run_001", "--content", "structure")
    assert failed.code == 1
    assert "repeat the command" in failed.err
    assert PushOutbox(runs.paths).names("waiting") == ["run_002"], "it would be pushed with its full content later"
    configure(url := f"file://{tmp_path}/store", "shared")
    assert cli("push", "run_001", "--allow", "private", "--content", "structure").code == 0
    [stored] = open_store(url).manifests()
    assert (stored.run_id, stored.content) == ("run_001", "structure")
    assert PushOutbox(runs.paths).names("waiting") == ["run_002"], "only the run that was named leaves"
