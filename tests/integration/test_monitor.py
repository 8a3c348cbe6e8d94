"""`critiqor monitor` around real processes: the stand-in for OpenClaw, and children that misbehave."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support import (
    PATIENCE_SECONDS,
    STANDIN,
    Runs,
    critiqor_command,
    environment,
    from_recorder,
    kill_tree,
    run_critiqor,
    script,
    wait_until,
)

from critiqor.errors import CritiqorError, ExitCode, OpenClawNotFoundError, UsageError
from critiqor.openclaw import plugin_folder
from critiqor.processes import adopts_orphans
from critiqor.recording import monitor as runtime
from critiqor.recording.supervisor import Supervisor
from critiqor.run.lifecycle import append_lifecycle_event
from critiqor.run.store import Run
from critiqor.runtime import MonitorOptions, MonitorResult, monitor_openclaw, openclaw_environment
from critiqor.session import abort_session, create_session, diagnose_run, load_active_session
from critiqor.storage.seals.verification import verify_run

PYTHON = f"#!{sys.executable}\n"


class Monitor:
    """The monitor in this process, with what it said and what its child wrote."""

    def __init__(self, folder: Path, runs: Runs) -> None:
        self.folder = folder
        self.runs = runs
        self.home = folder / "home"
        self.home.mkdir()
        self.said: list[str] = []
        self.output = folder / "output"

    def run(
        self, *arguments: str, command: Path = STANDIN, extra: dict[str, str] | None = None, **options: Any
    ) -> MonitorResult:
        chosen = MonitorOptions(
            runs_dir=self.runs.folder, openclaw_command=str(command), arguments=arguments or ("agent",), **options
        )
        with self.output.open("wb") as output:
            return monitor_openclaw(
                chosen, say=self.said.append, environment=environment(self.home, **(extra or {})), output=output
            )

    def script(self, text: str, name: str = "openclaw") -> Path:
        return script(self.folder / name, text)


@pytest.fixture
def monitor(tmp_path: Path, runs: Runs) -> Monitor:
    return Monitor(tmp_path, runs)


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children that ignore TERM are killed soon."""
    monkeypatch.setattr(Supervisor, "end_tree", functools.partialmethod(Supervisor.end_tree, 0.3))


def is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def pid_in(path: Path) -> int:
    return int(path.read_text())


@pytest.mark.parametrize("code", [0, 1, 7, 255])
def test_exit_code_is_passed_on_and_the_run_can_be_finalized(monitor: Monitor, runs: Runs, code: int) -> None:
    result = monitor.run("agent", "--exit", str(code))
    assert result == MonitorResult("run_001", code, True)
    assert runs.status("run_001") == "MONITORING"
    [start], [end] = runs.notes("run_001", "process_start"), runs.notes("run_001", "process_end")
    assert start["payload"]["pid"] == end["payload"]["pid"]
    assert start["payload"]["command"] == [str(STANDIN), "agent", "--exit", str(code)]
    assert end["payload"]["exit_code"] == code
    assert [error["payload"]["exit_code"] for error in runs.notes("run_001", "error_event")] == [code] * bool(code)
    record = runs.finalize()
    assert record["status"] == "COMPLETED"
    assert record["diagnosis"]["outcome"]["state"] == ("failed" if code else "completed")
    assert monitor.output.read_text().startswith("Done:")


def test_recorded_run_is_whole_and_in_true_order(monitor: Monitor, runs: Runs) -> None:
    monitor.run("agent", "--tools", "5")
    live = runs.evidence("run_001")
    runs.finalize()
    evidence = runs.evidence("run_001")
    kinds = [event["event_type"] for event in evidence["events"]]
    assert kinds[:2] == ["state_transition", "process_start"]
    assert kinds[-2:] == ["process_end", "state_transition"]
    assert (kinds.count("tool_call"), kinds.count("tool_output")) == (5, 5)
    assert (kinds.count("before_provider_request"), kinds.count("token_usage")) == (6, 6)
    coverage = evidence["coverage"]
    assert coverage["recorder_attached"]
    assert (coverage["missing_records"], coverage["damaged_records"], coverage["calls_without_results"]) == (0, 0, 0)
    assert not coverage["sealed_while_running"]
    assert len(live["events"]) == len(from_recorder(evidence))
    assert runs.record("run_001")["trust_score"] is not None
    assert verify_run(runs.paths, "run_001").intact


