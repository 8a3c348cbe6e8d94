"""The verbs that judge diagnoses: compare, trends, check, benchmark."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from diagnosed import diagnosis, finding, store
from story import Story
from support import Cli, Runs, attached, recorded

from critiqor.errors import ExitCode
from critiqor.model.diagnosis import BriefDiagnosis
from critiqor.run.store import Run, RunStore
from critiqor.run.view import summarize_runs
from critiqor.session import abort_session
from critiqor.storage import run_record


def test_recorded_runs_can_be_judged_as_they_come(cli: Cli, runs: Runs) -> None:
    called = recorded(3, "tool_call", tool_name="exec", tool_call_id="c")
    failed = recorded(4, "tool_result", tool_name="exec", tool_call_id="c", status="error", error="exit code 1")
    runs.seal(attached(), recorded(2), called, failed)
    whole = Story().starts().model().says("Done.").finishes()
    runs.seal(attached(at=1_794_000_000_000), *map(msgspec.to_builtins, whole.events))
    assert cli("compare", "run_002", "run_002", "--json").data["verdict"] == "no difference"
    compared = cli("compare", "run_001", "run_002", "--json").data
    assert compared["summary"] == "cannot tell: run_001 did not finish"
    assert compared["figures"]["tool_calls"] == {"before": 1, "after": 0, "difference": None}
    assert len(cli("trends", "--json").data["runs"]) == 2
    assert cli("benchmark", "run_001", "--json").data["others"] == 1
    assert cli("check", "run_002").code == ExitCode.OK
    cut_off = cli("check", "run_001")
    assert cut_off.code == ExitCode.GATE_FAILED
    assert "NO  require_finished: the end of the run was not observed" in cut_off.out


def test_compare_tells_what_changed(cli: Cli, runs: Runs) -> None:
    store(runs, diagnosis("run_001", finding("tool_misuse:exec", occurrences=3), trust=70, cost_usd=0.2))
    store(runs, diagnosis("run_002", finding("tool_loop", "low"), trust=95, cost_usd=None, wall_ms=2500))
    text = cli("compare", "run_001", "run_002")
    assert (text.code, text.err) == (ExitCode.OK, "")
    lines = text.out.splitlines()
    assert lines[0] == "run_001 → run_002  mixed: 1 problem gone, trust 70 → 95; but 1 problem new"
    rows = [line.split() for line in lines]
    assert ["gone", "high", "3x", "tool_misuse:exec", "about", "tool_misuse:exec"] in rows
    assert ["new", "low", "1x", "tool_loop", "about", "tool_loop"] in rows
    assert ["trust", "70", "95", "+25"] in rows
    assert ["cost", "$0.2000", "no", "price", "known", "unknown"] in rows
    assert ["time", "1.00", "s", "2.50", "s", "+1.50", "s"] in rows
    assert ["tokens", "100", "100", "same"] in rows
    assert lines[-1].strip() == "Next: critiqor show run_002"
    data = cli("compare", "run_001", "run_002", "--json").data
    assert (data["verdict"], data["gone"][0]["cause"]) == ("mixed", "tool_misuse:exec")
    assert data["figures"]["cost_usd"] == {"before": 0.2, "after": None, "difference": None}


def test_still_there_shows_what_moved(cli: Cli, runs: Runs) -> None:
    store(runs, diagnosis("run_001", finding("a", "high", occurrences=3)))
    store(runs, diagnosis("run_002", finding("a", "low", occurrences=1), confidence=90))
    assert "still there  high → low  3x → 1x  a  about a" in cli("compare", "run_001", "run_002").out
    assert "still there  high  3x  a  about a" in cli("compare", "run_001", "run_001").out


def test_compare_says_how_to_make_runs_comparable(cli: Cli, runs: Runs) -> None:
    store(runs, diagnosis("run_001", rules="1"))
    store(runs, diagnosis("run_002", rules="2"))
    answer = cli("compare", "run_001", "run_002")
    assert answer.code == ExitCode.OK
    assert "cannot be compared" in answer.out
    assert "critiqor diagnose run_001, critiqor diagnose run_002" in answer.out


@pytest.mark.parametrize(
    "arguments", [("compare", "run_001", "run_002"), ("check", "run_002"), ("benchmark", "run_002")], ids=" ".join
)
def test_run_that_is_not_diagnosed_is_an_error_with_the_next_command(
    cli: Cli, runs: Runs, arguments: tuple[str, ...]
) -> None:
    missing = cli(*arguments)
    assert (missing.code, missing.out) == (ExitCode.ERROR, "")
    assert "→ critiqor runs" in missing.err
    store(runs, diagnosis("run_001"))
    assert runs.start() == "run_002"
    live = cli(*arguments)
    assert live.code == ExitCode.ERROR
    assert "run_002 is MONITORING and not diagnosed yet\n  → critiqor finalize run_002" in live.err
    abort_session("run_002", runs_dir=runs.folder)
    assert "→ critiqor diagnose run_002" in cli(*arguments).err
    store(runs, diagnosis("run_002"))
    assert cli(*arguments).code == ExitCode.OK
    runs.paths.diagnosis_path("run_002").write_text("{}")
    assert "→ critiqor diagnose run_002" in cli(*arguments).err


def test_diagnosis_of_other_evidence_is_not_believed(cli: Cli, runs: Runs) -> None:
    store(runs, diagnosis("run_001", finding("tool_loop"), trust=10))
    good = diagnosis("run_002")
    store(runs, good)
    runs.paths.diagnosis_path("run_001").write_bytes(runs.paths.diagnosis_path("run_002").read_bytes())
    assert Run.load("run_002", runs.folder).diagnosis == good
    answer = cli("check", "run_001")
    assert answer.code == ExitCode.ERROR
    assert "does not match its sealed evidence" in answer.err
    assert "critiqor diagnose run_001" in answer.err


def test_case_files_come_in_order_of_time_and_one_broken_hides_no_other(runs: Runs) -> None:
    store(runs, diagnosis("run_001"), day=3)
    store(runs, diagnosis("run_002"), day=1)
    store(runs, diagnosis("run_003"), day=2)
    store(runs, diagnosis("run_005"), day=4)
    runs.paths.run_path("run_003").write_bytes(b"{")
    runs.paths.diagnosis_path("run_005").unlink()
    (runs.folder / "run_004.json").mkdir()
    cases = {case.run_id: case for case in summarize_runs(RunStore(runs.folder))}
    assert list(cases) == ["run_003", "run_004", "run_002", "run_001", "run_005"]
    assert [run_id for run_id, case in cases.items() if case.diagnosis] == ["run_002", "run_001"]
    assert cases["run_003"].metadata is cases["run_004"].metadata is None
    assert "cannot be read" in (cases["run_003"].undiagnosed or "")
    assert cases["run_004"].undiagnosed
    assert (cases["run_005"].fix, cases["run_005"].metadata is None) == ("critiqor diagnose run_005", False)
    assert summarize_runs(RunStore(runs.folder / "nowhere")) == []


def test_trends_of_the_only_agent(cli: Cli, runs: Runs) -> None:
    for day, trust in enumerate((60, 70, 80, 90), 1):
        found = [finding("tool_loop", "medium")] if day < 3 else []
        store(runs, diagnosis(f"run_{day:03d}", *found, trust=trust, cost_usd=None), day)
    runs.start()
    store(runs, diagnosis("run_006"), 6)
    runs.paths.run_path("run_006").write_bytes(b"{")
    text = cli("trends")
    assert (text.code, text.err) == (ExitCode.OK, "")
    assert "trust up: median 65 in the first half, 85 in the second, over 4 runs, 1 without a diagnosis" in text.out
    assert "in 2 of 4 runs  medium  tool_loop  since run_001 (1970-01-02), last in run_002 (1970-01-03)" in text.out
    assert "run_005 is MONITORING and not diagnosed yet: critiqor finalize run_005" in text.out
    assert "cannot be read (all agents): run_006" in text.out
    assert "Next: critiqor show run_004" in text.out
    data = cli("trends", "--json").data
    assert [run["trust"] for run in data["runs"]] == [60, 70, 80, 90]
    assert [run["run_id"] for run in data["undiagnosed"]] == ["run_005"]
    last = cli("trends", "--last", "2", "--json").data
    assert [run["run_id"] for run in last["runs"]] == ["run_004"]
    assert cli("trends", "--last", "0").code == ExitCode.USAGE


def test_trends_of_several_agents_name_the_commands(cli: Cli, runs: Runs) -> None:
    store(runs, diagnosis("run_001", finding("tool_loop")), agent_id="one")
    store(runs, diagnosis("run_002"), agent_id="the other")
    which = cli("trends")
    assert (which.code, which.out) == (ExitCode.USAGE, "")
    assert "several agents" in which.err
    assert "critiqor trends --agent one\n    critiqor trends --agent 'the other'" in which.err
    wrong = cli("trends", "--agent", "none")
    assert wrong.code == ExitCode.USAGE
    assert "no runs of 'none'" in wrong.err
    assert [run["run_id"] for run in cli("trends", "--agent", "the other", "--json").data["runs"]] == ["run_002"]
    assert "since run_001 (1970-01-02), still there" in cli("trends", "--agent", "one").out


def test_trends_of_nothing(cli: Cli, runs: Runs) -> None:
    empty = cli("trends")
    assert empty.code == ExitCode.ERROR
    assert "→ critiqor monitor openclaw" in empty.err
    runs.start()
    assert "no trend: only 0 runs" in cli("trends").out


def test_check_passes_and_fails_with_its_exit_code(cli: Cli, runs: Runs) -> None:
    store(runs, diagnosis("run_001", trust=70))
    good = cli("check", "run_001")
    assert (good.code, good.err) == (ExitCode.OK, "")
    assert good.out.splitlines()[0] == "run_001 passes 6 of 6 rules"
    store(runs, diagnosis("run_002", finding("tool_loop", "critical", title="Round\nand round"), trust=50))
    bad = cli("check", "run_002")
    assert (bad.code, bad.err) == (ExitCode.GATE_FAILED, "")
    assert bad.out.splitlines() == [
        "run_002 fails 2 of 6 rules",
        "ok  require_intact: the evidence is unchanged since sealing",
        "ok  require_observed: the agent was observed",
        "ok  require_finished: the run finished: completed, the process ended with exit code 0",
        "NO  min_trust: trust is 50, at least 70 required",
        "ok  min_confidence: confidence is 100, at least 50 required",
        "NO  max_severity: 1 finding above medium, the most severe is critical: tool_loop, Round and round",
        "checked: evidence; not checked: record, diagnosis, evidence_signature, diagnosis_signature, rediagnosis",
        "Next: critiqor show run_002",
    ]
    as_json = cli("check", "run_002", "--json")
    assert as_json.code == ExitCode.GATE_FAILED
    assert as_json.data["passed"] is False
    assert [rule["passed"] for rule in as_json.data["rules"]] == [True, True, True, False, True, False]
    assert as_json.data["rules"][3].keys() == {"rule", "limit", "actual", "passed", "explanation", "is_estimated"}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("policy.toml", "max_findings = 0\nallowed_types = ['tool_loop']"),
        ("policy.JSON", '{"max_findings": 0, "allowed_types": ["tool_loop"]}'),
    ],
)
def test_check_takes_a_policy(cli: Cli, tmp_path: Path, runs: Runs, file: str, text: str) -> None:
    store(runs, diagnosis("run_001", finding("tool_loop", "critical"), trust=0))
    store(runs, diagnosis("run_002", finding("tool_misuse", "info")))
    (tmp_path / file).write_text(text)
    assert cli("check", "run_001", "--policy", file).code == ExitCode.OK
    assert cli("check", "run_002", "--policy", file).code == ExitCode.GATE_FAILED


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("policy.toml", "min_truts = 1", "there is no rule 'min_truts' (did you mean 'min_trust'?)"),
        ("policy.toml", "forbidden_types = ['tool_lop']", "did you mean 'tool_loop'?"),
        ("policy.json", "", "policy.json: it cannot be read as JSON"),
        ("policy.yaml", "", "neither a .toml nor a .json"),
        ("other.toml", "", "does not exist"),
    ],
)
def test_wrong_policy_is_an_error_and_no_verdict(
    cli: Cli, tmp_path: Path, runs: Runs, file: str, text: str, said: str
) -> None:
    store(runs, diagnosis("run_001"))
    if file != "other.toml":
        (tmp_path / file).write_text(text)
    answer = cli("check", "run_001", "--policy", file)
    assert (answer.code, answer.out) == (ExitCode.USAGE, "")
    assert said in answer.err
    assert cli("check", "run_001", "--policy", file, "--json").error["exit_code"] == ExitCode.USAGE


def test_benchmark_places_a_run(cli: Cli, runs: Runs) -> None:
    for number in range(1, 7):
        store(runs, diagnosis(f"run_{number:03d}", trust=10 * number), benchmark_id="b", difficulty_tier="hard")
    store(runs, diagnosis("run_007", rules="0"), benchmark_id="b", difficulty_tier="hard")
    store(runs, diagnosis("run_008"))
    text = cli("benchmark", "run_004")
    assert (text.code, text.err) == (ExitCode.OK, "")
    assert text.out.splitlines()[0] == "run_004  b, hard  comparable with 5 other runs"
    assert "trust 40 better than 60% of 5 other runs" in " ".join(text.out.split())
    assert "cost no price known unknown for this run" in " ".join(text.out.split())
    assert "1 run diagnosed with another rule set and left out: run_007; run critiqor diagnose RUN" in text.out
    data = cli("benchmark", "run_004", "--json").data
    assert data["judged_by_other_rules"] == ["run_007"]
    assert "too few runs: 0 other runs" in cli("benchmark", "run_008").out


ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r"


def test_control_characters_and_line_breaks_of_an_agent_stay_harmless(cli: Cli, runs: Runs) -> None:
    hostile = f"tool_loop{ESCAPES}\nrun_666 passes all 1 rules"
    for number in (1, 2):
        found = finding(hostile, "high", title=hostile)
        store(runs, diagnosis(f"run_00{number}", found, trust=50), agent_id=hostile, benchmark_id=hostile)
    calls = ("compare", "run_001", "run_002"), ("trends",), ("check", "run_001"), ("benchmark", "run_001")
    for arguments in (*calls, ("trends", "--agent", "x")):
        for output in (cli(*arguments), cli(*arguments, "--json")):
            shown = output.out + output.err
            assert not {character for character in ESCAPES if not character.isprintable()} & set(shown)
            assert "\nrun_666" not in shown


@pytest.mark.parametrize("is_indented", [True, False])
def test_what_a_list_reads_of_a_diagnosis_is_what_the_whole_diagnosis_says(runs: Runs, is_indented: bool) -> None:
    whole = Story().starts().model().says('The file has "claims": and\n  "cost_analysis": in it.').finishes()
    runs.seal(attached(at=1_794_000_000_000), *map(msgspec.to_builtins, whole.events))
    run = RunStore(runs.folder).run("run_001")
    diagnosis = run.diagnosis
    if not is_indented:
        run.diagnosis_path.write_bytes(msgspec.json.encode(diagnosis))
    brief = run_record.load_brief_diagnosis(run.paths, run.id)
    assert brief == msgspec.convert(msgspec.to_builtins(diagnosis), BriefDiagnosis)
