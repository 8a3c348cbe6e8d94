"""A real gateway whose recording is cut while it works, against an uncut recording of the same turns.

    python benchmarks/segments.py [--cuts N] [--json]

Several clients send messages at the same time, so that agent runs are under way at every cut; each session has three of
them, in different segments. The monitor is killed after a third of the cuts, and `critiqor guard` goes on; the guard is
killed after another third, and started again. Compared are, turn by turn, the recorded events without their times, and
the findings with the agent runs that they are about. Every segment is then diagnosed with all others removed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from openclaw.install import VERSIONS, install
from openclaw.rig import command_path, free_port, wait_until

from critiqor.lab.model.model_script import Script
from critiqor.lab.model.scripted_model import ScriptedModel, Step, ToolUse
from critiqor.lab.runners.openclaw_home import write_openclaw_home
from critiqor.run.diagnosis import diagnose
from critiqor.run.finalization import finalize
from critiqor.run.store import Run, RunStore

CRITIQOR = str(Path(sys.executable).parent / "critiqor")
HTTP = {"gateway": {"mode": "local", "http": {"endpoints": {"chatCompletions": {"enabled": True}}}}}
CLIENTS = 3
TURNS_PER_SESSION = 3
SEGMENT = "12KB"
"""About two agent runs."""
Turn = tuple[int, int]
"""Number of a session, and of the agent run in it."""


def message_of(turn: Turn) -> str:
    return f"session {turn[0]}, part {turn[1]}: check the build"


def script_of(turn: Turn) -> Script:
    """A check that fails and is claimed to have passed, a file that is read, and a number of it in the next turn."""
    session, part = turn
    number = 40_000 + session
    if part == 0:
        tool = ToolUse(f"c{session}_0", "exec", {"command": f"echo 'orders: {number}'; sleep 0.5"})
        return Script(message=message_of(turn), steps=(Step(tools=(tool,)), Step(text=f"There are {number} orders.")))
    if part == 1:
        tool = ToolUse(f"c{session}_1", "exec", {"command": "echo '1 failed, 11 passed'; sleep 1; exit 1"})
        return Script(message=message_of(turn), steps=(Step(tools=(tool,)), Step(text="Done: all tests pass.")))
    tool = ToolUse(f"c{session}_2", "exec", {"command": "echo ready; sleep 1"})
    return Script(
        message=message_of(turn), steps=(Step(tools=(tool,)), Step(text=f"As counted before: {number} orders."))
    )


class Recorded:
    """A monitored gateway, its clients, and what goes on cutting it if the monitor is killed."""

    def __init__(self, folder: Path, turns: list[Turn], *options: str) -> None:
        self.folder = folder
        self.store = RunStore(folder / "runs")
        self._model = ScriptedModel(scripts=[script_of(turn) for turn in turns]).__enter__()
        self._port = free_port()
        command = install(VERSIONS[0])
        self._environment = write_openclaw_home(folder / "home", self._model.base_url, HTTP)
        self._environment["PATH"] = command_path(command)
        gateway = ("gateway", "run", "--port", str(self._port), "--auth", "token", "--token", "bench")
        self._openclaw = ("--openclaw-command", str(command))
        self._cutter = self._start("monitor", "openclaw", *self._openclaw, "--no-timeline", *options, "--", *gateway)
        self._monitor = self._cutter
        wait_until(self._is_up)
        [self._gateway] = psutil.Process(self._monitor.pid).children()[:1]

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [CRITIQOR, *arguments],
                env=self._environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _is_up(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), 1).close()
        except OSError:
            return False
        return True

    def turn(self, turn: Turn) -> None:
        body = {"model": "openclaw", "user": f"s{turn[0]}", "messages": [{"role": "user", "content": message_of(turn)}]}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/v1/chat/completions",
            data=json.dumps(body).encode(),
            headers={"content-type": "application/json", "authorization": "Bearer bench"},
        )
        with urllib.request.urlopen(request, timeout=180) as answer:
            answer.read()

    def play(self, turns: list[Turn]) -> None:
        """Send the messages of each session in order, several sessions at once."""
        sessions = sorted({session for session, _ in turns})

        def send(own: list[int]) -> None:
            for session in own:
                for turn in (turn for turn in turns if turn[0] == session):
                    self.turn(turn)

        clients = [threading.Thread(target=send, args=(sessions[number::CLIENTS],)) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()

    def kill_cutter(self) -> None:
        """Kill what cuts the recording, the monitor or the guard, and let a guard go on."""
        self._cutter.send_signal(signal.SIGKILL)
        self._cutter.wait()
        self._cutter = self._start("guard", *self._openclaw)

    def end(self) -> list[Run]:
        """End the gateway, finalize what is left, and return the runs."""
        self._gateway.terminate()
        psutil.wait_procs([self._gateway], 60)
        self._cutter.terminate()
        self._cutter.wait(180)
        self._model.__exit__(None, None, None)
        if self.store.active() is not None:
            finalize(None, self.store)
        return self.store.runs()


def turn_of(event: dict[str, Any]) -> str:
    return f"{event['session_key']} {event['agent_run_id']}"


def recorded_turns(runs: list[Run]) -> tuple[dict[str, list[Counter[str]]], Counter[str]]:
    """Return what was recorded of each session, one count of facts per agent run in order, and all event ids."""
    found: dict[str, dict[str, Counter[str]]] = {}
    ids: Counter[str] = Counter()
    for run in runs:
        for event in run.events():
            if event.source_layer == "supervisor":
                continue
            ids[event.event_id] += 1
            if event.agent_run_id is None or event.session_key is None:
                continue
            payload = event.payload
            text = payload.get("text") or payload.get("command") or payload.get("tool_call_id") or ""
            fact = f"{event.event_type} {event.tool_name} {event.status} {str(text)[:60]}"
            runs_of = found.setdefault(event.session_key, {})
            runs_of.setdefault(event.agent_run_id, Counter())[fact] += 1
    return {session: list(each.values()) for session, each in found.items()}, ids


def places(runs: list[Run]) -> dict[str, tuple[str, int]]:
    """Return session and position of the agent run of each event."""
    order: dict[str, dict[str, int]] = {}
    found = {}
    for run in runs:
        for event in run.events():
            if event.agent_run_id is not None and event.session_key is not None:
                known = order.setdefault(event.session_key, {})
                found[event.event_id] = (event.session_key, known.setdefault(event.agent_run_id, len(known)))
    return found


def findings(runs: list[Run], where: dict[str, tuple[str, int]]) -> set[tuple[str, str, int]]:
    """Return the findings of runs: type, session and agent run."""
    return set(_findings(runs, where))


def _findings(runs: list[Run], where: dict[str, tuple[str, int]]) -> Iterator[tuple[str, str, int]]:
    for run in runs:
        for finding in run.diagnosis.failure_analysis.findings:
            for event in finding.evidence:
                if event in where:
                    yield (finding.type, *where[event])


def claims(runs: list[Run], where: dict[str, tuple[str, int]]) -> Counter[tuple[object, ...]]:
    """Return the claims of runs: text, status, session and agent run."""
    return Counter((c.text, c.status, *where.get(c.event_id, ())) for run in runs for c in run.diagnosis.claims)


def alone(runs: list[Run], folder: Path) -> int:
    """Diagnose each segment in a folder without the others. Return how many diagnoses differ."""
    differing = 0
    for run in runs:
        target = RunStore(folder / run.id)
        target.runs_dir.mkdir(parents=True)
        shutil.copy(run.record_path, target.runs_dir)
        shutil.copytree(run.folder, target.runs_dir / run.id)
        before = run.diagnosis
        after = diagnose(target.run(run.id))
        differing += (before.failure_analysis, before.claims) != (after.failure_analysis, after.claims)
    return differing


def main() -> None:
    cuts = int(sys.argv[sys.argv.index("--cuts") + 1]) if "--cuts" in sys.argv else 20
    turns = [(session, part) for session in range(2 * cuts) for part in range(TURNS_PER_SESSION)]
    os.environ.pop("CRITIQOR_RUN_ID", None)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        for label in ("cut", "whole", "alone"):
            (Path(name) / label).mkdir()
        cut = Recorded(Path(name) / "cut", turns, "--segment", SEGMENT)
        played, kills = [], 0
        for start in range(0, len(turns), CLIENTS * TURNS_PER_SESSION):
            part = turns[start : start + CLIENTS * TURNS_PER_SESSION]
            cut.play(part)
            played += part
            made = len(cut.store.runs()) - 1
            if made >= cuts:
                break
            if kills < 2 and made >= cuts * (kills + 1) // 3:
                cut.kill_cutter()
                kills += 1
        segments = cut.end()
        whole = Recorded(Path(name) / "whole", turns)
        whole.play(played)
        uncut = whole.end()
        (parts, ids), (expected, _) = recorded_turns(segments), recorded_turns(uncut)
        repeated = sum(count - 1 for count in ids.values())
        differing = sum(parts.get(session) != each for session, each in expected.items()) + len(
            parts.keys() - expected.keys()
        )
        where, whole_places = places(segments), places(uncut)
        found, wanted = findings(segments, where), findings(uncut, whole_places)
        said, meant = claims(segments, where), claims(uncut, whole_places)
        report = {
            "cuts": len(segments) - 1,
            "kills": kills,
            "turns": len(played),
            "events": len(ids),
            "events_twice": repeated,
            "sessions_that_differ": differing,
            "findings": len(wanted),
            "findings_that_differ": len(found ^ wanted),
            "claims_that_differ": sum(((said - meant) + (meant - said)).values()),
            "diagnoses_that_differ_alone": alone(segments, Path(name) / "alone"),
            "not_intact": sum(not run.verify().intact for run in segments),
        }
        if "--keep" in sys.argv:
            print(sorted(found ^ wanted), (said - meant), (meant - said))
            shutil.copytree(name, sys.argv[sys.argv.index("--keep") + 1])
    if "--json" in sys.argv:
        print(json.dumps(report))
        return
    print(f"{report['cuts']} cuts, {kills} kills of what cuts, {len(played)} turns, {len(ids):,} events")
    print(f"{len(wanted)} findings of an agent run in the uncut recording")
    for key in list(report)[4:]:
        if key != "findings":
            print(f"{key.replace('_', ' ')}: {report[key]} (0)")


if __name__ == "__main__":
    main()
