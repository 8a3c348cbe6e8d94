"""Kill -9 at random moments: nothing that was written is lost or torn, and every run can be finished afterwards.

The number of tries per actor is `CRITIQOR_FAULTS`, at most 200; the default is for `make test`.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import STANDIN, Runs, critiqor_command, environment, wait_until

from critiqor.processes import agent_processes
from critiqor.session import diagnose_run
from critiqor.storage.seals.verification import verify_run

KILLS = min(200, int(os.environ.get("CRITIQOR_FAULTS", "12")))
MONITOR_KILLS = min(200, int(os.environ.get("CRITIQOR_FAULTS", "3")))
"""A try takes seconds: OpenClaw is started each time."""
PLUGIN = Path(__file__).parent.parent / "plugin" / "support" / "harness.mjs"
EVENTS = 400


def event(number: int) -> dict[str, object]:
    moment = 1_794_000_000_000 + number
    return {
        "event_id": f"evt_{_base36(moment).zfill(9)}_killed1_{_base36(number).zfill(5)}",
        "event_type": "tool_call" if number % 2 else "tool_result",
        "timestamp": f"2026-11-08T00:00:{number % 60:02d}.000Z",
        "source_layer": "tool_hooks",
        "session_key": "agent:main:main",
        "agent_run_id": "r1",
        "tool_name": "exec",
        "tool_call_id": f"call_{number // 2}",
        "payload": {"arguments": {"command": f"make step-{number}"}, "result": "x" * (number % 900)},
    }


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
    return digits or "0"


def kill_while(action: Callable[[], object], seconds: float) -> bool:
    """Run an action in a process of its own, and kill it after some time; return whether it was killed."""
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def duration_of(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def check_readable(folder: Path) -> None:
    """Every document is whole JSON; a journal may end within a record."""
    for path in folder.rglob("*.json"):
        # The space of a statement is reserved from the start, and stays empty if the monitor is killed.
        if not path.name.startswith("recorder-") and path.name != "witness.json":
            json.loads(path.read_bytes())


@pytest.fixture
def template(tmp_path: Path) -> Runs:
    """A runs folder with one run that is being recorded."""
    runs = Runs(tmp_path / "template")
    run_id = runs.start()
    runs.write(run_id, *(event(number) for number in range(1, EVENTS)))
    return runs


def copy_of(template: Runs, folder: Path) -> Runs:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template.folder, folder)
    return Runs(folder)


def test_a_killed_finalize_can_be_repeated_with_the_same_bytes(
    template: Runs, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    reference = copy_of(template, tmp_path / "reference")
    reference.finalize("run_001")
    timed = copy_of(template, tmp_path / "timed")
    takes = duration_of(lambda: timed.finalize("run_001"))  # not the first time, which imports modules
    events = reference.evidence("run_001")["events"][1:-1]
    killed = 0
    for number in range(KILLS):
        runs = copy_of(template, tmp_path / "runs")
        moment = random.Random(number).uniform(0, takes)
        killed += kill_while(lambda runs=runs: runs.finalize("run_001"), moment)  # type: ignore[misc]
        check_readable(runs.folder)
        first = runs.evidence_bytes("run_001") if runs.record("run_001")["status"] == "COMPLETED" else None
        record = runs.finalize("run_001")
        assert record["status"] == "COMPLETED"
        assert first in (None, runs.evidence_bytes("run_001"))
        assert runs.evidence("run_001")["events"][1:-1] == events
        assert verify_run(runs.paths, "run_001").intact
    figure(f"finalize: {KILLS} tries, {killed} killed before the end; evidence identical, no file torn, no run stuck")
    assert killed


def test_a_killed_diagnose_leaves_the_evidence_and_can_be_repeated(
    template: Runs, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    template.finalize("run_001")
    reference = copy_of(template, tmp_path / "reference")
    diagnose_run("run_001", reference.folder)
    takes = duration_of(lambda: diagnose_run("run_001", reference.folder))
    expected = reference.paths.evidence_summary_path("run_001").read_bytes()
    killed = 0
    for number in range(KILLS):
        runs = copy_of(template, tmp_path / "runs")
        moment = random.Random(number).uniform(0, takes)
        killed += kill_while(lambda runs=runs: diagnose_run("run_001", runs.folder), moment)  # type: ignore[misc]
        check_readable(runs.folder)
        assert runs.evidence_bytes("run_001") == expected
        diagnose_run("run_001", runs.folder)
        assert verify_run(runs.paths, "run_001").intact
    figure(f"diagnose: {KILLS} tries, {killed} killed before the end; evidence identical, no file torn, no run stuck")
    assert killed


def test_a_killed_recorder_loses_at_most_the_record_being_written(
    tmp_path: Path, figure: Callable[[str], None]
) -> None:
    script = f"""
