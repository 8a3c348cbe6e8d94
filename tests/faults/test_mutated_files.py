"""Damage to any file that Critiqor reads never makes a verb or a page crash, hang or fill the memory.

Each case damages one file of a folder with finished, aborted and active runs, by a seed, and calls one verb.
`CRITIQOR_FAULTS` is the number of damaged versions per file; `make faults` sets it to 5,000. The first of them are
tried with every verb that reads the file, the others with one verb each, in turn.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from alerting import alert
from dashboards import RUN_PAGES, Dashboard, event_ids
from importable import IMPORTED
from mutations import COUNT, bounded, mutated
from support import Runs, attached, recorded
from timelines import data_of, in_order, line, request, sample, span

from critiqor.cli import main, output
from critiqor.cli.root_command import VERBS
from critiqor.dashboard.data.index_cache import IndexCache
from critiqor.live.recording import LiveRecording
from critiqor.notifications.notifier import Notifier
from critiqor.notifications.outbox import ChannelState
from critiqor.notifications.settings import parse_notify
from critiqor.run.store import Run
from critiqor.session import paths_for

CORPUS = Path(__file__).with_name("corpus")
DONE, OTHER, ACTIVE, ABORTED = "run_001", "run_002", "run_004", "run_003"

POLICY_VERBS = [
    ["check", DONE, "--policy", "FILE"],
    ["policy", "check", "FILE"],
    ["policy", "test", DONE, "--policy", "FILE"],
]
POLICY = """
min_trust = 50
max_severity = "medium"
[limits]
cost_usd = { max = 5.0, per = "day", action = "stop" }
tool_calls = 200
[[contracts]]
id = "look-before-you-delete"
severity = "high"
[contracts.before]
call = 'call.tool == "exec" && call.args.command.matches(r"rm +-[rf]{1,2}")'
needs = ['call.tool == "exec" && call.args.command.startsWith("ls")', 'message.text.contains("yes")']
where = 'has(first.message) || first.call.tool == call.tool'
"""
READING = [
    ["runs"],
    ["runs", "--json"],
    ["search", "tests", "--json"],
    ["show", DONE],
    ["show", DONE, "--json"],
    ["explain", DONE],
    ["explain", DONE, "--json"],
    ["timeline", DONE],
    ["timeline", DONE, OTHER],
    ["compare", OTHER, DONE],
    ["compare", DONE, OTHER, "--json"],
    ["trends"],
    ["check", DONE],
    ["check", DONE, "--github"],
    ["benchmark", DONE],
    ["report", DONE],
    ["export", DONE, "--format", "sarif", "-o", "-"],
    ["export", DONE, "--format", "junit", "-o", "-"],
    ["export", DONE, "--format", "otlp", "--content", "-o", "-"],
    ["export", DONE, "--format", "perfetto", "-o", "-"],
    ["verify", DONE],
    ["visibility", DONE],
    ["profile", DONE],
    ["lab", "from-run", DONE],
]
CHANGING = [
    ["diagnose", DONE],
    ["diagnose", "--all"],
    ["finalize", DONE, "--no-dashboard"],
    ["visibility", DONE, "public"],
    ["abort", DONE],
]
UNFINISHED = [
    ["runs"],
    ["show", ACTIVE],
    ["timeline", ACTIVE],
    ["watch", ACTIVE],
    ["watch"],
    ["verify", ACTIVE],
    ["explain", ACTIVE],
    ["report", ACTIVE],
    ["export", ACTIVE, "--format", "perfetto", "-o", "-"],
    ["visibility", ACTIVE, "public"],
    ["finalize", "--no-dashboard"],
    ["finalize", ACTIVE, "--no-dashboard"],
    ["abort"],
    ["abort", ACTIVE],
    ["diagnose", ABORTED],
]
FOLDER = [
    ["runs"],
    ["prune", "--max-runs", "1"],
    ["finalize", "--no-dashboard"],
    ["abort"],
    ["import", "neutral.jsonl"],
    ["show", DONE],
]
SLOW = [
    ["export", DONE, "--format", "html", "-o", "-"],
    ["export", DONE, "--format", "pdf", "-o", "-"],
    ["export", DONE, "--format", "zip", "-o", "out.zip"],
]
"""Tried on every eighth of the damaged versions that it is the turn of."""
WITH_EVERY_VERB = 20
"""Damaged versions of a file that are tried with every verb."""
PAGES = ["pages", DONE], ["pages", ACTIVE]
"""Not a verb: every page of the dashboard about that run."""
LOST = ["recover", DONE], ["recover", ACTIVE]
"""After the record was removed, if it is not the damaged file. Other verbs follow."""


class Target(NamedTuple):
    """A kind of file, and the verbs that read it."""

    path: str
    verbs: list[list[str]]


[_CHANNEL] = parse_notify({"channels": {"ops": {"kind": "terminal"}}}, Path("critiqor.toml"), is_users=False)
MESSAGE = f"run_001-{alert().idempotency_key}"
SENDING = [["runs", "--runs-dir", "outbox"], ["notify", "flush", "--runs-dir", "outbox"]]
TARGETS = {
    "record of a completed run": Target(f"runs/{DONE}.json", [*READING, *SLOW, *CHANGING, *FOLDER, PAGES[0], LOST[0]]),
    "record of an active run": Target(f"runs/{ACTIVE}.json", [*UNFINISHED, *FOLDER, PAGES[1], LOST[1]]),
    "active_session.json": Target("runs/active_session.json", [*UNFINISHED, *FOLDER]),
    "journal": Target(f"runs/{ACTIVE}/journal.jsonl", [*UNFINISHED, PAGES[1], LOST[1]]),
    "sealed session.json": Target(
        f"runs/{DONE}/session.json", [*READING, *SLOW, *CHANGING, PAGES[0], LOST[0], ["import", "FILE"]]
    ),
    "live session.json": Target(f"runs/{ACTIVE}/session.json", [*UNFINISHED, PAGES[1], LOST[1], ["import", "FILE"]]),
    "live.json": Target(f"runs/{ACTIVE}/live.json", [["watch", ACTIVE], ["runs"], PAGES[1]]),
    "diagnosis.json": Target(f"runs/{DONE}/diagnosis.json", [*READING, *SLOW, *CHANGING, PAGES[0], LOST[0]]),
    "timeline of a sealed run": Target(
        f"runs/{DONE}/openclaw/timeline.jsonl", [*READING, *SLOW, *CHANGING, PAGES[0], ["timeline", "FILE"]]
    ),
    "timeline of an active run": Target(
        f"runs/{ACTIVE}/openclaw/timeline.jsonl", [*UNFINISHED, PAGES[1], ["timeline", "FILE"]]
    ),
    "journal of an aborted run": Target(f"runs/{ABORTED}/journal.jsonl", [["diagnose", ABORTED], ["show", ABORTED]]),
    "settings": Target("critiqor.toml", [["runs"], ["show", DONE], ["import", "neutral.jsonl"]]),
    "policy.toml": Target("policy.toml", POLICY_VERBS),
    "policy.json": Target("policy.json", POLICY_VERBS),
    "message in the outbox": Target(f"outbox/.notify/channels/ops/waiting/{MESSAGE}.json", SENDING),
    "state of a channel": Target("outbox/.notify/channels/ops/state.json", SENDING),
    "links": Target("runs/.links.json", [PAGES[0], ["visibility", DONE, "private"]]),
    "last run number": Target("runs/.last_run", [["import", "neutral.jsonl"]]),
    "lock of session.json": Target(f"runs/{DONE}/session.json.lock", [["finalize", DONE, "--no-dashboard"]]),
    "lock of the folder": Target("runs/.lock", FOLDER),
    "redaction key": Target(f"runs/{ACTIVE}/redaction.key", [["finalize", "--no-dashboard"], ["watch", ACTIVE]]),
    "redaction rules": Target(f"runs/{ACTIVE}/redaction.json", [*UNFINISHED, PAGES[1], LOST[1]]),
    "witness.json": Target(f"runs/{ACTIVE}/witness.json", [*UNFINISHED, PAGES[1], LOST[1]]),
    "closing record": Target(f"runs/{ACTIVE}/recorder-1a2b.json", [*UNFINISHED, PAGES[1], LOST[1]]),
    "visibility of a run": Target(
        f"runs/{OTHER}/visibility.json", [["runs"], ["show", OTHER], ["visibility", OTHER, "public"]]
    ),
    **{
        f"import of {name}": Target(name, [["import", "FILE"], ["diagnose", "FILE"]])
        for name in ("neutral.jsonl", "transcript.jsonl", "trajectory.jsonl", "spans.json", "otlp.json", "atif.json")
    },
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs in every state, their timelines, settings, policies and files to import."""
    folder = tmp_path_factory.mktemp("template")
    runs = Runs(folder / "runs")
    for _ in (DONE, OTHER):
        run_id = runs.start(visibility="shared")
        _write_timeline(runs, run_id)
        _write_journal(runs, run_id)
        runs.finalize(run_id)
    for expected in (ABORTED, ACTIVE):
        run_id = runs.start()
        assert run_id == expected
        _write_timeline(runs, run_id)
        _write_journal(runs, run_id)
        if run_id == ABORTED:
            with _in(folder):
                assert failure_of(["abort", run_id]) is None
    live = LiveRecording(Run.load(ACTIVE, runs.folder))
    for second in (0.0, 5.0, 10.0):
        live.read(second)
        live.publish(second)
    record = json.loads(runs.paths.run_path(ACTIVE).read_bytes())
    record["owner"] = {"pid": 1, "started_at": 1.0}  # gone, so that `watch` ends
    runs.paths.run_path(ACTIVE).write_text(json.dumps(record, indent=2))
    for corpus, file in {"witness": "witness.json", "redaction": "redaction.json"}.items():
        shutil.copy(CORPUS / corpus / file, runs.paths.run_folder(ACTIVE) / file)
    shutil.copy(CORPUS / "witness" / "recorder.json", runs.paths.run_folder(ACTIVE) / "recorder-1a2b.json")
    with _in(folder):
        assert failure_of(["visibility", OTHER, "private"]) is None
    Dashboard(runs).guest(DONE)
    for name, content in IMPORTED.items():
        (folder / name).write_text(content)
    (folder / "critiqor.toml").write_text('runs_dir = "runs"\nagent_id = "agent"\ntimeout = 30\n')
    (folder / "policy.toml").write_text(POLICY)
    (folder / "policy.json").write_text(json.dumps(tomllib.loads(POLICY)))
    with (folder / "critiqor.toml").open("a") as settings:
        settings.write('[notify]\nquiet_hours = "03:00-03:01"\n[notify.channels.ops]\nkind = "terminal"\n')
    sender = Notifier([_CHANNEL], paths_for(folder / "outbox"))
    sender.announce([alert()])
    sender.outbox.channel("ops").save_state(ChannelState(failures=3, failed_ms=1, retry_ms=2, sent_ms=[1, 2]))
    return folder


