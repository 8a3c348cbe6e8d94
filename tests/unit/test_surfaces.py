"""One run looks the same wherever it is shown: integrity, verdict, cost and time.

The lists of verbs, pages and formats come from the program, so a new one fails a test here until it is classified.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from click.shell_completion import ShellComplete
from dashboards import Dashboard
from story import START, Story
from support import Cli, Runs, attached

from critiqor.cli.group import VERBS, critiqor
from critiqor.dashboard.pages.site import RUN_PAGES
from critiqor.exporters.formats import FORMATS
from critiqor.model import Claim, TaskOutcome, iso_from_ms
from critiqor.run.store import Run
from critiqor.session import append_event_to_run

OTHER, RUN = "run_001", "run_002"
COST, TIME, VERDICT = "at least $2.39", "35.00 s", "ready"
PAGES = (*(f"/runs/{RUN}/{name}".rstrip("/") for name in RUN_PAGES), "/runs", f"/compare?run={OTHER}&run={RUN}")
SHOWING_VERBS: dict[str, list[tuple[str, ...]]] = {
    "runs": [("runs",), ("runs", "--json")],
    "show": [("show", RUN), ("show", RUN, "--json")],
    "check": [("check", RUN), ("check", RUN, "--json"), ("check", RUN, "--github")],
    "compare": [("compare", OTHER, RUN), ("compare", RUN, OTHER, "--json")],
    "trends": [("trends",), ("trends", "--json")],
    "benchmark": [("benchmark", RUN), ("benchmark", OTHER, "--json")],
    "report": [("report", RUN), ("report", RUN, "--json")],
    "export": [("export", RUN, "--format", name, "-o", "-") for name in ("sarif", "junit", "otlp", "perfetto")],
    "diagnose": [("diagnose", RUN), ("diagnose", RUN, "--json")],
    "finalize": [("finalize", RUN, "--no-dashboard"), ("finalize", RUN, "--json")],
    "timeline": [("timeline", RUN)],
    "verify": [("verify", RUN)],
    "visibility": [("visibility", RUN)],
    "abort": [("abort", RUN)],
    "watch": [("watch", RUN)],
    "profile": [("profile", RUN)],
}
"""Verbs that answer about a recorded run, with the commands that are tried."""
OTHER_VERBS = {
    *("monitor", "attach", "detach", "completion", "doctor", "agent"),  # they answer about no finished run
    *("import", "demo", "lab"),  # they answer about runs that they have just sealed themselves
    "dashboard",  # its pages are tried one by one
    "explain",  # one finding, without the verdict on the run
}
TRIED_ELSEWHERE = {
    "pdf": "the pages of html, printed",
    "speedscope": "CPU profiles, without a verdict",
    "zip": "refuses evidence that is not intact",
    **dict.fromkeys(("sarif", "junit", "otlp", "perfetto"), "exported by the verb above"),
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
WITHOUT_SESSIONS = {
    **dict.fromkeys(("timeline run_002", "verify run_002", "visibility run_002"), "answers about something else"),
    **dict.fromkeys(("abort run_002", "watch run_002", "profile run_002"), "refuses a finished run"),
    "completion": "one line with the headline",
    **dict.fromkeys((f"/runs/{RUN}/{name}" for name in ("evidence", "cost", "context", "live", "trust")), "no finding"),
    "benchmark run_001 --json": "ranks the other run",
}
"""Surfaces that say nothing about sessions."""


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


RULE_TEXTS = re.compile(r'"(?:help|fullDescription|shortDescription)": \{.*?\}', re.DOTALL)
"""Descriptions of failure types in SARIF, which are the same for every run."""


class Surface(NamedTuple):
    """Something that a user reads."""

    name: str
    text: str


def surfaces(runs: Runs, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Surface]:
    """Everything that says something about the second run."""
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    for commands in SHOWING_VERBS.values():
        for command in commands:
            answer = cli(*command)
            written = summary.read_text() if "--github" in command else ""
            yield Surface(" ".join(command), RULE_TEXTS.sub("", answer.out + answer.err + written))
    with monkeypatch.context() as patched:
        patched.setattr("critiqor.cli.output.can_draw", lambda stream: stream is sys.stdout)
        patched.setenv("COLUMNS", "200")
        for verb in ("runs", "show", "check", "compare", "trends", "benchmark", "finalize", "diagnose"):
            answer = cli(*SHOWING_VERBS[verb][0])
            yield Surface(f"{verb} on a terminal", " ".join((answer.out + answer.err).split()))
    for name in FORMATS.keys() - TRIED_ELSEWHERE.keys():
        file = tmp_path / f"report.{name}"
        answer = cli("report", RUN, "--format", name, "-o", file)
        text = file.read_text() if file.exists() else answer.err
        yield Surface(f"report --format {name}", visible(text) if name == "html" else text.replace("\\$", "$"))
    user = Dashboard(runs).user()
    for page in PAGES:
        yield Surface(page, visible(user.get(page).text))
    completion = ShellComplete(critiqor, {}, "critiqor", "_CRITIQOR_COMPLETE")
    offered = completion.get_completions(["show", "--runs-dir", str(runs.folder)], "")
    yield Surface("completion", "\n".join(f"{item.value} {item.help}" for item in offered if item.value == RUN))


def visible(page: str) -> str:
    """What a reader sees of a page, without markup, scripts and styles."""
    text = re.sub(r"<(script|style|head)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


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


@pytest.mark.parametrize("damage", [change_evidence, delete_evidence, change_timeline])
def test_no_surface_shows_the_verdict_of_a_run_whose_evidence_is_not_intact(
    recorded_runs: Runs,
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    damage: Callable[[Runs], None],
) -> None:
    damage(recorded_runs)
    wrong = {}
    for name, text in surfaces(recorded_runs, cli, monkeypatch, tmp_path):
        found = re.findall(r"(?i).{0,40}\bready\b.{0,20}", text)
        if name not in SCORES_AS_CONCLUDED:
            found += [match for match in re.findall(SHOWN_TRUST, text) if "not verified" not in match]
        if found:
            wrong[name] = found
    assert not wrong


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
    shown = {
        surface.name: surface.text.replace("\\_", "_")
        for surface in surfaces(recorded_gateway, cli, monkeypatch, tmp_path)
    }
    with monkeypatch.context() as patched:
        shown["explain"], shown["explain --json"] = (cli("explain", RUN, *more).out for more in ((), ("--json",)))
        patched.setattr("critiqor.cli.output.can_draw", lambda stream: stream is sys.stdout)
        shown["explain on a terminal"] = cli("explain", RUN).out
    diagnosis = Run(RUN, recorded_gateway.paths).diagnosis
    assert [(each.session_key, each.readiness) for each in diagnosis.sessions] == [
        (BAD, "unsafe"),
        *((f"agent:main:telegram:direct:{number}", "ready") for number in (0, 1, 3, 4)),
    ]
    assert WITHOUT_SESSIONS.keys() <= shown.keys()
    assert [name for name, text in shown.items() if BAD not in text and name not in WITHOUT_SESSIONS] == []
    sentence = f"worst session {BAD}; 4 others are ready"
    verbs = ["show", "check", "compare", "trends", "benchmark", "finalize", "diagnose"]
    names = [*(name for name in shown if name.split()[0] in verbs and "--json" not in name), "runs", "runs --json"]
    names += [f"/runs/{RUN}", f"/runs/{RUN}/diagnosis", "/runs", PAGES[-1], "report run_002", "report --format html"]
    names += ["check run_002 --json", "runs on a terminal", "export run_002 --format junit -o -"]
    assert [name for name in names if sentence not in shown[name].lower()] == []
    placed = ["show run_002", "show on a terminal", f"/runs/{RUN}", f"/runs/{RUN}/diagnosis", f"/runs/{RUN}/playbook"]
    placed += ["report run_002", "report --format html", "check run_002 --github", "explain", "explain on a terminal"]
    placed += ["export run_002 --format sarif -o -", "check run_002"]
    assert [name for name in placed if f"session {BAD}, agent run run-2" not in shown[name].lower()] == []
    listed = ["show run_002", "show on a terminal", f"/runs/{RUN}", "report run_002", "report --format html"]
    ready = re.compile(r"agent:main:telegram:direct:(\d)\W+(?:100\W+)?ready|100 +ready +\S+(?: +\S+)* +agent:main")
    assert [name for name in listed if len(ready.findall(shown[name])) < 4] == []


def test_a_recording_with_one_session_does_not_speak_of_sessions(
    recorded_runs: Runs, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    every = surfaces(recorded_runs, cli, monkeypatch, tmp_path)
    assert [surface.name for surface in every if re.search("worst session|in session |Sessions", surface.text)] == []


def test_the_outcome_of_the_task_and_the_claims_are_shown_with_the_verdict(
    recorded_runs: Runs, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = Run(RUN, recorded_runs.paths)
    claim = Claim(event_id="", start=0, end=1, text="x", kind="check", status="contradicted", reason="it failed")
    task = TaskOutcome(verdict="not_achieved", known_from="the tests failed")
    outcome = msgspec.structs.replace(run.diagnosis.outcome, task=task)
    changed = msgspec.structs.replace(run.diagnosis, claims=[claim], outcome=outcome)
    run.diagnosis_path.chmod(0o600)
    run.diagnosis_path.write_bytes(msgspec.json.encode(changed))
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