TERMINAL_UI = """#!/bin/sh
# Runs a command of the user as the terminal UI does, and one of the agent, until the first is recorded.
record="$CRITIQOR_RUNS_DIR/$CRITIQOR_RUN_ID.json"
secret=sk-ant-api03-Zx9Zx9Zx9Zx9Zx9Zx9Zx9Zx9Zx9
until_recorded="while ! grep -q user_bash '$record'; do sleep 0.1; done"
sh -c "$until_recorded" &
OPENCLAW_SHELL=tui-local sh -c ": $secret; $until_recorded" &
wait
"""


def test_a_command_that_the_user_runs_in_the_terminal_ui_is_recorded_once(monitor: Monitor, runs: Runs) -> None:
    assert monitor.run("chat", command=monitor.script(TERMINAL_UI), timeout=PATIENCE_SECONDS).exit_code == 0
    [seen] = runs.notes("run_001", "user_bash")
    assert seen["payload"]["command"].startswith(": [redacted:")
    assert (seen["payload"]["surface"], seen["payload"]["cwd"]) == ("terminal UI", str(Path.cwd()))
    runs.finalize()
    [note] = [note for note in runs.evidence("run_001")["coverage"]["notes"] if "terminal UI" in note]
    assert ": 1 was seen among its processes; short ones, exit codes and outputs are not visible." in note


def test_other_commands_of_openclaw_have_no_note_about_commands_of_the_user(monitor: Monitor, runs: Runs) -> None:
    monitor.run("agent")
    runs.finalize()
    assert "user_commands" not in runs.notes("run_001", "process_start")[0]["payload"]
    assert not [note for note in runs.evidence("run_001")["coverage"]["notes"] if "terminal UI" in note]


def test_environment_of_openclaw_is_exactly_as_documented(runs: Runs, tmp_path: Path) -> None:
    record = create_session(runs_dir=runs.folder, agent_id="a", tenant_id="t", visibility="shared")
    enriched = openclaw_environment(record, runs_dir=runs.folder, environment={"KEPT": "yes"})
    assert enriched == {
        "KEPT": "yes",
        "CRITIQOR_RUN_ID": "run_001",
        "CRITIQOR_RUNS_DIR": str(runs.folder),
        "CRITIQOR_AGENT_ID": "a",
        "CRITIQOR_TENANT_ID": "t",
        "CRITIQOR_VISIBILITY": "shared",
        "CRITIQOR_EVENT_SOURCE": "openclaw",
        "OPENCLAW_BUNDLED_PLUGINS_DIR": str(plugin_folder().parent),
    }
    without = openclaw_environment(record, runs_dir="relative", environment={}, bundled_plugins_dir=False)
    assert "OPENCLAW_BUNDLED_PLUGINS_DIR" not in without
    assert Path(without["CRITIQOR_RUNS_DIR"]).is_absolute()
    assert openclaw_environment(record, runs_dir=tmp_path).items() >= dict(os.environ).items()


def test_child_gets_environment_folder_and_arguments(monitor: Monitor, runs: Runs, tmp_path: Path) -> None:
    child = monitor.script(
        PYTHON + "import json, os, sys\nprint(json.dumps([dict(os.environ), os.getcwd(), sys.argv[1:]]))\n"
    )
    where = tmp_path / "where"
    where.mkdir()
    monitor.run("agent", "--message", "a b", command=child, cwd=where, metadata={"agent_id": "me"})
    variables, folder, arguments = json.loads(monitor.output.read_text())
    assert (folder, arguments) == (str(where), ["agent", "--message", "a b"])
    assert variables["CRITIQOR_AGENT_ID"] == "me"
    assert variables["CRITIQOR_RUN_ID"] == "run_001"
    assert variables["CRITIQOR_EVENT_SOURCE"] == "openclaw"
    overlay = Path(variables["OPENCLAW_CONFIG_PATH"])
    assert runs.paths.run_folder("run_001") in overlay.parents
    assert json.loads(overlay.read_text())["plugins"]["load"]["paths"] == [str(plugin_folder())]