def _write_journal(runs: Runs, run_id: str) -> None:
    call: dict[str, Any] = {"tool_name": "exec", "tool_call_id": "c1"}
    runs.write(
        run_id,
        attached(1),
        recorded(2),
        recorded(3, "input", payload={"text": "Fix the test."}),
        recorded(4, "before_provider_request", payload={"callId": "m1", "contextTokenBudget": 1000}),
        recorded(5, "after_provider_response", duration_ms=9, payload={"callId": "m1", "usage": {"input": 900}}),
        recorded(6, "tool_call", payload={"arguments": {"command": "pytest -q"}}, **call),
        recorded(7, "tool_result", status="error", error="exit code 1", payload={"result": "1 failed"}, **call),
        recorded(8, "message_end", payload={"role": "assistant", "text": "Done: all tests pass."}),
        recorded(9, "agent_end", payload={"success": True}),
    )


def _write_timeline(runs: Runs, run_id: str) -> None:
    timeline = runs.paths.timeline_path(run_id)
    timeline.parent.mkdir(parents=True, exist_ok=True)
    lines = in_order(
        span("plugins.load", "a", 0, 60_000, phase="startup"),
        line("mark", "gateway.ready", 60_000, durationMs=60_000),
        span("agent.turn", "b", 60_100, 64_000, attributes={"runId": "run-1"}),
        request("run-1", 1, 60_200, 3_000),
        sample(900, 62_000, "plugins.load"),
        line("childProcess.exit", "child", 63_000, command="/bin/sh -c x", exitCode=1, durationMs=20),
    )
    timeline.write_bytes(data_of(*lines))


