"""One run looks the same wherever it is shown: integrity, verdict, cost and time.

The lists of verbs, pages and formats come from the program, so a new one fails a test here until it is classified.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from dashboards import Dashboard
from story import START, Story
from support import Cli, Runs, attached
from surfaces import (
    PAGES,
    RUN,
    SHOWING_VERBS,
    TRIED_ELSEWHERE,
    assert_a_failing_session_is_named,
    surfaces,
    visible,
)

from critiqor.cli.root_command import VERBS
from critiqor.exporters.formats import FORMATS
from critiqor.model import Claim, TaskOutcome, iso_from_ms
from critiqor.model.formatting import format_sessions
from critiqor.run.store import Run
from critiqor.session import append_event_to_run
from critiqor.storage.seals.diagnosis_seal import write_diagnosis

COST, TIME, VERDICT = "at least $2.39", "35.00 s", "ready"
OTHER_VERBS = {
    *("prune", "search"),  # they answer about files and texts of runs
    *("monitor", "attach", "detach", "completion", "doctor", "agent", "guard"),  # they answer about no finished run
    "recover",  # it answers about a record, not about a verdict
    *("import", "receive", "demo", "lab"),  # they answer about runs that they have just sealed themselves
    "policy",  # it answers about a policy and the events of runs, without their verdict
    "notify",  # it answers about channels and messages
    *("push", "pull", "fleet"),  # they answer about what is stored elsewhere
    "keys",  # it answers about the user's key
    "dashboard",  # its pages are tried one by one
    "mcp",  # it answers to the calls of a client
    "explain",  # one finding, without the verdict on the run
}
SCORES_AS_CONCLUDED = (
    "show run_002 --json",
    "report run_002 --json",
    "report --format json",
    "diagnose run_002 --json",
    "finalize run_002 --json",
)
"""Documents with the whole diagnosis, which keep the scores as they were concluded beside a readiness of `unknown`."""


@pytest.fixture
def recorded_runs(runs: Runs) -> Runs:
    """A run that failed, and a run in which all went well.

    A model call of the second one has no usage, and its process took longer than its agent.
    """
    for number in (1, 2):
        run_id = runs.start()
        story = Story(start=START + number * 100_000).starts().model(cost=2.39)
        if number == 1:
            story.runs("pytest -q", "1 failed", exit_code=1).says("All tests pass.").finishes()
        else:
            story.event("token_usage", duration_ms=100, payload={"provider": "lab", "model": "scripted"})
            story.says("It is done.").finishes()
        for kind, after in (("process_start", 0), ("process_end", 35_000)):
            moment = iso_from_ms(START + number * 100_000 + after)
            payload = {"pid": 4711, "exit_code": 0}
            append_event_to_run(run_id, {"event_type": kind, "timestamp": moment, "payload": payload}, runs.folder)
        recorder = attached(at=START + number * 100_000 + 1)
        recorder["payload"]["sources"] = {"hooks": False}
        timeline = runs.paths.timeline_path(run_id)
        timeline.parent.mkdir(parents=True, exist_ok=True)
        timeline.write_text("{}\n")
        runs.write(run_id, recorder, *map(msgspec.to_builtins, story.events))
        runs.finalize(run_id)
    return runs


BAD = "agent:main:telegram:direct:7"


@pytest.fixture
def recorded_gateway(runs: Runs) -> Runs:
    """A run with one session, and a gateway with five, one of which reports success although its tests failed."""
    for number in (1, 2):
        run_id = runs.start()
        start = START + number * 100_000
        story = Story(start=start)
        for session in range(1 if number == 1 else 5):
            story.turns_to(f"run-{session}", BAD if session == 2 else f"agent:main:telegram:direct:{session}")
            story.starts().model(cost=0.5)
            if session == 2:
                story.runs("pytest -q", "1 failed", exit_code=1).says("All tests pass.").finishes()
            else:
                story.says("It is done.").finishes()
        for kind, after in (("process_start", 0), ("process_end", 35_000)):
            event = {"event_type": kind, "timestamp": iso_from_ms(start + after), "payload": {"pid": 7, "exit_code": 0}}
            append_event_to_run(run_id, event, runs.folder)
        runs.write(run_id, attached(at=start + 1), *map(msgspec.to_builtins, story.events))
        runs.finalize(run_id)
    return runs


SHOWN_TRUST = r'(?i).{0,40}(?:trust(?: is|_score")?\W{1,5}100\b|\b100 trust of).{0,20}'


def test_every_verb_and_format_is_classified() -> None:
    assert SHOWING_VERBS.keys() | OTHER_VERBS == VERBS.keys()
    assert not SHOWING_VERBS.keys() & OTHER_VERBS
    assert {command[3] for command in SHOWING_VERBS["export"]} <= TRIED_ELSEWHERE.keys() <= FORMATS.keys()


def change_evidence(runs: Runs) -> None:
    path = runs.paths.evidence_summary_path(RUN)
    path.chmod(0o600)
    path.write_bytes(path.read_bytes().replace(b"It is done.", b"It is done!"))


def delete_evidence(runs: Runs) -> None:
    runs.paths.evidence_summary_path(RUN).unlink()


def change_timeline(runs: Runs) -> None:
    runs.paths.timeline_path(RUN).write_text("[]\n")


def change_scores(runs: Runs) -> None:
    """Change the diagnosis as somebody does who wants a better verdict."""
    path = runs.paths.diagnosis_path(RUN)
    text = re.sub(r'\n  "confidence_score": \d+', '\n  "confidence_score": 99', path.read_text())
    path.chmod(0o600)
    path.write_text(text)


def remove_seal_of_the_diagnosis(runs: Runs) -> None:
    path = runs.paths.diagnosis_path(RUN)
    document = json.loads(path.read_bytes())
    document.pop("seal", None)
    path.write_text(json.dumps(document, indent=2))


def add_members_after_the_seal(runs: Runs) -> None:
    """Of two members with the same name, JSON readers take the last one."""
    path = runs.paths.diagnosis_path(RUN)
    path.write_text(path.read_text().rstrip("}\n") + '},\n  "confidence_score": 99\n}\n')


def change_metadata_in_the_record(runs: Runs) -> None:
    path = runs.paths.run_path(RUN)
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"agent_id":"openclaw_agent"', b'"agent_id":"another_agent"', 1))


def change_lifecycle_in_the_record(runs: Runs) -> None:
    path = runs.paths.run_path(RUN)
    record = path.read_bytes()
    start = record.index(b'"started_at":"') + len(b'"started_at":"')
    path.write_bytes(record[:start] + b"1999" + record[start + 4 :])


DAMAGES = [
    *(change_evidence, delete_evidence, change_timeline, change_metadata_in_the_record, change_lifecycle_in_the_record),
    *(change_scores, remove_seal_of_the_diagnosis, add_members_after_the_seal),
]
DAMAGED_DIAGNOSES = DAMAGES[-3:]


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_surface_shows_the_verdict_of_a_run_whose_evidence_is_not_intact(
    recorded_runs: Runs,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    damage: Callable[[Runs], None],
) -> None:
    damage(recorded_runs)
    wrong = {}
    diagnosis = recorded_runs.paths.diagnosis_path(RUN)
    damaged = diagnosis.read_bytes()
    for name, text in surfaces(recorded_runs, cli, monkeypatch, tmp_path):
        if name.startswith("diagnose ") and damage in DAMAGED_DIAGNOSES:
            # It makes a new diagnosis from the evidence, which is intact.
            diagnosis.write_bytes(damaged)
            continue
        found = re.findall(r"(?i).{0,40}\bready\b.{0,20}", text)
        if name not in SCORES_AS_CONCLUDED:
            found += [match for match in re.findall(SHOWN_TRUST, text) if "not verified" not in match]
        if found:
            wrong[name] = found
    assert not wrong


def test_no_surface_shows_a_headline_or_a_score_that_only_the_run_record_has(
    recorded_runs: Runs, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, wrong = recorded_runs.paths.run_path(RUN), []

    def forge() -> None:
        forged = re.sub(rb'"headline":"[^"]*"', b'"headline":"FORGED"', path.read_bytes(), count=1)
        path.write_bytes(re.sub(rb'"trust_score":100', b'"trust_score":77', forged, count=1))

    forge()
    for name, text in surfaces(recorded_runs, cli, monkeypatch, tmp_path):
        if "FORGED" in text or re.search(r'"trust_score": 77\b', text):
            wrong.append(name)
        forge()  # again, because a new diagnosis is also written into the record
    assert wrong == []
    assert b"FORGED" in path.read_bytes()


def test_an_intact_run_has_the_same_cost_time_and_verdict_on_every_surface(
    recorded_runs: Runs, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shown = {
        surface.name: surface.text.replace("\\$", "$")
        for surface in surfaces(recorded_runs, cli, monkeypatch, tmp_path)
    }
    complete = [
        "show run_002",
        "show on a terminal",
        f"/runs/{RUN}",
        "report --format markdown",
        "report --format html",
    ]
    complete += ["report run_002", "check run_002 --github", "/runs", "finalize run_002 --no-dashboard"]
    priced = [
        *complete,
        "runs",
        "compare run_001 run_002",
        "trends",
        "benchmark run_002",
        f"/runs/{RUN}/cost",
        PAGES[-1],
    ]
    priced += ["compare on a terminal", "trends on a terminal", "runs on a terminal"]
    timed = ["compare run_001 run_002", "trends", "benchmark run_002", PAGES[-1], "compare on a terminal"]
    timed += ["trends on a terminal"]
    judged = ["runs", *(page for page in PAGES if page != PAGES[-1])]
    wrong = [(COST, name) for name in priced if COST not in shown[name]]
    wrong += [(TIME, name) for name in (*complete, *timed) if TIME not in shown[name]]
    wrong += [
        (VERDICT, name)
        for name in (*complete, *judged)
        if name != "check run_002 --github" and not re.search(rf"(?i)\b{VERDICT}\b", shown[name])
    ]
    assert not wrong


def test_a_session_that_fails_is_named_on_every_surface_and_the_others_are_ready(
    recorded_gateway: Runs, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    diagnosis = Run(RUN, recorded_gateway.paths).diagnosis
    assert [(each.session_key, each.readiness) for each in diagnosis.sessions] == [
        (BAD, "unsafe"),
        *((f"agent:main:telegram:direct:{number}", "ready") for number in (0, 1, 3, 4)),
    ]
    assert format_sessions(diagnosis) == f"worst session {BAD}; 4 others are ready"
    assert_a_failing_session_is_named(recorded_gateway, cli, monkeypatch, tmp_path, BAD)


def test_a_narrow_terminal_has_room_for_the_name_of_the_worst_session(
    recorded_gateway: Runs, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert recorded_gateway.folder.exists()
    monkeypatch.setattr("critiqor.cli.output.can_draw", lambda stream: stream is sys.stdout)
    monkeypatch.setenv("COLUMNS", "80")
    assert f"worst session {BAD}; 4 others are ready" in cli("runs").out


def test_a_recording_with_one_session_does_not_speak_of_sessions(
    recorded_runs: Runs, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    every = surfaces(recorded_runs, cli, monkeypatch, tmp_path)
    named = re.compile(r"worst session|in session |Sessions \d")
    assert [surface.name for surface in every if named.search(surface.text)] == []


def test_the_outcome_of_the_task_and_the_claims_are_shown_with_the_verdict(
    recorded_runs: Runs, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = Run(RUN, recorded_runs.paths)
    claim = Claim(event_id="", start=0, end=1, text="x", kind="check", status="contradicted", reason="it failed")
    task = TaskOutcome(verdict="not_achieved", known_from="the tests failed")
    outcome = msgspec.structs.replace(run.diagnosis.outcome, task=task)
    changed = msgspec.structs.replace(run.diagnosis, claims=[claim], outcome=outcome)
    write_diagnosis(run.diagnosis_path, changed)
    commands = [("show", RUN), ("finalize", RUN, "--no-dashboard"), ("report", RUN)]
    commands += [("export", RUN, "--format", name, "-o", "-") for name in ("sarif", "junit")]
    shown = {" ".join(command): cli(*command).out for command in commands}
    user = Dashboard(recorded_runs).user()
    shown |= {page: visible(user.get(page).text) for page in (f"/runs/{RUN}", f"/runs/{RUN}/diagnosis")}
    with monkeypatch.context() as patched:
        patched.setattr("critiqor.cli.output.can_draw", lambda stream: stream is sys.stdout)
        shown["show on a terminal"] = cli("show", RUN).out
    for text in ("not achieved (the tests failed)", "1 checked, 1 contradicted"):
        assert [name for name, page in shown.items() if text not in page] == []