def test_users_configuration_stays_byte_for_byte(monitor: Monitor) -> None:
    configuration = monitor.home / ".openclaw" / "openclaw.json"
    configuration.parent.mkdir()
    configuration.write_bytes(b"// mine\n{ agents: {}, /* as it is */ }\n")

    def state() -> object:
        return configuration.read_bytes(), configuration.stat().st_mtime_ns, sorted(configuration.parent.iterdir())

    before = state()
    assert monitor.run().attached
    assert state() == before
    assert any("cannot save settings" in line for line in monitor.said)


def test_timeout_ends_the_tree_and_leaves_the_run_to_be_finalized(monitor: Monitor, runs: Runs) -> None:
    # Long enough for Node to start and load the recorder on a busy machine.
    result = monitor.run("agent", "--hang", timeout=5.0)
    assert result == MonitorResult("run_001", ExitCode.TIMED_OUT, True)
    pid = runs.notes("run_001", "process_start")[0]["payload"]["pid"]
    assert not is_alive(pid)
    [error] = runs.notes("run_001", "error_event")
    assert error["payload"]["reason"] == "timeout"
    expected = "Critiqor ended OpenClaw after the timeout of 5 seconds (exit code 124). Next: critiqor finalize run_001"
    assert monitor.said[-1] == expected
    assert runs.status("run_001") == "MONITORING"
    record = runs.finalize()
    assert record["diagnosis"]["outcome"]["state"] == "timed_out"
    assert len(from_recorder(runs.evidence("run_001"))) > 10


STUBBORN = PYTHON + (
    "import os, pathlib, signal, subprocess, sys, time\n"
    "here = pathlib.Path(sys.argv[0]).parent\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork():\n"
    "        os._exit(0)\n"
    "    (here / 'grandchild').write_text(str(os.getpid()))\n"
    "    time.sleep(600)\n"
    "(here / 'child').write_text(str(os.getpid()))\n"
    "time.sleep(600)\n"
)


@pytest.mark.usefixtures("short_grace")
def test_timeout_ends_children_that_ignore_it_and_grandchildren_that_left(monitor: Monitor, tmp_path: Path) -> None:
    result = monitor.run(command=monitor.script(STUBBORN), timeout=1.0, attach_grace=60.0)
    assert result.exit_code == ExitCode.TIMED_OUT
    assert not is_alive(pid_in(tmp_path / "child"))
    assert not is_alive(pid_in(tmp_path / "grandchild"))


DAEMON = PYTHON + (
    "import os, pathlib, sys, time\n"
    "here = pathlib.Path(sys.argv[0]).parent\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork():\n"
    "        os._exit(0)\n"
    "    loop = 'import os, sys, time; open(sys.argv[1], \"w\").write(str(os.getpid())); time.sleep(600)'\n"
    "    os.execve(sys.executable, ['daemon', '-c', loop, str(here / 'daemon.tmp')], {})\n"
    "os.wait()\n"
    "while not (here / 'daemon.tmp').exists() or not (here / 'daemon.tmp').read_text():\n"
    "    time.sleep(0.01)\n"
    "(here / 'daemon.tmp').rename(here / 'daemon')\n"
)
"""A program that leaves a process behind: detached by two forks, in a session of its own, with no environment."""


def test_timeout_ends_a_daemon_that_detached_itself_and_cleared_its_environment(
    monitor: Monitor, tmp_path: Path
) -> None:
    result = monitor.run(command=monitor.script(DAEMON + "time.sleep(600)\n"), timeout=2.0, attach_grace=60.0)
    assert result.exit_code == ExitCode.TIMED_OUT
    assert not psutil.pid_exists(pid_in(tmp_path / "daemon"))


def test_a_daemon_that_is_left_behind_is_named_with_the_command_that_stops_it(
    monitor: Monitor, runs: Runs, tmp_path: Path
) -> None:
    assert monitor.run(command=monitor.script(DAEMON + "sys.exit(7)\n")).exit_code == 7
    pid = pid_in(tmp_path / "daemon")
    name = psutil.Process(pid).name()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert runs.notes("run_001", "process_end")[0]["payload"]["left_running"] == 1
    assert monitor.said[-1].startswith(
        "OpenClaw ended with exit code 7, but 1 process that it started is still running"
    )
    assert f"{pid} ({name})" in monitor.said[-1]
    assert f"kill {pid}." in monitor.said[-1]
    assert not adopts_orphans()


