"""The verb `profile`, without a process that could be asked."""

from __future__ import annotations

import json
from pathlib import Path

from profiles import CPU_NAME, cpu_document
from support import Cli, Runs


def profiled(runs: Runs) -> str:
    run_id = runs.start()
    folder = runs.paths.profiles_folder(run_id)
    folder.mkdir(parents=True)
    document = cpu_document({"(root)": ["busyWork"]}, [("busyWork", 0)], 4000)
    (folder / CPU_NAME).write_text(json.dumps(document))
    return run_id


def test_profiles_of_a_run_are_summarised(cli: Cli, runs: Runs) -> None:
    run_id = profiled(runs)
    assert cli("profile", run_id, "--json").data["by_self_time"][0]["function"]["name"] == "busyWork"
    assert "busyWork" in cli("profile", run_id).out
    assert "| `busyWork` |" in cli("profile", run_id, "--markdown").out


def test_run_that_was_not_profiled_deeply_says_how_to_do_it(cli: Cli, runs: Runs) -> None:
    run_id = runs.start()
    answer = cli("profile", run_id)
    assert answer.code == 0
    assert "critiqor monitor openclaw --deep-profile" in answer.out
    refused = cli("profile", run_id, "--report", "--json")
    assert refused.code == 1
    assert refused.error["fix"] == "critiqor monitor openclaw --deep-profile"


def test_run_that_does_not_run_cannot_be_asked(cli: Cli, runs: Runs) -> None:
    run_id = profiled(runs)
    for option in ("--report", "--heap-snapshot"):
        answer = cli("profile", run_id, option)
        assert answer.code == 1
        assert f"{run_id} is not running" in answer.err
        assert f"critiqor profile {run_id}" in answer.err


def test_report_and_snapshot_are_asked_for_one_at_a_time(cli: Cli, runs: Runs) -> None:
    assert cli("profile", profiled(runs), "--report", "--heap-snapshot").code == 2


def test_cpu_profiles_of_a_run_are_exported_for_speedscope(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    run_id = profiled(runs)
    torn = "CPU.20261116.100000.4712.0.001.cpuprofile"
    (runs.paths.profiles_folder(run_id) / torn).write_text('{"nodes":[')
    answer = cli("export", run_id, "--format", "speedscope")
    assert answer.code == 0
    assert f"{torn} is left out: ends too early" in answer.err
    document = json.loads((tmp_path / f"{run_id}.speedscope.json").read_text())
    assert [profile["weights"] for profile in document["profiles"]] == [[4000]]


def test_run_without_cpu_profiles_says_what_to_do_instead_of_exporting_nothing(
    cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    run_id = runs.start()
    answer = cli("export", run_id, "--format", "speedscope", "--json")
    assert answer.code == 1
    assert answer.error["fix"].startswith("record with critiqor monitor openclaw --deep-profile")
    assert list(tmp_path.glob("*.speedscope.json")) == []


def test_run_that_is_not_there_is_named(cli: Cli) -> None:
    for option in ((), ("--report",)):
        answer = cli("profile", "run_404", *option)
        assert answer.code == 1
        assert "run_404" in answer.err
