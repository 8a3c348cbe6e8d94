"""The lab on the embedded loop: every scenario has the expected diagnosis, and each detector and each fault matters."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import psutil
import pytest
from live_replay import differences, replay
from support import PATIENCE_SECONDS, Cli, critiqor_command, environment, kill_tree, wait_until

from critiqor.diagnosis import FAILURE_TYPES, detectors
from critiqor.diagnosis.claims import claim_checker
from critiqor.diagnosis.claims.checked import CLAIM_TYPES, CheckedClaim
from critiqor.diagnosis.claims.checks.all_checks import check_episode
from critiqor.diagnosis.detectors import CONTRACT_VIOLATION
from critiqor.diagnosis.hazards import all_hazards, hazard
from critiqor.lab.model.model_script import ToolUse
from critiqor.lab.runners.runner import PlayedScenario, Runner
from critiqor.lab.scenario import Expectation, ModelStep, Scenario, ScriptedTool, ToolAnswer, Turn, World
from critiqor.lab.scenario_file import shipped_scenarios
from critiqor.lab.verdict import find_mismatches, summarize_diagnosis
from critiqor.model import Diagnosis
from critiqor.policy.contracts import ContractChecker
from critiqor.processes import agent_processes
from critiqor.run.store import Run, RunStore
from critiqor.session import diagnose_run

AT_ONCE = 2
SCENARIOS = {scenario.name: scenario for scenario in shipped_scenarios() if "embedded" in scenario.on}
FAULTY = {name: scenario for name, scenario in SCENARIOS.items() if scenario.has_fault}
ONLY_ON_OPENCLAW = {kind for one in shipped_scenarios() if "embedded" not in one.on for kind in one.expect.types}

Plays = dict[str, "Future[PlayedScenario]"]


def playing(scenarios: dict[str, Scenario], folder: Path) -> Iterator[Plays]:
    """Plays all scenarios, a few at a time; `result` waits for one."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            name: pool.submit(Runner("embedded").play, scenario, folder / name) for name, scenario in scenarios.items()
        }
        pool.shutdown(cancel_futures=True)


@pytest.fixture(autouse=True)
def leave_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture(scope="module")
def plays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plays]:
    """Every scenario, played once."""
    yield from playing(SCENARIOS, tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="module")
def faultless_plays(tmp_path_factory: pytest.TempPathFactory, plays: Plays) -> Iterator[Plays]:
    """Every faulty scenario, played once without its fault."""
    for played in plays.values():
        played.exception()
    without = {name: scenario.without_fault() for name, scenario in FAULTY.items()}
    yield from playing(without, tmp_path_factory.mktemp("faultless"))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_diagnosed_as_it_must_be(name: str, plays: Plays) -> None:
    played = plays[name].result()
    missed = find_mismatches(SCENARIOS[name], played.diagnosis, played.coverage)
    assert (missed, played.unplayed) == ([], 0), played.diagnosis.headline