def test_processes_of_others_are_neither_ended_nor_reaped(monitor: Monitor) -> None:
    before = subprocess.Popen(["sleep", "600"], start_new_session=True)
    over = subprocess.Popen(["sh", "-c", "exit 3"], start_new_session=True)
    try:
        wait_until(lambda: psutil.Process(over.pid).status() == psutil.STATUS_ZOMBIE)
        monitor.run("agent", "--hang", timeout=1.0)
        assert before.poll() is None
        assert over.wait() == 3
    finally:
        before.kill()
        before.wait()


def test_what_outlives_openclaw_is_counted(monitor: Monitor, runs: Runs, tmp_path: Path) -> None:
    child = monitor.script('#!/bin/sh\nsleep 600 >/dev/null 2>&1 &\necho $! > "$(dirname "$0")/left"\nexit 0\n')
    assert monitor.run(command=child).exit_code == 0
    [end] = runs.notes("run_001", "process_end")
    assert end["payload"]["left_running"] == 1
    pid = pid_in(tmp_path / "left")
    assert f"{pid} (sleep)" in monitor.said[-1]
    warned = run_critiqor("finalize", "--no-dashboard", "--runs-dir", runs.folder, home=tmp_path).stderr
    os.kill(pid, signal.SIGKILL)
    assert f"OpenClaw has ended, but 1 process that it started is still running: {pid} (sleep)" in warned
    assert "to stop them: critiqor abort --stop run_001" in warned


def test_missing_openclaw_says_what_to_install_and_is_aborted(monitor: Monitor, runs: Runs) -> None:
    with pytest.raises(OpenClawNotFoundError) as error:
        monitor.run(command=Path("/nowhere/openclaw"))
    assert error.value.exit_code == ExitCode.NOT_FOUND
    assert int(ExitCode.NOT_FOUND) == 127
    assert "npm install -g openclaw" in str(error.value)
    assert runs.status("run_001") == "ABORTED"
    assert load_active_session(runs.folder) is None
    assert runs.notes("run_001", "error_event")[0]["payload"]["reason"] == "launch_failed"
    diagnosis = diagnose_run("run_001", runs_dir=runs.folder)
    assert diagnosis["outcome"]["state"] == "failed"
    assert diagnosis["trust_score"] is None


@pytest.mark.parametrize("content", ["no program at all", "#!/nowhere/interpreter\n"])
def test_openclaw_that_cannot_be_executed_is_aborted(monitor: Monitor, runs: Runs, content: str) -> None:
    with pytest.raises(OpenClawNotFoundError, match="could not be launched"):
        monitor.run(command=monitor.script(content))
    assert runs.status("run_001") == "ABORTED"
    assert not runs.paths.active_path.exists()


def test_name_that_cannot_be_a_variable_is_aborted(monitor: Monitor, runs: Runs) -> None:
    with pytest.raises(CritiqorError, match="null byte"):
        monitor.run(metadata={"agent_id": "a\0b"})
    assert runs.status("run_001") == "ABORTED"


def test_interrupt_before_the_launch_leaves_the_run_to_be_finalized(
    monitor: Monitor, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runtime, "prepare_launch", interrupt)
    with pytest.raises(KeyboardInterrupt):
        monitor.run()
    assert runs.notes("run_001", "error_event")[0]["payload"]["reason"] == "interrupted"
    assert runs.finalize()["diagnosis"]["outcome"]["state"] == "interrupted"


