"""Every verb and format reports evidence that was changed or removed after sealing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from story import Story
from support import Cli, Runs, attached

from critiqor.errors import ExitCode
from critiqor.run.store import Run
from critiqor.run.view import RunView

CHANGED = "the evidence was changed after sealing: session.json was changed"
GONE = "the evidence is gone: there is no session.json"


@pytest.fixture
def sealed(runs: Runs) -> Runs:
    """Two runs in which all went well."""
    for _ in range(2):
        story = Story().starts().model().says("It is done.").finishes()
        runs.seal(attached(at=1_794_000_000_000), *map(msgspec.to_builtins, story.events))
    return runs


def _change(path: Path) -> None:
    path.chmod(0o600)
    path.write_bytes(path.read_bytes().replace(b"It is done.", b"It is DONE."))


Damage = Callable[[Path], None]
damages = pytest.mark.parametrize(
    ("damage", "state", "reason"), [(_change, "changed", CHANGED), (Path.unlink, "missing", GONE)]
)


def damaged(runs: Runs, damage: Damage, run_id: str = "run_002") -> None:
    damage(runs.paths.evidence_summary_path(run_id))


def test_unchanged_evidence_is_intact(sealed: Runs, cli: Cli) -> None:
    assert RunView(Run.load("run_002", sealed.folder)).integrity.state == "intact"
    shown = cli("show", "run_002", "--json").data
    assert (shown["evidence"]["state"], shown["diagnosis"]["readiness"]) == ("intact", "ready")


def test_a_run_that_is_not_sealed_is_neither_intact_nor_changed(runs: Runs, cli: Cli) -> None:
    run_id = runs.start()
    assert RunView(Run.load(run_id, runs.folder)).integrity.state == "not sealed"
    assert cli("show", run_id, "--json").data["evidence"]["state"] == "not sealed"


def test_a_diagnosis_of_other_evidence_is_not_verified(sealed: Runs, cli: Cli) -> None:
    path = sealed.paths.diagnosis_path("run_002")
    path.write_text(json.dumps({**json.loads(path.read_text()), "evidence_digest": "sha256:other"}))
    assert RunView(Run.load("run_002", sealed.folder)).integrity.state == "other"
    assert "Not verified: the diagnosis is missing or does not match the sealed evidence" in cli("show", "run_002").out


@damages
def test_the_gate_fails_for_evidence_that_is_not_intact(
    sealed: Runs, cli: Cli, damage: Damage, state: str, reason: str
) -> None:
    assert cli("check", "run_002").code == ExitCode.OK
    damaged(sealed, damage)
    answer = cli("check", "run_002")
    assert answer.code == ExitCode.GATE_FAILED
    assert answer.out.splitlines()[:2] == ["run_002 fails 1 of 6 rules", f"NO  require_intact: {reason}"]
    (failed,) = [rule for rule in cli("check", "run_002", "--json").data["rules"] if not rule["passed"]]
    assert (failed["rule"], failed["explanation"]) == ("require_intact", reason)
    assert f"::error title=require_intact of run_002::{reason}" in cli("check", "run_002", "--github").out
    assert f'message="{reason}"' in cli("export", "run_002", "--format", "junit", "-o", "-").out


@pytest.mark.parametrize("member", ["trust_score", "confidence_score"])
def test_the_gate_fails_for_a_score_that_was_edited(sealed: Runs, cli: Cli, member: str) -> None:
    path = sealed.paths.diagnosis_path("run_002")
    score = json.loads(path.read_text())[member]
    path.write_text(path.read_text().replace(f'"{member}": {score}', f'"{member}": {score - 1}', 1))
    answer = cli("check", "run_002")
    assert answer.code == ExitCode.GATE_FAILED
    assert "diagnosis.json was changed after it was made" in answer.out


@damages
def test_show_starts_with_the_state_of_the_evidence(
    sealed: Runs, cli: Cli, damage: Damage, state: str, reason: str
) -> None:
    damaged(sealed, damage)
    shown = cli("show", "run_002")
    assert shown.out.splitlines()[2].strip() == f"Not verified: {reason} (critiqor verify run_002)"
    data = cli("show", "run_002", "--json").data
    assert (data["evidence"]["state"], data["diagnosis"]["readiness"]) == (state, "unknown")
    assert data["diagnosis"]["trust_score"] == 100, "the diagnosis is unchanged"


@damages
def test_reports_start_with_the_state_of_the_evidence(
    sealed: Runs, cli: Cli, damage: Damage, state: str, reason: str
) -> None:
    damaged(sealed, damage)
    lines = cli("report", "run_002").out.splitlines()
    assert lines[0] == "## `run_002`: unknown: not verified"
    assert lines[2].startswith("**Not verified: the evidence")
    written = cli("report", "run_002", "--format", "json")
    document = json.loads(written.out)
    assert (document["evidence"], document["diagnosis"]["readiness"]) == ({"state": state, "told": reason}, "unknown")
    assert f"Not verified: {reason}" in written.err


@pytest.mark.parametrize("run_id", ["run_001", "run_002"])
@damages
def test_compare_has_no_verdict_if_the_evidence_of_either_run_is_not_intact(
    sealed: Runs, cli: Cli, damage: Damage, state: str, reason: str, run_id: str
) -> None:
    assert cli("compare", "run_001", "run_002", "--json").data["verdict"] == "no difference"
    damaged(sealed, damage, run_id)
    compared = cli("compare", "run_001", "run_002", "--json").data
    assert compared["summary"] == f"cannot tell: {run_id}: {reason}"


def test_a_sealed_timeline_belongs_to_the_evidence(runs: Runs) -> None:
    run_id = runs.start()
    timeline = runs.paths.timeline_path(run_id)
    timeline.parent.mkdir(parents=True, exist_ok=True)
    timeline.write_text("{}\n")
    runs.finalize(run_id)
    assert RunView(Run.load(run_id, runs.folder)).integrity.state == "intact"
    timeline.write_text("[]\n")
    integrity = RunView(Run.load(run_id, runs.folder)).integrity
    assert integrity.state == "changed"
    assert integrity.explanation == "the evidence was changed after sealing: timeline.jsonl was changed"