@pytest.mark.parametrize("kind", FAILURE_TYPES)
def test_without_its_detector_a_scenario_fails(
    kind: str, plays: Plays, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = [name for name in FAULTY if kind in summarize_diagnosis(plays[name].result().diagnosis).findings]
    if not found:
        assert kind in ONLY_ON_OPENCLAW
        return  # tests/openclaw/test_attachment.py shows the finding on a real OpenClaw
    remove(kind, monkeypatch)
    assert any(missed_again(name, plays[name].result(), tmp_path / name) for name in found)


@pytest.mark.parametrize("name", FAULTY)
def test_without_its_fault_nothing_is_found(name: str, faultless_plays: Plays) -> None:
    played = faultless_plays[name].result()
    clean = msgspec.structs.replace(FAULTY[name], expect=Expectation())
    assert find_mismatches(clean, played.diagnosis, played.coverage) == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_that_is_diagnosed_while_it_is_recorded_gets_the_verdict_of_finalize(
    name: str, plays: Plays, tmp_path: Path
) -> None:
    played = plays[name].result()
    for shuffled in (False, True):
        run, folder = Run.load(played.run_id, played.runs), tmp_path / f"shuffled {shuffled}"
        replayed = replay(run, folder, random.Random(name), shuffled=shuffled)
        assert differences(replayed.live, replayed.diagnosis) == []


def remove(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the detector of one type, and what the check of claims finds of it."""
    monkeypatch.setattr(claim_checker, "check_episode", lambda episode: without(kind, check_episode(episode)))
    if kind in CLAIM_TYPES:
        return
    if kind == CONTRACT_VIOLATION:
        monkeypatch.setattr(ContractChecker, "findings", lambda *_, **__: [])
        return
    if kind in hazard.FAILURE_TYPES:
        others = tuple(find for find in all_hazards._FINDERS if not find.__module__.endswith(f".{kind}"))
        monkeypatch.setattr(all_hazards, "_FINDERS", others)
        return
    modules = [each for each in vars(detectors).values() if isinstance(each, ModuleType)]
    [module] = [each for each in modules if getattr(each, "TYPE", None) == kind]
    classes = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
    for each in classes:
        for name in ("findings", "findings_beside"):
            if hasattr(each, name):
                monkeypatch.setattr(each, name, find_nothing)


def without(kind: str, claims: list[CheckedClaim]) -> list[CheckedClaim]:
    return [claim for claim in claims if claim.problem is None or claim.problem.type != kind]


def find_nothing(*_: Any) -> list[Any]:
    return []


def missed_again(name: str, played: PlayedScenario, copy: Path) -> list[str]:
    """Return the differences when a copy of the same evidence is diagnosed again."""
    shutil.copytree(played.runs, copy)
    diagnosis = msgspec.convert(diagnose_run(played.run_id, copy), Diagnosis)
    return find_mismatches(SCENARIOS[name], diagnosis, played.coverage)


OWN = """
description = "Mine."
[[turns]]
message = "What is in the list?"
[[turns.steps]]
tools = [{ name = "read", arguments = { path = "list.txt" } }]
[[turns.steps]]
text = "The list has apples."
[world.files]
"list.txt" = "apples"
[expect]
"""


SLEEP = '"exec", arguments = { command = "sleep 300" }'


def test_own_scenarios_pass_a_gate_or_fail_it_and_a_failed_one_is_kept(cli: Cli, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "good.toml").write_text(OWN)
    assert cli("lab", "run", "--scenarios", own).code == 0
    (own / "bad.toml").write_text(OWN + 'primary = "tool_loop"')
    answer = cli("lab", "run", "--scenarios", own, "--json", "--report", "lab.md")
    assert answer.code == 3
    bad, good = answer.data["results"]
    assert (bad["passed"], good["passed"]) == (False, True)
    [verdict] = bad["plays"]
    assert verdict["missed"] == ["the primary diagnosis is none, expected tool_loop"]
    assert (Path(verdict["run"]) / "runs" / "run_001" / "session.json").is_file()
    assert "1 of 2 scenarios as expected on the embedded loop" in Path("lab.md").read_text()
    assert "bad: FAILED" in answer.err


def test_repeated_plays_show_the_variation_of_times_and_whether_the_diagnoses_are_equal(cli: Cli) -> None:
    answer = cli("lab", "run", "http_401", "--repeat", "2", "--json")
    assert answer.code == 0
    [result] = answer.data["results"]
    assert len(result["plays"]) == 2 and result["same_diagnosis"]
    [turn] = [figures for figures in result["timings"] if figures["kind"] == "turn"]
    assert turn["runs"] == 2 and turn["variance_ms2"] is not None


def test_a_scenario_that_does_not_apply_is_left_out_with_its_reason(cli: Cli) -> None:
    answer = cli("lab", "run", "recorder_denied", "clean", "--json")
    assert answer.code == 0 and [one["scenario"] for one in answer.data["results"]] == ["clean"]
    [left_out] = answer.data["left_out"]
    assert left_out["scenario"] == "recorder_denied" and "plugins" in left_out["because"]
    alone = cli("lab", "run", "recorder_denied")
    assert alone.code == 2 and "plugins" in alone.err


def test_an_openclaw_that_cannot_be_launched_is_a_failed_scenario_without_traceback(cli: Cli) -> None:
    answer = cli("lab", "run", "clean", "--on", "openclaw", "--openclaw-command", "no-such-openclaw", "--json")
    assert answer.code == 3
    [verdict] = answer.data["results"][0]["plays"]
    assert "it could not be played: OpenClaw was not found" in verdict["missed"][0]


def test_the_demo_shows_a_clean_run_a_loop_and_a_false_claim_and_what_to_type_next(cli: Cli) -> None:
    answer = cli("demo")
    assert answer.code == 0
    for words in ("No failure found", "without a new result", "Said “All tests pass, done”", "Next:"):
        assert words in answer.out
    answered = cli("demo", "--json").data
    trust = [act["diagnosis"]["trust_score"] for act in answered["acts"]]
    assert trust == sorted(trust, reverse=True) and trust[0] == 100
    [command] = [line.split("   ")[0] for line in answer.out.splitlines() if "critiqor explain" in line]
    assert cli(*command.split()[1:]).code == 0


def test_a_recorded_run_that_is_played_again_gets_the_same_diagnosis(cli: Cli, plays: Plays, tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.mkdir()
    names = (
        "false_claim_tests",
        "retry_storm",
        "alternating_reads",
        "unknown_tool",
        "disconnect_recovered",
        "skill_fails",
        "monitor_timeout",
    )
    for name in names:
        played = plays[name].result()
        options = ("--output", again / f"{name}.toml", "--runs-dir", played.runs)
        assert cli("lab", "from-run", played.run_id, *options).code == 0
    answer = cli("lab", "run", "--scenarios", again, "--json")
    assert [(one["scenario"], one["plays"][0]["missed"]) for one in answer.data["results"]] == [
        (name, []) for name in sorted(names)
    ]


def runs_below(pid: int, name: str) -> bool:
    """Return whether a process of that name descends from another."""
    with suppress(psutil.Error):  # one that ended meanwhile
        return name in {child.name() for child in psutil.Process(pid).children(recursive=True)}
    return False


def test_an_interrupted_lab_leaves_no_agent_behind(tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text(OWN.replace('"read", arguments = { path = "list.txt" }', SLEEP))
    lab = subprocess.Popen(
        critiqor_command("lab", "run", "--scenarios", tmp_path),
        env=environment(tmp_path, TMPDIR=str(tmp_path)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        # While its tool runs: Python can lose a signal that comes while it still imports.
        wait_until(lambda: runs_below(lab.pid, "sleep"))
        assert agent_processes(tmp_path)
        lab.send_signal(signal.SIGINT)
        assert lab.wait(PATIENCE_SECONDS) == 130
        assert agent_processes(tmp_path) == []
    finally:
        kill_tree(lab.pid)


def test_a_scripted_tool_answers_one_after_the_other_and_is_recorded_like_any_other(tmp_path: Path) -> None:
    use = ToolUse(name="web_search", arguments={"query": "fences"})
    steps = (
        ModelStep(tools=(use,)),
        ModelStep(tools=(use,)),
        ModelStep(text="There are many, I could not count them."),
    )
    answers = (ToolAnswer(text="many fences"), ToolAnswer(text="no network", error=True))
    scenario = Scenario(
        name="search",
        description="A tool that only answers.",
        turns=(Turn(message="Which fences are there?", steps=steps),),
        world=World(tools=(ScriptedTool(name="web_search", answers=answers),)),
        expect=Expectation(),
    )
    played = Runner("embedded").play(scenario, tmp_path / "play")
    events = RunStore(played.runs).run(played.run_id).events()
    outputs = [event for event in events if event.event_type == "tool_output"]
    assert [(event.tool_name, event.status) for event in outputs] == [("web_search", "ok"), ("web_search", "error")]
    assert "many fences" in str(outputs[0].payload)