def test_second_interrupt_does_not_come_between_the_end_and_its_record(
    monitor: Monitor, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def append_and_interrupt(run: Run, event: dict[str, Any]) -> object:
        os.kill(os.getpid(), signal.SIGINT)
        return append_lifecycle_event(run, event)

    before = signal.getsignal(signal.SIGINT)
    child = monitor.script("#!/bin/sh\nsleep 0.2\nkill -INT $$\n")
    monkeypatch.setattr(runtime, "append_lifecycle_event", append_and_interrupt)
    assert monitor.run(command=child).exit_code == ExitCode.INTERRUPTED
    assert len(runs.notes("run_001", "process_end")) == 1
    assert runs.notes("run_001", "error_event")[0]["payload"]["reason"] == "interrupted"
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("arguments", [("configure",), ("onboard",), ("--container", "box", "agent")])
def test_what_cannot_be_recorded_is_refused_before_there_is_a_run(
    monitor: Monitor, runs: Runs, arguments: tuple[str, ...]
) -> None:
    with pytest.raises(UsageError) as error:
        monitor.run(*arguments)
    assert error.value.fix
    assert not runs.folder.exists()


def test_crash_in_a_tool_is_a_call_without_result(monitor: Monitor, runs: Runs) -> None:
    assert monitor.run("agent", "--crash-in-tool").exit_code != 0
    record = runs.finalize()
    coverage = runs.evidence("run_001")["coverage"]
    assert coverage["calls_without_results"] == 1
    assert coverage["open_calls"][0]["tool_name"] == "exec"
    [finding] = record["failure_analysis"]["findings"]
    assert finding["type"] == "process_failure"
    assert coverage["open_calls"][0]["event_id"] in finding["evidence"]


def test_child_killed_by_a_signal_has_the_exit_code_that_a_shell_reports(monitor: Monitor, runs: Runs) -> None:
    assert monitor.run(command=monitor.script("#!/bin/sh\nkill -KILL $$\n")).exit_code == 128 + signal.SIGKILL
    assert runs.notes("run_001", "error_event")[0]["error"] == "ended by signal 9"


BLIND = "#!/bin/sh\nsleep 1.2\nexit {code}\n"


@pytest.mark.parametrize("code", [0, 3])
def test_run_without_recorder_is_reported_while_it_runs_and_at_its_end(monitor: Monitor, runs: Runs, code: int) -> None:
    result = monitor.run("chat", command=monitor.script(BLIND.format(code=code)), attach_grace=0.3)
    assert result == MonitorResult("run_001", code, False)
    during = next(number for number, line in enumerate(monitor.said) if line.startswith("NOT RECORDING after"))
    after = next(number for number, line in enumerate(monitor.said) if line.startswith("NOTHING WAS RECORDED"))
    assert during < after
    assert "critiqor doctor" in monitor.said[during]
    assert "critiqor doctor --probe" in monitor.said[after]
    assert code == 0 or "Its last lines of output say why" in monitor.said[after]
    reasons = [error["payload"]["reason"] for error in runs.notes("run_001", "error_event")]
    assert reasons[-1] == "recorder_not_attached"
    record = runs.finalize()
    assert (record["trust_score"], record["confidence_score"]) == (None, 0)
    assert record["diagnosis"]["readiness"] == "unknown"
    assert any(finding["type"] == "inspection_incomplete" for finding in record["failure_analysis"]["findings"])
    assert "did not load the recorder" in runs.evidence("run_001")["coverage"]["notes"][0]


@pytest.mark.parametrize(
    "harm", ['rm -rf "$CRITIQOR_RUNS_DIR"', 'rm -rf "$CRITIQOR_RUNS_DIR/run_001"; touch "$CRITIQOR_RUNS_DIR/run_001"']
)
def test_records_that_cannot_be_written_are_not_blamed_on_the_plugin(monitor: Monitor, harm: str) -> None:
    wrapper = monitor.script(
        "#!/bin/sh\n"
        'until grep -q process_start "$CRITIQOR_RUNS_DIR/run_001.json"; do sleep 0.02; done\n'
        f'{harm}\n[ -d "$CRITIQOR_RUNS_DIR" ] || touch "$CRITIQOR_RUNS_DIR"\n'
        f'unset OPENCLAW_CONFIG_PATH\nexec {STANDIN} "$@"\n'
    )
    configuration = monitor.home / ".openclaw" / "openclaw.json"
    configuration.parent.mkdir()
    configuration.write_text(json.dumps({"plugins": {"load": {"paths": [str(plugin_folder())]}}}))
    result = monitor.run(command=wrapper)
    [said] = [line for line in monitor.said if line.startswith("NOTHING WAS RECORDED")]
    assert result.attached
    assert "the recorder plugin was loaded and produced" in said
    assert "was removed while OpenClaw was running" in said
    assert "--runs-dir" in said
    assert "did not load" not in said


def test_a_diagnosis_says_that_records_could_not_be_written(monitor: Monitor, runs: Runs) -> None:
    # A folder where the journal should be is what a recorder sees of a disk without inodes, and root may do anything.
    wrapper = monitor.script(f'#!/bin/sh\nmkdir "$CRITIQOR_RUNS_DIR/run_001/journal.jsonl"\nexec {STANDIN} "$@"\n')
    assert monitor.run(command=wrapper).attached
    (runs.paths.journal_path("run_001")).rmdir()
    record = runs.finalize()
    texts = json.dumps([record["failure_analysis"], runs.evidence("run_001")["coverage"]["notes"]])
    assert "did not load" not in texts
    assert "The recorder was loaded, but none of its records reached the disk" in texts


def test_a_gateway_that_nobody_used_is_no_failure_of_the_recorder(monitor: Monitor, runs: Runs) -> None:
    assert monitor.run("gateway", "run").exit_code == 0
    [said] = [line for line in monitor.said if line.startswith("NO AGENT ACTIVITY WAS RECORDED")]
    assert "no agent run took place while OpenClaw was running; the recorder worked" in said
    record = runs.finalize()
    findings = record["failure_analysis"]["findings"]
    assert [(finding["type"], finding["severity"]) for finding in findings] == [("inspection_incomplete", "low")]
    assert findings[0]["title"] == "No agent run took place"
    assert "not observed" not in json.dumps(record["diagnosis"])


def test_client_of_a_gateway_is_advised_to_monitor_the_gateway(monitor: Monitor) -> None:
    monitor.run("agent", "--message", "hi", command=monitor.script("#!/bin/sh\nexit 0\n"))
    assert any("critiqor monitor openclaw -- gateway run" in line for line in monitor.said)


def test_failure_of_the_supervision_ends_the_tree_and_aborts(
    monitor: Monitor, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Supervisor, deadline: float | None) -> int | None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Supervisor, "_wait_until", broken)
    with pytest.raises(CritiqorError, match="lost control of the OpenClaw process"):
        monitor.run("agent", "--hang")
    record = runs.record("run_001")
    assert record["status"] == "ABORTED"
    assert "Input/output error" in runs.notes("run_001", "error_event")[0]["error"]
    assert not is_alive(runs.notes("run_001", "process_start")[0]["payload"]["pid"])
    assert diagnose_run("run_001", runs.folder)["outcome"]["state"] == "failed"


