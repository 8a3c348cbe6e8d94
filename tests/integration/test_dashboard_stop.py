"""The Stop button of the Live page ends an agent as a limit with `stop` does, for the user only."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from dashboards import Dashboard
from httpx2 import Response
from live_replay import looping, records_of
from starlette.testclient import TestClient
from support import PATIENCE_SECONDS, Runs, script, wait_until
from test_cut_recordings import Gateway, gateway  # noqa: F401
from test_guard import Guard, guards, start_attached  # noqa: F401
from test_monitor import Monitor

from critiqor.errors import CritiqorError, ExitCode
from critiqor.live.recording import LiveRecording
from critiqor.live.stop_request import StoppedSession, request_stop, take_stop
from critiqor.live.verdict import read_live
from critiqor.model import now_ms
from critiqor.recording.stop import stop_recorded
from critiqor.run.finalization import finalize
from critiqor.run.lifecycle import append_lifecycle_event
from critiqor.run.store import Run
from critiqor.runtime import MonitorResult
from critiqor.storage.audit.closing_records import ClosingFile


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request to stop waits as long as a slow machine needs."""
    monkeypatch.setattr("critiqor.recording.stop.TAKING_SECONDS", PATIENCE_SECONDS)


def answer(client: TestClient, run_id: str, session: str = "", **fields: str) -> Response:
    origin = {"Origin": str(client.base_url).rstrip("/")}
    form = {"confirm": "stop", "session": session, **fields}
    return client.post(f"/runs/{run_id}/live/stop", data=form, headers=origin)


def confirmed(client: TestClient, run_id: str, session: str = "", **fields: str) -> int:
    return answer(client, run_id, session, **fields).status_code


def is_live(run: Run) -> bool:
    live = read_live(run)
    return live is not None and any(session.is_working for session in live.sessions)


def test_a_monitored_agent_is_ended_and_its_evidence_says_who_ended_it(tmp_path: Path, runs: Runs) -> None:
    results: list[MonitorResult] = []
    monitor = Monitor(tmp_path, runs)
    working = threading.Thread(target=lambda: results.append(monitor.run("agent", "--tools", "5000", "--slow", "100")))
    working.start()
    wait_until(lambda: runs.paths.live_path("run_001").exists())
    user = Dashboard(runs).user()
    assert confirmed(user, "run_001") == 303
    working.join()
    assert results[0].exit_code == ExitCode.GATE_FAILED
    [error] = runs.notes("run_001", "error_event")
    assert (error["payload"]["reason"], error["payload"]["limit"]) == ("limit", "user")
    record = runs.finalize()
    outcome = record["diagnosis"]["outcome"]
    assert (outcome["state"], outcome["known_from"]) == ("interrupted", "the user stopped it")
    found = {finding["type"]: finding for finding in record["failure_analysis"]["findings"]}
    assert found["process_failure"]["title"] == "Critiqor stopped the run: a request of the user"
    assert found["process_failure"]["severity"] == "low"
    assert confirmed(user, "run_001") == 409, "a finished run cannot be stopped"


@pytest.mark.usefixtures("patient")
def test_of_an_attached_gateway_only_the_agent_run_of_the_session_is_aborted(
    runs: Runs,
    tmp_path: Path,
    guards: list[Guard],  # noqa: F811
) -> None:
    said = tmp_path / "said"
    openclaw = script(tmp_path / "openclaw", f'#!/bin/sh\necho "$@" >> {said}\necho \'{{"status":"aborted"}}\'\n')
    run = start_attached(runs)
    guards.append(Guard(tmp_path, "--openclaw-command", str(openclaw)))
    runs.write(run.id, *records_of(looping("agent:main:loop", start=now_ms()).events))
    wait_until(lambda: is_live(run))
    user = Dashboard(runs).user()
    assert confirmed(user, run.id, "agent:main:nobody") == 404
    assert confirmed(user, run.id, "agent:main:loop") == 303
    wait_until(lambda: runs.notes(run.id, "limit_exceeded"))
    [event] = runs.notes(run.id, "limit_exceeded")
    assert event["payload"]["result"] == "Critiqor had its agent run aborted"
    call = 'gateway call sessions.abort --params {"key":"agent:main:loop","runId":"run-1"} --json'
    assert [line for line in said.read_text().splitlines() if "call" in line] == [call]
    assert runs.status(run.id) == "MONITORING", "the gateway goes on"


