"""`critiqor guard` follows recordings of services, reports findings, and has agent runs aborted that exceed a limit."""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from collectors import answering, collector
from live_replay import differences, looping, records_of
from otlp import ReadTrace
from story import START, Story
from support import (
    PATIENCE_SECONDS,
    Runs,
    attached,
    critiqor_command,
    environment,
    kill_tree,
    let_time_pass,
    run_critiqor,
    script,
    wait_until,
)

from critiqor.errors import ExitCode
from critiqor.live.verdict import read_live
from critiqor.model import Metadata, now_ms
from critiqor.recording.run_witness import GuardWitness
from critiqor.run.lifecycle import start_session
from critiqor.run.store import Run, RunStore

STOP = '[limits]\nrepeats = { max = 3, action = "stop" }\n'


def start_attached(runs: Runs, segment: str | None = None) -> Run:
    """A run as `critiqor attach` starts it: without a process that owns it."""
    store = RunStore(runs.folder)
    run = store.run(start_session(store, Metadata(), owned=False, segment=segment).run_id)
    let_time_pass()
    runs.write(run.id, attached())
    return run


class Guard:
    """A guard in a process of its own."""

    def __init__(self, home: Path, *options: str) -> None:
        self._lines: list[str] = []
        self.process = subprocess.Popen(
            critiqor_command("guard", "--json", *options),
            cwd=home,
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=(home / "guard.err").open("wb"),
            text=True,
        )

    def line(self) -> dict[str, object]:
        assert self.process.stdout is not None
        data: dict[str, object] = json.loads(self.process.stdout.readline())["data"]
        return data

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)


@pytest.fixture
def guards() -> Iterator[list[Guard]]:
    started: list[Guard] = []
    yield started
    for guard in started:
        kill_tree(guard.process.pid)
        guard.process.communicate()


def test_the_guard_follows_a_recording_reports_its_findings_and_concludes_it(
    runs: Runs, tmp_path: Path, guards: list[Guard]
) -> None:
    run = start_attached(runs)
    guards.append(Guard(tmp_path))
    runs.write(run.id, *records_of(looping(start=now_ms()).events))
    news = guards[0].line()
    assert news["run_id"] == run.id and isinstance(news["news"], dict)
    assert (news["news"]["kind"], news["news"]["finding"]["type"]) == ("new", "tool_loop")
    runs.finalize(run.id)
    wait_until(lambda: (live := read_live(run)) is not None and live.state == "ended")
    live = read_live(run)
    assert live is not None and differences(live, run.diagnosis) == []
    following = start_attached(runs)
    runs.write(following.id, *records_of(looping(start=now_ms()).events))
    # No recorder has reported these records to the guard, which is news about the first run.
    while (news := guards[0].line())["run_id"] == run.id:
        assert isinstance(news["news"], dict) and news["news"]["finding"]["type"] == "inspection_incomplete"
    assert news["run_id"] == following.id
    assert guards[0].end() == 0


def test_the_guard_has_openclaw_abort_the_agent_run_that_exceeds_a_limit(
    runs: Runs, tmp_path: Path, guards: list[Guard]
) -> None:
    said = tmp_path / "said"
    openclaw = script(tmp_path / "openclaw", f'#!/bin/sh\necho "$@" >> {said}\necho \'{{"status":"aborted"}}\'\n')
    (tmp_path / "policy.toml").write_text(STOP)
    run = start_attached(runs)
    guards.append(Guard(tmp_path, "--policy", "policy.toml", "--openclaw-command", str(openclaw)))
    runs.write(run.id, *records_of(looping("agent:main:loop", start=now_ms()).events))
    news = guards[0].line()["news"]
    assert isinstance(news, dict) and (news["name"], news["result"]) == ("repeats", "stop requested")
    wait_until(lambda: runs.notes(run.id, "limit_exceeded"))
    [event] = runs.notes(run.id, "limit_exceeded")
    assert event["payload"]["result"] == "Critiqor had its agent run aborted"
    call = 'gateway call sessions.abort --params {"key":"agent:main:loop","runId":"run-1"} --json'
    assert [line for line in said.read_text().splitlines() if "call" in line] == [call]
    assert guards[0].end() == 0
    guards.append(Guard(tmp_path, "--policy", "policy.toml", "--openclaw-command", str(openclaw)))
    assert guards[1].line()["news"]["finding"]["type"] == "tool_loop"  # type: ignore[index]
    assert [line for line in said.read_text().splitlines() if "call" in line] == [call], "it is stopped once"


