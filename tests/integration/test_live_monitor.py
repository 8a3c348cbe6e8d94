"""`critiqor monitor` diagnoses a run while it is recorded, acts on limits, finalizes and gates."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import psutil
import pytest
from collectors import answering, collector
from live_replay import differences
from otlp import ReadTrace
from support import STANDIN, Runs, environment, run_critiqor, wait_until
from test_monitor import Monitor

from critiqor.errors import ExitCode
from critiqor.exporters.export import send_run
from critiqor.exporters.otlp.evaluations import EVALUATION
from critiqor.live.announcements import Announcement
from critiqor.live.limits import DayFile
from critiqor.live.messages import StreamTarget
from critiqor.live.span_sender import waiting_runs
from critiqor.live.verdict import LiveLimit, LiveVerdict, read_live
from critiqor.policy.limits import Limit, Limits
from critiqor.policy.policy_file import Policy
from critiqor.recording.live_worker import LiveWorker
from critiqor.run.store import Run
from critiqor.runtime import MonitorOptions, MonitorResult, monitor_openclaw

STOP_REPEATS = Policy(limits=Limits(repeats=Limit(max=8, action="stop")))


@pytest.fixture
def monitor(tmp_path: Path, runs: Runs) -> Monitor:
    return Monitor(tmp_path, runs)


def verdict_of(runs: Runs, run_id: str = "run_001") -> LiveVerdict:
    verdict = read_live(Run.load(run_id, runs.folder))
    assert verdict is not None
    return verdict


def test_the_live_verdict_of_a_monitored_run_is_that_of_finalize(monitor: Monitor, runs: Runs) -> None:
    monitor.run("agent", "--tools", "12")
    verdict = verdict_of(runs)
    runs.finalize()
    assert verdict.state == "ended" and {finding.type for finding in verdict.findings} >= {"tool_loop"}
    assert differences(verdict, Run.load("run_001", runs.folder).diagnosis) == []


def test_a_loop_is_announced_and_stopped_while_it_runs(monitor: Monitor, runs: Runs) -> None:
    news: list[Announcement | LiveLimit] = []
    options = MonitorOptions(
        runs_dir=runs.folder,
        openclaw_command=str(STANDIN),
        arguments=("agent", "--tools", "5000", "--slow", "100"),
        policy=STOP_REPEATS,
    )
    with monitor.output.open("wb") as output:
        result = monitor_openclaw(
            options,
            say=monitor.said.append,
            environment=environment(monitor.home),
            output=output,
            announce=lambda _, one: news.append(one),
        )
    assert (result.exit_code, runs.status("run_001")) == (ExitCode.GATE_FAILED, "MONITORING")
    assert result.stopped_by is not None and result.stopped_by.text.startswith("limits.repeats: 9 repeats (exec)")
    assert [one.text for one in news if isinstance(one, LiveLimit)] == [result.stopped_by.text]
    assert "tool_loop" in [one.finding.type for one in news if isinstance(one, Announcement) and one.kind == "new"]
    assert any("Critiqor ended OpenClaw because of limits.repeats" in line for line in monitor.said)
    [error] = runs.notes("run_001", "error_event")
    assert (error["payload"]["reason"], error["payload"]["limit"]) == ("limit", "repeats")
    [limit] = verdict_of(runs).limits
    assert (limit.name, limit.action, limit.result) == ("repeats", "stop", "stop requested")
    record = runs.finalize()
    assert record["status"] == "COMPLETED"
    assert record["diagnosis"]["outcome"]["state"] == "interrupted"
    found = {finding["type"]: finding["title"] for finding in record["failure_analysis"]["findings"]}
    assert "limits.repeats: 9 repeats (exec)" in found["process_failure"] and "tool_loop" in found
    calls = [event for event in runs.evidence("run_001")["events"] if event["event_type"] == "tool_call"]
    assert 10 <= len(calls) < 1000


def test_a_limit_that_only_notifies_stops_nothing(monitor: Monitor, runs: Runs) -> None:
    policy = Policy(limits=Limits(tool_calls=Limit(max=5), repeats=Limit(max=100)))
    result = monitor.run("agent", "--tools", "12", policy=policy)
    assert (result.exit_code, result.stopped_by) == (0, None)
    assert [(limit.name, limit.result) for limit in verdict_of(runs).limits] == [("tool_calls", None)]


def test_amounts_of_a_day_are_those_of_all_runs_of_the_folder(monitor: Monitor, runs: Runs) -> None:
    policy = Policy(limits=Limits(tool_calls=Limit(max=5, per="day")))
    monitor.run("agent", "--tools", "4", policy=policy)
    assert verdict_of(runs).limits == []
    runs.finalize()
    monitor.run("agent", "--tools", "2", policy=policy)
    [limit] = verdict_of(runs, "run_002").limits
    assert limit.name == "tool_calls"
    [amounts] = DayFile(runs.folder).amounts_without("").values()
    assert amounts == {"tool_calls": 6.0}


def live_processes() -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cmdline()[1:] == ["-P", "-m", "critiqor.live"] and process.ppid() == psutil.Process().pid:
                found.append(process)
    return found


def test_a_live_diagnosis_that_is_killed_begins_again_and_does_not_harm_the_recording(
    monitor: Monitor, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []
    start = LiveWorker._start

    def start_and_kill_the_first(worker: LiveWorker) -> object:
        process = start(worker)
        if process is not None and not killed:
            killed.append(process.pid)
            process.kill()
        return process

    monkeypatch.setattr(LiveWorker, "_start", start_and_kill_the_first)
    result = monitor.run("agent", "--tools", "20", "--slow", "50")
    assert result == MonitorResult("run_001", 0, True)
    assert killed and verdict_of(runs).state == "ended"
    assert live_processes() == []


def test_a_live_diagnosis_that_cannot_start_does_not_harm_the_recording(
    monitor: Monitor, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("critiqor.recording.live_worker.sys.executable", "/no/such/python")
    assert monitor.run("agent") == MonitorResult("run_001", 0, True)
    assert read_live(Run.load("run_001", runs.folder)) is None
    assert runs.finalize()["status"] == "COMPLETED"


def test_a_run_without_live_diagnosis_has_no_live_verdict(monitor: Monitor, runs: Runs) -> None:
    monitor.run("agent", live=False)
    assert not runs.paths.live_path("run_001").exists()


def monitored(folder: Path, policy: str, *arguments: str) -> tuple[int, str]:
    (folder / "policy.toml").write_text(policy)
    command = ("monitor", "openclaw", "--openclaw-command", str(STANDIN), *arguments, "--", "agent")
    done = run_critiqor(*command, home=folder)
    return done.returncode, done.stdout


def test_monitor_finalizes_and_gates_in_one_command(tmp_path: Path) -> None:
    code, output = monitored(tmp_path, "min_trust = 100", "--check", "policy.toml")
    assert code == ExitCode.GATE_FAILED and "NO  min_trust" in output
    code, output = monitored(tmp_path, "min_trust = 0", "--check", "policy.toml")
    assert code == 0 and "run_002 passes" in output
    code, output = monitored(tmp_path, "", "--finalize")
    assert code == 0 and "run_003" in output
    assert Runs(tmp_path / "runs").status("run_003") == "COMPLETED"


CHANNEL = """
[notify.channels.log]
kind = "command"
command = ["sh", "-c", "cat >> alerts; echo >> alerts"]
"""


def test_findings_and_limits_are_sent_to_the_channels_once_while_the_agent_works(tmp_path: Path) -> None:
    settings = tmp_path / ".config" / "critiqor" / "config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(CHANNEL)
    code, _ = monitored(tmp_path, "[limits]\ntool_calls = 1\n", "--policy", "policy.toml")
    assert code == 0
    run_critiqor("notify", "flush", home=tmp_path)
    run_critiqor("finalize", "--no-dashboard", home=tmp_path)
    sent = [json.loads(line) for line in (tmp_path / "alerts").read_text().splitlines()]
    types = [alert["finding"]["type"] for message in sent for alert in message["alerts"]]
    assert "limit_exceeded" in types
    diagnosis = Run.load("run_001", tmp_path / "runs").diagnosis
    assert diagnosis.failure_analysis.findings != []
    for finding in diagnosis.failure_analysis.findings:
        assert types.count(finding.type) == 1


CONTRACT = """
[[contracts]]
id = "no-builds"
never = 'call.tool == "exec" && call.args.command.contains("build")'
severity = "high"
says = "Built something."
"""


def test_contracts_apply_while_the_agent_works(tmp_path: Path) -> None:
    code, output = monitored(tmp_path, CONTRACT, "--policy", "policy.toml", "--finalize")
    assert code == 0 and "Built something." in output
    run = Run.load("run_001", tmp_path / "runs")
    live = read_live(run)
    assert live is not None and "Built something." in [finding.title for finding in live.findings]
    assert differences(live, run.diagnosis) == []


def test_limits_need_the_live_diagnosis(tmp_path: Path) -> None:
    assert monitored(tmp_path, "[limits]\nrepeats = 3", "--no-live", "--policy", "policy.toml")[0] == ExitCode.USAGE


def test_the_process_ends_with_a_monitor_that_is_killed(tmp_path: Path, runs: Runs) -> None:
    run = Run.load(runs.start(), runs.folder)
    worker = LiveWorker(run, None, lambda _: None, lambda _: None)
    worker.start()
    wait_until(lambda: runs.paths.live_path(run.id).exists())
    [process] = live_processes()
    assert worker._process is not None and worker._process.stdin is not None
    worker._process.stdin.close()  # as the system does with the files of a process that is killed
    wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)
    worker.conclude()


def test_the_spans_of_a_monitored_run_are_sent_while_it_is_recorded(monitor: Monitor, runs: Runs) -> None:
    with collector() as made:
        monitor.run("agent", "--tools", "12", stream=StreamTarget(url=f"{made.url}/v1/traces"))
    [run] = ReadTrace(*made.bodies).all("run run_001")
    assert "tool_loop" in {event["gen_ai.evaluation.name"] for event in run.of(EVALUATION)}
    assert len(ReadTrace(*made.bodies).all("execute_tool exec")) == 12
    assert any(f"spans of run_001 were sent to {made.url}/v1/traces" in line for line in monitor.said)


def test_a_collector_that_is_away_delays_neither_the_agent_nor_its_end(monitor: Monitor, runs: Runs) -> None:
    with collector(answering(503)) as made:
        result = monitor.run("agent", "--tools", "12", stream=StreamTarget(url=f"{made.url}/v1/traces"))
    assert result.exit_code == 0
    assert any(f"critiqor export run_001 --format otlp --endpoint {made.url}" in line for line in monitor.said)
    with collector() as back:
        stream = StreamTarget(url=f"{made.url}/v1/traces")
        assert [each.target for each in waiting_runs(runs.paths)] == [stream]
        runs.finalize("run_001")
        assert send_run(Run.load("run_001", runs.folder), back.url).spans == len(ReadTrace(*back.bodies).spans)