def test_an_attached_openclaw_without_a_guard_is_not_stopped_and_the_page_says_why(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("critiqor.recording.stop.TAKING_SECONDS", 0.1)
    run = start_attached(runs)
    user = Dashboard(runs).user()
    assert confirmed(user, run.id) == 409, "no agent works"
    live = LiveRecording(run)
    runs.write(run.id, *records_of(looping("agent:main:loop", start=now_ms()).events))
    for second in (0.0, 5.0):
        live.read(second)
        live.publish(second)
    for session in ("", "agent:main:loop"):
        page = answer(user, run.id, session)
        assert page.status_code == 500
        assert "no guard follows this recording of an attached OpenClaw" in page.text
        assert "start `critiqor guard` and try again" in page.text
    assert take_stop(run) == [], "the request was withdrawn"


def test_a_request_is_taken_once(runs: Runs) -> None:
    run = start_attached(runs)
    request_stop(run, [StoppedSession(session_key="agent:main:main")])
    [limit] = take_stop(run)
    assert (limit.action, limit.session_key) == ("stop", "agent:main:main")
    assert take_stop(run) == []


def test_a_gateway_goes_on_if_nobody_takes_the_request_to_stop_one_of_its_sessions(
    gateway: Gateway,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("critiqor.recording.stop.TAKING_SECONDS", 0.1)
    monitor = gateway.monitor("--no-live")
    run = gateway.store.run("run_001")
    with pytest.raises(CritiqorError, match="nobody took the request to stop a session of run_001") as refused:
        stop_recorded(run, [StoppedSession(session_key="agent:main:main")])
    assert "critiqor abort --stop run_001" in str(refused.value.fix)
    assert take_stop(run) == [], "the request was withdrawn"
    gateway.turn(monitor)
    stop_recorded(run)
    monitor.wait(PATIENCE_SECONDS)  # all of it is stopped without anybody's help


@pytest.mark.usefixtures("patient")
def test_an_agent_that_works_in_a_segment_that_was_left_is_stopped_by_the_guard(
    runs: Runs,
    tmp_path: Path,
    guards: list[Guard],  # noqa: F811
) -> None:
    openclaw = script(tmp_path / "openclaw", '#!/bin/sh\necho \'{"status":"aborted"}\'\n')
    run = start_attached(runs, segment="1KB")
    closing = ClosingFile()
    closing.reserve(runs.paths.closing_path(run.id, "w1"), "w1")  # this process records
    runs.write(run.id, *records_of(looping("agent:main:loop", start=now_ms()).events))
    guards.append(Guard(tmp_path, "--openclaw-command", str(openclaw)))
    wait_until(lambda: run.head().status == "FINALIZING" and is_live(run))
    user = Dashboard(runs).user()
    assert "Yes, stop the agent" in user.get(f"/runs/{run.id}/live").text
    assert confirmed(user, run.id, "agent:main:loop") == 303
    wait_until(lambda: runs.notes(run.id, "limit_exceeded"))
    [event] = runs.notes(run.id, "limit_exceeded")
    assert event["payload"]["result"] == "Critiqor had its agent run aborted"
    closing.close("w1", 0, 0)
    finalize(run, run.store)
    assert append_lifecycle_event(run, {"event_type": "noted"}) is None
    assert confirmed(user, run.id) == 409, "a sealed segment cannot be stopped"


@pytest.mark.usefixtures("patient")
def test_what_became_of_a_stop_is_recorded_in_the_segment_of_the_agent_run(
    gateway: Gateway,  # noqa: F811
) -> None:
    monitor = gateway.monitor("--segment", "1KB", work=("--tools", "200"))
    assert monitor.stdin is not None
    monitor.stdin.write("turn\n")
    monitor.stdin.flush()
    wait_until(lambda: len(gateway.store.runs()) == 2)
    first, second = gateway.store.runs()
    wait_until(lambda: first.head().status == "FINALIZING" and is_live(first))
    assert confirmed(Dashboard(gateway.runs).user(), first.id, "agent:main:main") == 303
    notes = gateway.runs.notes
    wait_until(lambda: notes(first.id, "limit_exceeded") or notes(second.id, "limit_exceeded"))
    [event] = notes(first.id, "limit_exceeded")
    assert event["payload"]["agent_run_id"] == "standin-run-1"
    monitor.terminate()
    monitor.wait(PATIENCE_SECONDS)
    assert first.head().status == "COMPLETED"
    witness = first.coverage().witness
    assert witness is not None and not witness.is_missing and not witness.is_tampered, "its witness knows the event"


def test_only_the_user_can_stop_and_only_with_a_confirmation(runs: Runs) -> None:
    run_id = runs.start(visibility="public")
    dashboard = Dashboard(runs)
    assert confirmed(dashboard.stranger(), run_id) == 403
    assert confirmed(dashboard.guest(run_id), run_id) == 403
    assert confirmed(dashboard.user(), run_id, confirm="") == 400
    assert dashboard.user().get(f"/runs/{run_id}/live/stop").status_code == 405
    assert dashboard.user().post(f"/runs/{run_id}/live/stop", data={"confirm": "stop"}).status_code == 403
    assert not runs.paths.stop_path(run_id).exists()


def test_a_request_that_is_not_a_request_is_removed(runs: Runs) -> None:
    run = Run.load(runs.start(), runs.folder)
    runs.paths.stop_path(run.id).write_bytes(b'{"at": 7')
    assert take_stop(run) == [] and not runs.paths.stop_path(run.id).exists()