def test_an_agent_run_that_exceeded_a_limit_before_the_guard_began_is_not_stopped(
    runs: Runs, tmp_path: Path, guards: list[Guard]
) -> None:
    (tmp_path / "policy.toml").write_text(STOP)
    run = start_attached(runs)
    runs.write(run.id, *records_of(looping(start=START).events))
    guards.append(Guard(tmp_path, "--policy", "policy.toml", "--openclaw-command", "/no/such/openclaw"))
    news = guards[0].line()["news"]
    assert isinstance(news, dict) and news["result"] == "not stopped: it was exceeded earlier"


def test_an_openclaw_that_does_not_abort_is_reported_and_recorded(
    runs: Runs, tmp_path: Path, guards: list[Guard]
) -> None:
    openclaw = script(tmp_path / "openclaw", "#!/bin/sh\necho no gateway here >&2\nexit 1\n")
    (tmp_path / "policy.toml").write_text(STOP)
    run = start_attached(runs)
    guards.append(Guard(tmp_path, "--policy", "policy.toml", "--openclaw-command", str(openclaw)))
    runs.write(run.id, *records_of(looping(start=now_ms()).events))
    wait_until(lambda: runs.notes(run.id, "limit_exceeded"))
    [event] = runs.notes(run.id, "limit_exceeded")
    expected = "its agent run was not stopped: OpenClaw did not abort it: no gateway here"
    assert event["payload"]["result"] == expected


def test_a_monitored_run_is_left_to_its_monitor_and_a_folder_has_one_guard(
    runs: Runs, tmp_path: Path, guards: list[Guard]
) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), *records_of(Story().starts().events))
    guards.append(Guard(tmp_path))
    wait_until(lambda: b"waiting for recordings" in (tmp_path / "guard.err").read_bytes())
    second = run_critiqor("guard", home=tmp_path)
    assert second.returncode == ExitCode.ERROR and "another guard follows" in second.stderr
    assert not runs.paths.live_path(run_id).exists()


@pytest.mark.parametrize("damaged", ["record", "address"])
def test_a_witness_that_cannot_begin_says_why_and_leaves_nothing_behind(
    runs: Runs, tmp_path: Path, damaged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start_attached(runs)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "sockets"))
    (tmp_path / "sockets").mkdir()
    if damaged == "record":
        runs.paths.run_path(run.id).write_text("{")
    else:
        runs.paths.guard_path(run.id).mkdir()
    witness = GuardWitness(run)
    assert witness.problem is not None
    assert "critiqor-witness" not in [thread.name for thread in threading.enumerate()]
    witness.end()
    assert list((tmp_path / "sockets").iterdir()) == []
    assert not runs.paths.guard_path(run.id).is_file()
    assert not runs.paths.statement_path(run.id).exists()
    if damaged == "address":
        assert runs.notes(run.id, "guard_started") == [], "it would promise a statement"


def test_the_spans_of_an_attached_recording_are_sent_by_the_guard(
    runs: Runs, tmp_path: Path, guards: list[Guard]
) -> None:
    run = start_attached(runs)
    is_away = True

    def answer(handler: BaseHTTPRequestHandler) -> None:
        answering(503 if is_away else 200)(handler)

    with collector(answer) as made:
        guards.append(Guard(tmp_path, "--runs-dir", str(runs.folder), "--otlp-endpoint", made.url))
        runs.write(run.id, *records_of(looping(start=now_ms()).events))
        wait_until(lambda: len(made.requests) > 1)
        is_away = False
        wait_until(lambda: "execute_tool read" in {span.name for span in ReadTrace(*made.bodies).spans})
        runs.finalize(run.id)
        wait_until(lambda: "run run_001" in {span.name for span in ReadTrace(*made.bodies).spans})
        wait_until(lambda: "were sent to" in (tmp_path / "guard.err").read_text())
        assert guards[0].end() == 0
    assert "wait in its recording" in (tmp_path / "guard.err").read_text()
