"""OpenClaw's timeline is sealed with the evidence, judged with it, and a change of it shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import Cli, Runs, attached, recorded
from timelines import Line, data_of, end, in_order, line, span

from critiqor.run.finalization import begin_finalization
from critiqor.run.store import Run, RunStore
from critiqor.session import diagnose_run
from critiqor.storage.seals.verification import verify_run

READY = line("mark", "gateway.ready", 90_000, durationMs=90_000)
SLOW = data_of(*in_order(*span("plugins.load", "a", 0, 89_000, phase="startup"), READY))
HUGE = data_of(line("mark", "huge", 0, attributes={"text": "x" * 1_200_000}))
LATER = data_of(end("config.load", "later", 100_000, 5))


@pytest.fixture
def run_id(runs: Runs) -> str:
    """A run whose gateway took a minute and a half to come up."""
    run_id = runs.start()
    said = {"role": "assistant", "text": "Hello."}
    runs.write(run_id, attached(), recorded(2), recorded(3, "message_end", payload=said), recorded(4, "agent_end"))
    timeline_of(runs, run_id).parent.mkdir(exist_ok=True)
    timeline_of(runs, run_id).write_bytes(SLOW)
    return run_id


def timeline_of(runs: Runs, run_id: str) -> Path:
    return runs.paths.timeline_path(run_id)


def test_finalize_judges_the_timeline_and_puts_it_into_the_diagnosis(runs: Runs, run_id: str) -> None:
    diagnosis = runs.finalize(run_id)["diagnosis"]
    assert [finding["type"] for finding in diagnosis["failure_analysis"]["findings"]] == ["slow_startup"]
    assert (diagnosis["timeline"]["present"], diagnosis["timeline"]["events"]) == (True, 3)
    assert diagnosis["timeline"]["startups"][0]["path"]["duration_ms"] == 90_000


def test_a_run_whose_timeline_ends_with_a_huge_line_is_finalized(runs: Runs, run_id: str, cli: Cli) -> None:
    timeline_of(runs, run_id).write_bytes(SLOW + HUGE)
    assert cli("finalize", run_id, "--no-dashboard").code == 0
    timeline = diagnose_run(run_id, runs.folder)["timeline"]
    assert (timeline["events"], timeline["parse_errors"]) == (3, 1)
    assert cli("finalize", run_id, "--no-dashboard").code == 0


def test_a_finalize_that_stopped_at_a_huge_line_can_be_repeated(runs: Runs, run_id: str) -> None:
    timeline_of(runs, run_id).write_bytes(HUGE)
    store = RunStore(runs.folder)
    begin_finalization(store.run(run_id), store)
    assert runs.finalize(run_id)["status"] == "COMPLETED"


def test_an_aborted_run_whose_timeline_is_a_huge_line_is_diagnosed(runs: Runs, run_id: str, cli: Cli) -> None:
    timeline_of(runs, run_id).write_bytes(HUGE)
    assert cli("abort", run_id).code == 0
    diagnosed = cli("diagnose", run_id, "--json")
    assert diagnosed.code == 0
    assert diagnosed.data["timeline"]["unreadable"][0]["kind"] == "too_long"


def test_what_openclaw_writes_after_the_seal_changes_nothing(runs: Runs, run_id: str) -> None:
    before = runs.finalize(run_id)["diagnosis"]
    with timeline_of(runs, run_id).open("ab") as file:
        file.write(LATER)
    assert verify_run(runs.paths, run_id).intact
    after = diagnose_run(run_id, runs.folder)
    assert {**after, "generated_at": None} == {**before, "generated_at": None}
    assert Run.load(run_id, runs.folder).timing().events == 3


def test_changed_timeline_is_found_by_verify(runs: Runs, run_id: str) -> None:
    runs.finalize(run_id)
    timeline_of(runs, run_id).write_bytes(SLOW.replace(b"89000", b"19000"))
    assert verify_run(runs.paths, run_id).problems == ["timeline.jsonl was changed"]
    timeline_of(runs, run_id).unlink()
    assert verify_run(runs.paths, run_id).problems == ["timeline.jsonl is gone"]


def test_a_run_without_a_timeline_is_diagnosed_and_says_that_there_is_none(runs: Runs) -> None:
    runs.seal(attached(), recorded(2), recorded(3, "agent_end"))
    timeline = diagnose_run("run_001", runs.folder)["timeline"]
    assert (timeline["present"], timeline["events"]) == (False, 0)
    assert timeline["unavailable"]
    assert runs.evidence("run_001")["coverage"]["timeline"] is None


def test_explain_shows_the_cited_line_without_what_can_hold_secrets(runs: Runs, run_id: str, cli: Cli) -> None:
    secret: Line = {"attributes": {"token": "abc"}, "command": "mcp --key abc", "errorMessage": "abc was wrong"}
    timeline_of(runs, run_id).write_bytes(data_of(line("childProcess.exit", "exit", 0, exitCode=3, **secret)))
    runs.finalize(run_id)
    answer = cli("explain", run_id, "child_process_failure")
    assert "timeline_0000001  type childProcess.exit" in answer.out
    assert "exitCode 3" in answer.out
    assert "abc" not in answer.out
    explained = json.loads(cli("explain", run_id, "child_process_failure", "--json").out)["data"]
    assert explained["evidence"][0]["line"]["exitCode"] == 3