import {{ attach }} from {json.dumps(str(PLUGIN))};
const claw = attach();
process.stdout.write(`${{process.pid}}\n`);
for (let number = 0; ; number += 1) {{
  claw.hook("message_received", {{ content: "x".repeat(number % 2000), number, sessionKey: "s1" }});
  if (number % 5 === 0) await new Promise((resolve) => setImmediate(resolve));
}}"""
    kept = torn = 0
    for number in range(KILLS):
        runs = Runs(tmp_path / str(number))
        run_id = runs.start()
        extra = {"CRITIQOR_RUN_ID": run_id, "CRITIQOR_RUNS_DIR": str(runs.folder)}
        command = ["node", "--input-type=module", "-e", script]
        process = subprocess.Popen(command, env=environment(tmp_path, **extra), stdout=subprocess.PIPE)
        assert process.stdout is not None
        # `node` may be a script that starts the program itself.
        recorder = int(process.stdout.readline())
        time.sleep(random.Random(number).uniform(0, 0.1))
        os.kill(recorder, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        *whole, last = runs.paths.journal_path(run_id).read_bytes().split(b"\n")
        numbers = [int(json.loads(line)["event_id"].rsplit("_", 1)[1], 36) for line in whole]
        assert numbers == list(range(1, len(whole) + 1))
        check_readable(runs.folder)
        coverage = runs.finalize(run_id) and runs.evidence(run_id)["coverage"]
        assert coverage["missing_records"] == 0
        assert coverage["damaged_records"] == (1 if last else 0)
        kept += len(whole)
        torn += bool(last)
        shutil.rmtree(runs.folder)
    figure(f"recorder: {KILLS} killed; {kept} records kept, none lost, {torn} torn while they were written")


def start_monitor(folder: Path, runs: Runs) -> subprocess.Popen[bytes]:
    folder.mkdir()
    openclaw = ["--openclaw-command", str(STANDIN), "--runs-dir", str(runs.folder), "--", "agent", "--tools", "9"]
    return subprocess.Popen(
        critiqor_command("monitor", "openclaw", *openclaw),
        env=environment(folder),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def test_a_killed_monitor_leaves_a_run_that_can_be_finished(tmp_path: Path, figure: Callable[[str], None]) -> None:
    # Not the first time, which reads files from the disk.
    _, takes = [duration_of(start_monitor(tmp_path / name, Runs(tmp_path / f"{name}-runs")).wait) for name in "ab"]
    killed = begun = kept = 0
    for number in range(MONITOR_KILLS):
        runs = Runs(tmp_path / str(number))
        process = start_monitor(tmp_path / f"home{number}", runs)
        time.sleep(random.Random(number).uniform(0, takes))
        process.kill()
        killed += process.wait() == -signal.SIGKILL
        wait_until(lambda runs=runs: not agent_processes(runs.folder))  # type: ignore[misc]
        if not runs.paths.run_ids():
            continue  # it was killed before it had begun
        begun += 1
        check_readable(runs.folder)
        assert runs.finalize()["status"] == "COMPLETED"
        evidence = runs.evidence_bytes("run_001")
        coverage = runs.evidence("run_001")["coverage"]
        assert (coverage["missing_records"], coverage["damaged_records"]) == (0, 0)
        assert runs.finalize("run_001")["status"] == "COMPLETED"
        assert runs.evidence_bytes("run_001") == evidence
        assert verify_run(runs.paths, "run_001").intact
        kept += coverage["journal_lines"]
    tries = f"{MONITOR_KILLS} tries, {killed} killed before the end, {begun} of the runs had begun"
    figure(f"monitor: {tries}; {kept} records kept, none lost, no file torn, no run stuck")
    assert killed