def test_command_with_arguments_is_launched_as_a_shell_would(monitor: Monitor, runs: Runs) -> None:
    result = monitor.run("agent", command=f"node {STANDIN}")  # type: ignore[arg-type]
    assert result == MonitorResult("run_001", 0, True)


def test_exec_that_escapes_the_recorder_is_refused(monitor: Monitor) -> None:
    with pytest.raises(UsageError, match="agent exec"):
        monitor.run("agent", "exec", "--isolated", "hi")


@pytest.mark.parametrize(("words", "reason"), [(("status",), "no agent run took place"), (("tui",), "gateway run")])
def test_run_without_agent_activity_gets_no_trust_score(
    monitor: Monitor, runs: Runs, words: tuple[str, ...], reason: str
) -> None:
    assert monitor.run(*words).attached
    (line,) = (line for line in monitor.said if line.startswith("NO AGENT ACTIVITY WAS RECORDED"))
    assert reason in line
    assert runs.finalize()["trust_score"] is None


def test_arguments_that_are_no_text_are_passed_on_and_noted(monitor: Monitor, runs: Runs) -> None:
    echo = monitor.script(PYTHON + "import os, sys\nsys.stdout.buffer.write(os.fsencode(sys.argv[2]))\n")
    assert monitor.run("agent", os.fsdecode(b"\xff\xfe"), command=echo).exit_code == 0
    assert monitor.output.read_bytes() == b"\xff\xfe"
    assert len(runs.notes("run_001", "process_start")) == 1
    assert runs.finalize()["status"] == "COMPLETED"


