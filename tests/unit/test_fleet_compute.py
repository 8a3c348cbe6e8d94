"""`critiqor fleet diagnose` on processes of this machine: the same diagnoses as on each host, and what they change."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from fleet_runs import (
    Fleet,
    ThreadWorkers,
    diagnose_with_old_rules,
    failing_run,
    push,
    run_with_timeline,
    second_segment,
    without_times,
)
from support import Cli

from critiqor.diagnosis import RULE_SET_VERSION
from critiqor.errors import UsageError
from critiqor.fleet.compute.changes import ChangeReport
from critiqor.fleet.compute.rediagnosis import Problem, RunTask, diagnose_store, rediagnose
from critiqor.fleet.compute.selection import FIELDS, RunSelection
from critiqor.fleet.index.opening import open_index
from critiqor.fleet.manifest import diagnosis_path
from critiqor.model import Diagnosis


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path)


def report_on(fleet: Fleet, where: str | None = None) -> ChangeReport:
    """Diagnose the runs of a store in a thread of this process."""
    with ThreadWorkers() as workers:
        return diagnose_store(fleet.store, RunSelection(where), workers, advance=lambda: None, notice=print)


def test_diagnoses_are_those_of_the_hosts_byte_for_byte_but_for_times(fleet: Fleet, cli: Cli) -> None:
    answer = cli("fleet", "diagnose", "--store", fleet.url, "--workers", "2")
    assert answer.code == 0
    assert "6 runs: 6 diagnosed with rule set" in answer.out
    assert "6 runs changed: trust fell in 0, rose in 6" in answer.out
    assert "gone old_failure:exec" in answer.out
    assert "build-2/run_003" in answer.out
    for manifest in fleet.manifests:
        stored = fleet.stored_diagnosis(manifest, RULE_SET_VERSION)
        assert stored is not None
        assert without_times(stored) == without_times(fleet.local_diagnosis(manifest))


def test_the_report_counts_what_is_gone_new_and_judged_otherwise_by_type_and_agent(fleet: Fleet) -> None:
    report = report_on(fleet)
    assert (report.selected, report.diagnosed, report.different, report.failed) == (6, 6, 6, 0)
    assert (report.trust_rose, report.trust_fell) == (6, 0)
    counts = {(each.type, each.agent_id): (each.gone, each.new) for each in report.findings}
    # Each host has three runs: two of agent-0, one of agent-1.
    assert counts["old_failure", "agent-0"] == (4, 0)
    assert counts["old_failure", "agent-1"] == (2, 0)
    assert counts["false_success_claim", "agent-0"] == (0, 4)
    first = report.runs[0]
    assert (first.host_id, first.run_id) == ("build-1", "run_001")
    assert (first.previous_trust, first.previous_rule_set) == (12, "3")
    assert [each.cause for each in first.gone] == ["old_failure:exec"]


def test_a_second_call_computes_nothing_and_reports_the_same_changes(fleet: Fleet) -> None:
    first = report_on(fleet)
    before = {each.seal: fleet.stored_diagnosis(each, RULE_SET_VERSION) for each in fleet.manifests}
    second = report_on(fleet)
    assert (second.diagnosed, second.already_diagnosed) == (0, 6)
    assert second.findings == first.findings
    assert {each.seal: fleet.stored_diagnosis(each, RULE_SET_VERSION) for each in fleet.manifests} == before


def test_runs_of_the_installed_rule_set_are_left_alone(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, hosts=())
    push(fleet.store, failing_run(fleet.runs_of("build-1")), "build-1")
    report = report_on(fleet)
    assert (report.selected, report.same_rule_set, report.diagnosed) == (1, 1, 0)
    assert not list(fleet.store.list("diagnoses"))


def test_runs_without_content_or_without_their_timeline_are_not_diagnosed_otherwise_than_on_their_host(
    tmp_path: Path,
) -> None:
    fleet = Fleet(tmp_path, hosts=())
    run = failing_run(fleet.runs_of("build-1"))
    diagnose_with_old_rules(run)
    push(fleet.store, run, "build-1", content="structure")
    secret = "ghp_" + "a1B2c3D4e5" * 4
    fleet.add(run_with_timeline(fleet.runs_of("build-2"), text=secret), "build-2")
    report = report_on(fleet)
    assert (report.selected, report.without_content, report.failed) == (2, 1, 1)
    assert "was pushed without its timeline" in report.problems[0].problem
    assert not list(fleet.store.list("diagnoses"))


def test_a_later_diagnosis_is_compared_with_the_latest_one_before_it(fleet: Fleet) -> None:
    manifest = fleet.manifests[0]
    run = fleet.runs[manifest.seal]
    diagnose_with_old_rules(run, "4")
    assert fleet.store.create(diagnosis_path(manifest.seal, "4"), run.diagnosis_path.read_bytes())
    change = rediagnose(RunTask(fleet.url, manifest, RULE_SET_VERSION, None))
    assert not isinstance(change, Problem)
    assert change.previous_rule_set == "4"


def test_a_damaged_bundle_costs_only_its_own_run(fleet: Fleet, cli: Cli) -> None:
    damaged = fleet.manifests[1]
    file = fleet.bundle_file(damaged)
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    missing = fleet.manifests[4]
    fleet.bundle_file(missing).unlink()
    answer = cli("fleet", "diagnose", "--store", fleet.url, "--json")
    assert answer.code == 1
    assert (answer.data["diagnosed"], answer.data["failed"]) == (4, 2)
    named = [(each["host_id"], each["run_id"]) for each in answer.data["problems"]]
    assert named == [(damaged.host_id, damaged.run_id), (missing.host_id, missing.run_id)]
    assert fleet.store.create("manifests/build-1/other.json", b"{}")
    text = cli("fleet", "diagnose", "--store", fleet.url, "--workers", "1")
    assert f"{damaged.host_id}/{damaged.run_id}: the bundle of" in text.out
    assert "left out: manifests/build-1/other.json" in text.out


def test_contracts_timelines_and_carried_events_are_those_of_the_run(tmp_path: Path, cli: Cli) -> None:
    fleet = Fleet(tmp_path, hosts=())
    policy = tmp_path / "policy.toml"
    policy.write_text('[[contracts]]\nid = "no-exec"\nsays = "Used exec."\nnever = \'call.tool == "exec"\'\n')
    run = failing_run(fleet.runs_of("build-1"))
    assert cli("diagnose", run.id, "--runs-dir", run.paths.runs_dir, "--policy", policy).code == 0
    manifests = [
        fleet.add(run, "build-1"),
        fleet.add(run_with_timeline(fleet.runs_of("build-2")), "build-2"),
        fleet.add(second_segment(fleet.runs_of("build-3")), "build-3"),
    ]
    assert report_on(fleet).diagnosed == 3
    for manifest in manifests:
        stored = fleet.stored_diagnosis(manifest, RULE_SET_VERSION)
        assert stored is not None
        assert without_times(stored) == without_times(fleet.local_diagnosis(manifest))
    first, second, third = (fleet.stored_diagnosis(manifest, RULE_SET_VERSION) for manifest in manifests)
    assert json.loads(first or b"")["contracts"][0]["violations"] == 1
    assert json.loads(second or b"")["timeline"]["present"]
    claims = {each["text"]: each["status"] for each in json.loads(third or b"")["claims"]}
    assert "supported" in claims.values(), claims


def test_an_expression_selects_by_what_the_manifest_says(fleet: Fleet) -> None:
    where = 'run.host == "build-2" && run.agent_id.startsWith("agent-0") && run.rule_set < 5 && run.verdict == "review"'
    runs = report_on(fleet, where).runs
    assert [(each.host_id, each.run_id) for each in runs] == [("build-2", "run_001"), ("build-2", "run_003")]
    manifest = fleet.manifests[0]
    assert RunSelection(f'run.sealed_at >= "{manifest.sealed_at}" && run.events > 5').has(manifest)
    assert not RunSelection('run.created_at < "2020-01-01"').has(manifest)
    assert RunSelection("!run.is_signed && run.seal.size() > 0 || true").has(manifest)


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ('run.agent == "x"', "run has no agent (did you mean agent_id?)"),
        ('agent_id == "x"', "there is no agent_id"),
        ('run.agent_id == "x', "it is no CEL expression"),
        ("run.agent_id", "the result is a str"),
        ('run.events > "many"', "--where cannot be evaluated on build-1/run_00"),
    ],
)
def test_a_mistake_in_an_expression_is_explained(tmp_path: Path, cli: Cli, where: str, problem: str) -> None:
    fleet = Fleet(tmp_path, hosts=("build-1",), runs_per_host=1)
    answer = cli("fleet", "diagnose", "--store", fleet.url, "--where", where, "--workers", "1")
    assert answer.code == 2
    assert problem in answer.err


def test_the_help_names_everything_that_an_expression_sees(cli: Cli) -> None:
    words = cli("fleet", "diagnose", "--help").out.replace(".", " ").replace(",", " ").split()
    assert set(FIELDS) <= set(words)


def test_a_worker_with_other_rules_ends_the_work_and_says_what_to_install(fleet: Fleet) -> None:
    result = rediagnose(RunTask(fleet.url, fleet.manifests[0], "999", None))
    assert isinstance(result, Problem)
    assert result.fix is not None
    assert "rule set 999" in result.text


def test_processes_and_a_cluster_are_not_mixed(fleet: Fleet, cli: Cli) -> None:
    answer = cli("fleet", "diagnose", "--store", fleet.url, "--workers", "2", "--cluster", "tcp://127.0.0.1:1")
    assert answer.code == 2
    assert "--workers has no effect with --cluster" in answer.err


def test_no_selection_needs_no_expression(fleet: Fleet) -> None:
    assert all(map(RunSelection().has, fleet.manifests))
    with pytest.raises(UsageError):
        RunSelection("")


def test_a_stored_diagnosis_is_sealed_as_that_of_a_host(fleet: Fleet) -> None:
    report_on(fleet)
    stored = fleet.stored_diagnosis(fleet.manifests[0], RULE_SET_VERSION) or b""
    run = fleet.runs[fleet.manifests[0].seal]
    run.diagnosis_path.write_bytes(stored)
    assert run.diagnosis == msgspec.json.decode(stored, type=Diagnosis)


def test_the_index_takes_later_diagnoses_from_the_store(fleet: Fleet, tmp_path: Path, cli: Cli) -> None:
    report_on(fleet)
    index = f"sqlite:///{tmp_path}/index.sqlite"
    assert cli("fleet", "reindex", "--store", fleet.url, "--index", index, "--json").data["added"] == 12
    with open_index(index) as opened:
        assert [each.rule_set for each in opened.runs()] == [RULE_SET_VERSION] * 6


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("distributed", ("diagnose", "--cluster", "tcp://127.0.0.1:1")),
        ("pyarrow", ("export", "--parquet", "analytics")),
        ("obstore.store", ("diagnose", "--workers", "1")),
    ],
)
def test_without_the_extra_the_message_says_how_to_install_it(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, package: str, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    answer = cli("fleet", *arguments, "--store", f"file://{tmp_path}/store")
    assert answer.code == 1
    assert "this needs the extra `fleet`, which is not installed" in answer.err
    assert 'pip install ".[fleet]"' in answer.err


def test_packages_of_the_extra_are_imported_only_where_they_are_used() -> None:
    code = (
        "import sys, critiqor.cli.verbs.fleet, critiqor.cli.verbs.fleet_diagnose, critiqor.cli.verbs.fleet_export\n"
        "assert not {'critiqor.fleet', 'critiqor.diagnosis'} & set(sys.modules)\n"
        "import critiqor.fleet.compute.rediagnosis, critiqor.fleet.analytics.export\n"
        "print(sorted({'obstore', 'distributed', 'dask', 'pyarrow', 'psycopg'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