@contextlib.contextmanager
def _in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def failure_of(arguments: list[str]) -> str | None:
    """Call a verb in the current folder. Return what is wrong with how it ended; None if it answered or refused."""
    if arguments[0] == "pages":
        return _failing_page(arguments[1])
    printed = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="surrogateescape", write_through=True)
    argv, sys.argv = sys.argv, ["critiqor", "-v", *arguments]
    try:
        with bounded(arguments[0]), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            main()
    except SystemExit:
        pass
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    finally:
        sys.argv = argv
    printed.seek(0)
    text = printed.read()
    return text[-3000:] if "internal error" in text else None


def _failure_of_recovery(damaged: str, run_id: str) -> str | None:
    record = f"runs/{run_id}.json"
    if damaged != record:
        Path(record).unlink()
    following = (["recover", run_id], ["show", run_id], ["verify", run_id], ["explain", run_id], ["finalize", run_id])
    return next((failure for verb in following if (failure := failure_of([*verb])) is not None), None)


@cache
def _dashboard(runs: Path) -> Dashboard:
    """One that keeps running while files change, and whose templates are compiled once."""
    return Dashboard(Runs(runs))


def _failing_page(run_id: str) -> str | None:
    dashboard = _dashboard(Path.cwd() / "runs")
    dashboard.site.indexes = IndexCache()  # the old one remembers evidence that it could not read
    user = dashboard.user()
    try:
        with bounded("pages"):
            evidence = user.get(f"/runs/{run_id}/evidence").text
            pages = [f"/runs/{run_id}{page}" for page in RUN_PAGES]
            pages += [f"/runs/{run_id}/events/{event_id}" for event_id in event_ids(evidence)[:2]]
            pages += ["/runs", f"/compare?run={OTHER}&run={run_id}", f"/runs/{run_id}/trust?verify"]
            for page in pages:
                answer = user.get(page)
                if answer.text == "Internal error.\n":
                    return page
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return None