def test_agent_that_deletes_the_runs_folder_does_not_bring_the_monitor_down(monitor: Monitor, runs: Runs) -> None:
    # Not before the monitor has written that it began: a record that is being replaced comes back.
    vandal = monitor.script(
        "#!/bin/sh\n"
        'until grep -q process_start "$CRITIQOR_RUNS_DIR/run_001.json"; do sleep 0.02; done\n'
        'rm -rf "$CRITIQOR_RUNS_DIR"\n'
        "exit 5\n"
    )
    assert monitor.run(command=vandal).exit_code == 5
    assert any("could not be written" in line for line in monitor.said)
    assert runs.start()


def test_aborted_meanwhile_is_said(monitor: Monitor, runs: Runs) -> None:
    impatient = monitor.script(
        PYTHON
        + "import os\nfrom critiqor.session import abort_session\n"
        + "abort_session(runs_dir=os.environ['CRITIQOR_RUNS_DIR'])\n"
    )
    assert monitor.run(command=impatient).exit_code == 0
    assert "run_001 was aborted while OpenClaw was running" in monitor.said[-1]


MONITOR_STANDIN = ("monitor", "openclaw", "--openclaw-command", STANDIN)


class Running:
    """`critiqor monitor openclaw` in a process of its own, around a stand-in that stays."""

    def __init__(
        self,
        home: Path,
        runs: Runs,
        words: tuple[str, ...] = ("agent", "--hang"),
        seen: bytes = b'"agent_end"',
        **options: Any,
    ) -> None:
        self.runs = runs
        command = critiqor_command(*MONITOR_STANDIN, "--runs-dir", runs.folder, "--", *words)
        self.process = subprocess.Popen(
            command,
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        journal = runs.paths.journal_path("run_001")
        wait_until(lambda: journal.exists() and seen in journal.read_bytes())
        wait_until(lambda: runs.notes("run_001", "process_start"))
        self.child = psutil.Process(runs.notes("run_001", "process_start")[0]["payload"]["pid"])

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str]:
        """Wait for the monitor; returns its exit code and what it said."""
        _, said = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, said

    def clean_up(self) -> None:
        kill_tree(self.child.pid)
        kill_tree(self.process.pid)
        self.process.wait()


