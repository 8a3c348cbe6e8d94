"""Policies on the command line: `policy check`, `policy test`, and contracts in finalize, diagnose and check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import Cli, Runs, attached, recorded

from critiqor.errors import ExitCode
from critiqor.run.diagnosis import check_diagnosis
from critiqor.run.store import Run

POLICY = """
[limits]
tool_calls = 2

[[contracts]]
id = "look-before-you-delete"
says = "Deleted a folder without listing it first."
severity = "high"
[contracts.before]
call = 'call.tool == "exec" && call.args.command.startsWith("rm -r")'
needs = 'call.tool == "exec" && call.args.command.startsWith("ls")'
"""
UNKNOWN = "[[contracts]]\nid = 'path'\nnever = 'call.args.path == \"x\"'\n"


def commands(*lines: str) -> list[dict[str, Any]]:
    """The journal of an agent that runs commands and says that it is done."""
    records = [attached(1), recorded(2), recorded(3, "input", payload={"role": "user", "text": "Clean up, please."})]
    for number, line in enumerate(lines):
        call: dict[str, Any] = {"tool_name": "exec", "tool_call_id": f"c{number}"}
        at = 4 + 2 * number
        records.append(recorded(at, "tool_call", **call, payload={"arguments": {"command": line}}))
        records.append(recorded(at + 1, "tool_output", **call, payload={"result": f"output {number}"}))
    end = 4 + 2 * len(lines)
    records.append(recorded(end, "message_end", payload={"role": "assistant", "text": "I cleaned up."}))
    return [*records, recorded(end + 1, "agent_end", payload={"success": True})]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    file = tmp_path / "policy.toml"
    file.write_text(POLICY)
    return file


@pytest.fixture
def run(runs: Runs) -> str:
    """A run that deletes a folder without a look, not finalized yet."""
    run_id = runs.start()
    runs.write(run_id, *commands("pwd", "rm -r build", "ls"))
    return run_id


def types(document: dict[str, Any]) -> list[str]:
    return [finding["type"] for finding in document["failure_analysis"]["findings"]]


def test_finalize_reports_violated_contracts(cli: Cli, run: str, policy: Path) -> None:
    answer = cli("finalize", "--no-dashboard", "--policy", policy, "--json")
    diagnosis = answer.document["data"]["diagnosis"]
    [finding] = [each for each in diagnosis["failure_analysis"]["findings"] if each["type"] == "contract_violation"]
    assert (finding["title"], finding["severity"]) == ("Deleted a folder without listing it first.", "high")
    assert diagnosis["contracts"][0]["violations"] == 1
    assert "Deleted a folder without listing it first." in cli("show", run).out
    assert "rediagnosis" not in cli("check", run, "--rediagnose").out.partition("not checked")[2]


def test_a_run_diagnosed_again_keeps_its_contracts_unless_others_are_given(cli: Cli, run: str, policy: Path) -> None:
    cli("finalize", "--no-dashboard", "--policy", policy)
    assert "contract_violation" in types(cli("diagnose", run, "--json").document["data"])
    policy.write_text("min_trust = 1")
    assert "contract_violation" not in types(cli("diagnose", run, "--policy", policy, "--json").document["data"])
    assert "contract_violation" not in types(cli("diagnose", run, "--json").document["data"])


def test_finalize_says_that_it_checked_no_contracts_of_a_run_that_is_finalized(
    cli: Cli, run: str, policy: Path
) -> None:
    assert "not checked" not in cli("finalize", run, "--no-dashboard", "--policy", policy).err
    policy.write_text(POLICY.replace("look-before", "think-before"))
    answer = cli("finalize", run, "--no-dashboard", "--policy", policy)
    assert answer.code == ExitCode.OK
    assert "run_001 had been finalized before, so these contracts were not checked" in answer.err
    assert f"critiqor diagnose run_001 --policy {policy}" in answer.err


def test_check_applies_contracts_also_to_a_run_that_was_diagnosed_without(cli: Cli, run: str, policy: Path) -> None:
    cli("finalize", "--no-dashboard")
    assert cli("check", run).code == ExitCode.OK
    answer = cli("check", run, "--policy", policy)
    assert answer.code == ExitCode.GATE_FAILED
    assert "NO  contracts: look-before-you-delete is violated 1 time" in answer.out
    assert answer.out.count("NO ") == 1
    cli("diagnose", run, "--policy", policy)
    assert "NO  contracts: look-before-you-delete is violated 1 time" in cli("check", run, "--policy", policy).out
    policy.write_text('allowed_types = ["contract_violation"]\n' + POLICY)
    assert cli("check", run, "--policy", policy).code == ExitCode.OK
    report = cli("export", run, "--format", "junit", "--policy", policy, "-o", "-")
    assert report.code == ExitCode.OK, report.err


def test_a_contract_that_could_not_be_evaluated_fails_the_check_and_is_reported(
    cli: Cli, run: str, policy: Path
) -> None:
    policy.write_text(UNKNOWN)
    cli("finalize", "--no-dashboard", "--policy", policy)
    said = "the contract path could not be evaluated 3 times, first on evt_"
    assert said in cli("show", run).out
    assert "call.args.path == \"x\": the event has no 'path'" in cli("report", run).out.replace("\\", "")
    answer = cli("check", run, "--policy", policy)
    assert answer.code == ExitCode.GATE_FAILED
    assert "NO  contracts: path could not be evaluated on evt_" in answer.out


def test_tables_of_the_folder_apply_without_an_option(cli: Cli, run: str, tmp_path: Path) -> None:
    (tmp_path / "critiqor.toml").write_text('agent_id = "mine"\n' + POLICY)
    answer = cli("finalize", "--no-dashboard", "--json")
    assert "contract_violation" in types(answer.document["data"]["diagnosis"])
    assert "1 with a violated contract, 1 over a limit" in cli("policy", "test", run).out
    assert "contracts: look-before-you-delete" in cli("policy", "check", "critiqor.toml").out
    (tmp_path / "critiqor.toml").write_text("[limits]\ntokns = 1\n")
    wrong = cli("check", run)
    assert (wrong.code, wrong.out) == (ExitCode.USAGE, "")
    assert "critiqor.toml: line 2, column 1: limits.tokns: there is no key 'tokns'" in wrong.err


def test_a_policy_is_tried_on_runs_and_traces_without_writing(cli: Cli, runs: Runs, run: str, policy: Path) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in runs.folder.rglob("*") if path.is_file())
    answer = cli("policy", "test", run, "--policy", policy)
    assert answer.code == ExitCode.OK
    assert "  high look-before-you-delete, 1 time: Deleted a folder without listing it first. (session" in answer.out
    assert "  notify limits.tool_calls: 3 tool calls (exec) in one agent run of session agent:main:main" in answer.out
    data = cli("policy", "test", run, "--policy", policy, "--json").document["data"]
    assert [each["id"] for each in data[0]["violations"]] == ["look-before-you-delete"]
    assert sorted((path, path.stat().st_mtime_ns) for path in runs.folder.rglob("*") if path.is_file()) == before
    trace = {
        "labels": {"trace_id": "t1"},
        "events": [
            {"i": 0, "type": "user", "text": "Clean up."},
            {"i": 1, "type": "tool_call", "tool": "exec", "args": {"command": "rm -r x"}, "tool_call_id": "1"},
            {"i": 2, "type": "tool_result", "tool": "exec", "text": "", "tool_call_id": "1"},
        ],
    }
    policy.with_name("traces.jsonl").write_text(json.dumps(trace) + "\n")
    traced = cli("policy", "test", "traces.jsonl", run, "--policy", policy)
    assert "2 tried: 2 with a violated contract, 1 over a limit" in traced.out
    [line] = cli("diagnose", "traces.jsonl", "--policy", policy, "--json").out.splitlines()
    assert "contract_violation" in [each["type"] for each in json.loads(line)["findings"]]


def test_a_run_on_which_a_contract_could_not_be_evaluated_is_not_called_ok(cli: Cli, run: str, policy: Path) -> None:
    policy.write_text("[[contracts]]\nid = 'a'\nnever = 'call.args.path == \"x\"'\n")
    lines = cli("policy", "test", run, "--policy", policy).out.splitlines()
    assert lines[0] == run
    assert lines[1].startswith("  unknown: ")
    assert lines[-1].endswith(", 1 with a contract that could not be evaluated everywhere")


def test_a_policy_without_limits_and_contracts_cannot_be_tried(cli: Cli, run: str, policy: Path) -> None:
    policy.write_text("min_trust = 1")
    answer = cli("policy", "test", run, "--policy", policy)
    assert (answer.code, answer.out) == (ExitCode.USAGE, "")
    assert "policy.toml has neither limits nor contracts" in answer.err


def test_a_policy_is_checked_without_a_run(cli: Cli, policy: Path) -> None:
    answer = cli("policy", "check", policy)
    assert answer.code == ExitCode.OK
    assert "policy.toml is valid" in answer.out and "contracts: look-before-you-delete" in answer.out
    data = cli("policy", "check", policy, "--json").document["data"]
    assert data["limits"]["tool_calls"] == {"max": 2.0, "per": "agent_run", "action": "notify"}
    policy.write_text(POLICY.replace("call.tool", "call.tol", 1))
    wrong = cli("policy", "check", policy)
    assert wrong.code == ExitCode.USAGE
    assert "policy.toml: line 10, column 14: contracts[0].before.call: call has no tol" in wrong.err


def test_changed_contracts_in_a_diagnosis_are_found(cli: Cli, runs: Runs, run: str, policy: Path) -> None:
    cli("finalize", "--no-dashboard", "--policy", policy)
    recorded_run = Run.load(run, runs.folder)
    good = recorded_run.diagnosis_path.read_text()
    assert check_diagnosis(recorded_run).state == "passed"
    for old, new in (("rm -r", "rm -q"), ("startsWith", "startsBy"), ('"id": "look', '"id": " look')):
        assert old in good
        recorded_run.diagnosis_path.write_text(good.replace(old, new))
        assert check_diagnosis(recorded_run).state == "failed", new