def _is_output(stream: object) -> bool:
    return stream is sys.stdout


def _is_nothing(_: object) -> bool:
    return False


def verbs_for(target: Target, seed: int) -> list[list[str]]:
    """Return the verbs to try on a damaged version."""
    if seed < WITH_EVERY_VERB:
        return [verb for verb in target.verbs if verb not in SLOW or seed % 8 == 0]
    turn, place = divmod(seed, len(target.verbs))
    verb = target.verbs[place]
    return [] if verb in SLOW and turn % 8 else [verb]


@pytest.mark.parametrize("name", TARGETS)
def test_no_damage_to_a_file_makes_a_verb_crash_or_hang(
    name: str, template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: Callable[[str], None]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    target = TARGETS[name]
    whole = (template / target.path).read_bytes()
    found: dict[str, str] = {}
    folder = tmp_path / "folder"
    calls, slowest, fresh = 0, 0.0, False
    for seed in range(COUNT):
        # Every other time as on a terminal, where results are drawn.
        monkeypatch.setattr(output, "can_draw", _is_output if seed % 2 else _is_nothing)
        damaged = mutated(whole, f"{name} {seed}")
        for verb in verbs_for(target, seed):
            if not fresh:
                shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(template, folder)
                (folder / target.path).chmod(0o600)
            (folder / target.path).write_bytes(damaged)
            arguments = [target.path if word == "FILE" else word for word in verb]
            began = time.process_time()
            with _in(folder):
                failure = _failure_of_recovery(target.path, verb[1]) if verb in LOST else failure_of(arguments)
            calls, slowest = calls + 1, max(slowest, time.process_time() - began)
            fresh = verb in READING or verb in SLOW
            if failure is not None:
                found.setdefault(f"{' '.join(arguments)}\n{failure[-1500:]}", f"seed {seed}")
    figure(
        f"{name}: {COUNT} damaged versions, {calls} calls, {len(found)} failures, at most {slowest:.1f} s of CPU time"
    )
    assert not found, "\n\n".join(f"{seed}: critiqor {failure}" for failure, seed in found.items())


def _make_pipe(path: Path) -> None:
    os.mkfifo(path)


def _make_folder(path: Path) -> None:
    path.mkdir()


def _make_loop(path: Path) -> None:
    path.symlink_to(path.name)


def _make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("put", [_make_pipe, _make_folder, _make_loop, _make_device])
@pytest.mark.parametrize("name", TARGETS)
def test_something_else_in_the_place_of_a_file_makes_no_verb_crash_or_hang(
    name: str, put: Callable[[Path], None], template: Path, tmp_path: Path
) -> None:
    target = TARGETS[name]
    folder = tmp_path / "folder"
    found = []
    for verb in target.verbs:
        if "FILE" in verb and put is _make_pipe:
            continue  # named by the user, who waits for the other end
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(template, folder)
        (folder / target.path).unlink()
        put(folder / target.path)
        arguments = [target.path if word == "FILE" else word for word in verb]
        with _in(folder):
            failure = _failure_of_recovery(target.path, verb[1]) if verb in LOST else failure_of(arguments)
        if failure is not None:
            found.append(f"critiqor {' '.join(arguments)}\n{failure[-1500:]}")
    assert not found, "\n\n".join(found)


def test_every_verb_that_reads_runs_is_tried() -> None:
    tried = {verb[0] for target in TARGETS.values() for verb in target.verbs}
    elsewhere = {"attach", "detach", "monitor", "completion", "doctor", "demo", "agent", "dashboard", "keys", "guard"}
    elsewhere |= {"mcp", "receive", "push", "pull", "fleet"}  # their tests damage what they read, too
    assert VERBS.keys() - tried == elsewhere


def test_what_is_damaged_is_whole_before(template: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    shutil.copytree(template, folder)
    with _in(folder):
        for target in TARGETS.values():
            assert Path(target.path).is_file()
        for name in IMPORTED:
            before = len(list(Path("runs").glob("run_*.json")))
            assert failure_of(["import", name]) is None
            assert len(list(Path("runs").glob("run_*.json"))) == before + 1, name