@pytest.fixture
def running(tmp_path: Path, runs: Runs) -> Iterator[Running]:
    # Tests that were started with nohup would pass on that SIGHUP is ignored.
    started = Running(tmp_path, runs, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
    yield started
    started.clean_up()


@pytest.mark.parametrize(
    ("number", "code", "reason"),
    [
        (signal.SIGINT, ExitCode.INTERRUPTED, "interrupted"),
        (signal.SIGTERM, 128 + signal.SIGTERM, "nonzero_exit"),
        (signal.SIGHUP, 128 + signal.SIGHUP, "nonzero_exit"),
    ],
)
def test_signal_reaches_the_child_and_decides_the_exit_code(
    running: Running, runs: Runs, number: int, code: int, reason: str
) -> None:
    running.signal(number)
    assert running.end()[0] == code
    assert not is_alive(running.child.pid)
    assert runs.notes("run_001", "process_end")[0]["payload"]["exit_code"] == code
    assert runs.notes("run_001", "error_event")[0]["payload"]["reason"] == reason
    assert runs.status("run_001") == "MONITORING"
    assert runs.finalize()["status"] == "COMPLETED"


def test_ctrl_c_is_130_even_if_a_shell_sends_term_as_well(tmp_path: Path, runs: Runs) -> None:
    # It survives Ctrl-C, as an OpenClaw that takes long to end: TERM ends it, and its exit code is that of TERM.
    slow = Running(tmp_path, runs, words=("agent", "--hang", "--ignore-int"))
    try:
        slow.signal(signal.SIGINT)
        slow.signal(signal.SIGTERM)
        assert slow.end()[0] == ExitCode.INTERRUPTED
    finally:
        slow.clean_up()
    assert runs.notes("run_001", "error_event")[0]["payload"]["reason"] == "interrupted"


def test_ctrl_c_is_known_before_the_process_that_notices_it_has_ended() -> None:
    for _ in range(20):  # a busy machine may let that process wait for long
        supervisor = Supervisor(["true"], {}, mark={})
        supervisor._sentinel = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
        supervisor._sentinel.send_signal(signal.SIGINT)
        assert supervisor._ended_by_ctrl_c(128 + signal.SIGTERM)


def test_ctrl_c_before_an_agent_began_is_no_failure_of_the_recorder(tmp_path: Path, runs: Runs) -> None:
    idle = Running(tmp_path, runs, words=("gateway", "run", "--hang"), seen=b'"recorder_attached"')
    try:
        idle.signal(signal.SIGINT)
        code, said = idle.end()
    finally:
        idle.clean_up()
    assert code == ExitCode.INTERRUPTED
    assert "OpenClaw was interrupted before an agent run began; the recorder worked" in said
    record = runs.finalize()
    assert "not observed" not in json.dumps(record["diagnosis"])
    assert record["failure_analysis"]["findings"][0]["severity"] == "low"


def test_second_shell_finalizes_while_the_agent_runs(running: Running, runs: Runs, tmp_path: Path) -> None:
    finalized = run_critiqor("finalize", "--runs-dir", runs.folder, "--json", "--no-dashboard", home=tmp_path)
    assert finalized.returncode == ExitCode.OK
    assert json.loads(finalized.stdout)["data"]["diagnosis"]["outcome"]["state"] == "still_running"
    sealed = runs.evidence_bytes("run_001")
    running.signal(signal.SIGTERM)
    code, said = running.end()
    assert code == 128 + signal.SIGTERM
    assert "was completed while OpenClaw was running" in said
    assert "Traceback" not in said
    assert runs.evidence_bytes("run_001") == sealed
    assert runs.evidence("run_001")["coverage"]["sealed_while_running"] is True
    assert verify_run(runs.paths, "run_001").intact


def test_killed_monitor_leaves_a_stale_slot_that_can_be_finalized(running: Running, runs: Runs, tmp_path: Path) -> None:
    running.signal(signal.SIGKILL)
    running.process.wait()
    again = run_critiqor(*MONITOR_STANDIN, "--runs-dir", runs.folder, "--", "agent", home=tmp_path)
    assert again.returncode == ExitCode.ERROR
    assert "the process that started it is gone" in again.stderr
    assert "critiqor finalize" in again.stderr
    shown = run_critiqor("show", "run_001", "--runs-dir", runs.folder, home=tmp_path)
    assert "The recording process has ended; the run is not finalized." in shown.stdout
    assert run_critiqor("finalize", "--runs-dir", runs.folder, home=tmp_path).returncode == ExitCode.OK
    assert runs.status("run_001") == "COMPLETED"


def test_killed_monitor_leaves_a_stale_slot_that_can_be_aborted(running: Running, runs: Runs) -> None:
    running.signal(signal.SIGKILL)
    running.process.wait()
    assert abort_session(runs_dir=runs.folder)["status"] == "ABORTED"
    assert diagnose_run("run_001", runs_dir=runs.folder)["trust_score"] is not None


def test_hangup_that_is_to_be_ignored_is_not_passed_on(tmp_path: Path, runs: Runs) -> None:
    ignoring = Running(tmp_path, runs, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    try:
        ignoring.signal(signal.SIGHUP)
        ignoring.signal(signal.SIGTERM)
        assert ignoring.end()[0] == 128 + signal.SIGTERM
    finally:
        ignoring.clean_up()


def test_exit_code_is_known_where_the_system_reaps_children(tmp_path: Path, runs: Runs) -> None:
    result = run_critiqor(
        *(*MONITOR_STANDIN, "--runs-dir", runs.folder, "--", "agent", "--exit", "9"),
        home=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    )
    assert result.returncode == 9


def test_stopped_child_without_a_terminal_does_not_stop_the_monitor(running: Running, runs: Runs) -> None:
    running.child.suspend()
    wait_until(lambda: running.child.status() == psutil.STATUS_STOPPED)
    assert psutil.Process(running.process.pid).status() != psutil.STATUS_STOPPED
    running.child.resume()
    running.signal(signal.SIGTERM)
    assert running.end()[0] == 128 + signal.SIGTERM
