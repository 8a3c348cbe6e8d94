"""Overhead of the recorder: duration of turns on a warm gateway, with and without it.

    python benchmarks/gateway_turns.py [--turns N] [--json]

Two real gateways run side by side, one under the monitor and one without, and execute turns in random order. A turn is
two model calls and one tool call through the gateway's HTTP endpoint. Two gateways are never quite the same, so several
new pairs are used, started in alternating order. The figure is the median of the ratios, turn by turn, with a 95%
interval from 10,000 bootstrap samples. The recorded one has everything on: recorder, timeline, witness, live diagnosis.

Other programs disturb the durations much and the processor time little. It is therefore printed as well, with where it
is spent: in the gateway itself, which makes a turn longer, and in the processes of the monitor beside it, which do not.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from openclaw.install import VERSIONS, install
from openclaw.rig import free_port, wait_until

from critiqor.lab.model.scripted_model import ScriptedModel, Step, ToolUse
from critiqor.lab.runners.openclaw_home import write_openclaw_home
from critiqor.session import abort_session, load_active_session

WARM_UP = 6
PAIRS = 4
STEPS = (Step(tools=(ToolUse("call_1", "read", {"path": "notes.txt"}),)), Step(text="done"))
HTTP = {"gateway": {"mode": "local", "http": {"endpoints": {"chatCompletions": {"enabled": True}}}}}


class CpuTime(NamedTuple):
    """Seconds of processor time so far."""

    gateway: float
    beside: float
    """Of the monitor and what it has started, but for the gateway."""

    def per_turn(self, before: CpuTime, turns: int) -> CpuTime:
        """Return the milliseconds of one turn."""
        return CpuTime(*(1000 * (now - then) / turns for now, then in zip(self, before, strict=True)))


class Gateway:
    """A real gateway with a temporary home, recorded or not."""

    def __init__(self, folder: Path, version: str, *, recorded: bool) -> None:
        self.model = ScriptedModel(STEPS).__enter__()
        environment = write_openclaw_home(folder / "home", self.model.base_url, HTTP)
        workspace = folder / "home" / ".openclaw" / "workspace"
        workspace.mkdir(parents=True)
        (workspace / "notes.txt").write_text("nothing of note\n" * 20)
        self._port = free_port()
        environment["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), environment["PATH"]))
        openclaw = str(install(version))
        arguments = ["gateway", "run", "--port", str(self._port), "--auth", "token", "--token", "bench"]
        critiqor = str(Path(sys.executable).parent / "critiqor")
        monitor = [critiqor, "monitor", "openclaw", "--openclaw-command", openclaw, "--"]
        command = [*monitor, *arguments] if recorded else [openclaw, *arguments]
        with (folder / "gateway.log").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self._is_up)

    def _is_up(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._port), 1).close()
        except OSError:
            return False
        return True

    def turn(self, number: int) -> float:
        """Execute one turn and return its seconds."""
        self.model.rewind()
        body = {"model": "openclaw", "user": f"bench-{number}", "messages": [{"role": "user", "content": "look"}]}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/v1/chat/completions",
            data=json.dumps(body).encode(),
            headers={"content-type": "application/json", "authorization": "Bearer bench"},
        )
        began = time.perf_counter()
        with urllib.request.urlopen(request, timeout=120) as answer:
            answer.read()
        seconds = time.perf_counter() - began
        if len(self.model.requests) != len(STEPS):
            raise SystemExit(f"a turn made {len(self.model.requests)} model calls, not {len(STEPS)}")
        return seconds

    def cpu_time(self) -> CpuTime:
        """Return the processor time of the gateway and of the processes beside it."""
        monitor = psutil.Process(self._process.pid)
        spent = {True: 0.0, False: 0.0}
        for process in (monitor, *monitor.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                is_gateway = Path(process.exe()).name == "node" and "openclaw" in " ".join(process.cmdline())
                spent[is_gateway] += sum(process.cpu_times()[:2])
        return CpuTime(spent[True], spent[False])

    def stop(self) -> None:
        # Stop the whole group: a gateway left running would disturb every later pair.
        os.killpg(self._process.pid, signal.SIGTERM)
        self._process.wait(60)
        wait_until(lambda: not self._is_up())
        self.model.__exit__(None, None, None)


def interval(ratios: list[float]) -> tuple[float, float, float]:
    """Return the median of the ratios and its 95% interval."""
    chance = random.Random(1)
    samples = sorted(statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(10_000))
    return statistics.median(ratios), samples[250], samples[9750]


class Pair:
    """A recorded gateway and one that is not, and the seconds of their turns."""

    def __init__(self, folder: Path, version: str, labels: list[str]) -> None:
        self._folder = folder
        self.times: dict[str, list[float]] = {label: [] for label in labels}
        self.cpu: dict[str, CpuTime] = {}
        """Milliseconds of processor time of one turn."""
        self._gateways = {}
        for label in labels:
            (folder / label).mkdir(parents=True)
            self._gateways[label] = Gateway(folder / label, version, recorded=label == "recorded")

    def run(self, turns: int, chance: random.Random) -> int:
        """Execute the turns and return the number of recorded tool results."""
        order = list(self._gateways)
        before = {}
        for number in range(WARM_UP + turns):
            if number == WARM_UP:
                before = {label: gateway.cpu_time() for label, gateway in self._gateways.items()}
            chance.shuffle(order)
            for label in order:
                seconds = self._gateways[label].turn(number % 4)
                if number >= WARM_UP:
                    self.times[label].append(seconds)
        for label, gateway in self._gateways.items():
            self.cpu[label] = gateway.cpu_time().per_turn(before[label], turns)
            gateway.stop()
        runs = self._folder / "recorded" / "runs"
        recorded = (runs / "run_001" / "journal.jsonl").read_text().count('"event_type":"tool_result"')
        if load_active_session(runs):
            abort_session(runs_dir=runs)
        return recorded


def main() -> None:
    turns = int(sys.argv[sys.argv.index("--turns") + 1]) if "--turns" in sys.argv else 160
    each = turns // PAIRS
    chance = random.Random(2)
    times: dict[str, list[float]] = {"recorded": [], "alone": []}
    cpu: list[dict[str, CpuTime]] = []
    recorded = 0
    for number in range(PAIRS):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            pair = Pair(Path(name), VERSIONS[0], ["recorded", "alone"] if number % 2 else ["alone", "recorded"])
            recorded += pair.run(each, chance)
            cpu.append(pair.cpu)
            for label, seconds in pair.times.items():
                times[label] += seconds
    ratio, low, high = interval([a / b for a, b in zip(times["recorded"], times["alone"], strict=True)])
    report = {"version": VERSIONS[0], "turns": each * PAIRS, "ratio": ratio, "low": low, "high": high}
    gateways = {label: statistics.median(pair[label].gateway for pair in cpu) for label in times}
    beside = statistics.median(pair["recorded"].beside for pair in cpu)
    report |= {"cpu_ms": gateways, "cpu_ms_beside": beside}
    if "--json" in sys.argv:
        print(json.dumps({**report, "tool_results": recorded}))
        return
    medians = {label: statistics.median(values) * 1000 for label, values in times.items()}
    print(f"median turn: {medians['recorded']:.0f} ms recorded, {medians['alone']:.0f} ms alone, {each * PAIRS} each")
    percent = [f"{100 * (value - 1):+.1f}%" for value in (ratio, low, high)]
    print(f"slowdown: {percent[0]}, 95% interval {percent[1]} to {percent[2]} (its upper end at most +5%)")
    in_gateway = f"{gateways['recorded']:.0f} ms recorded, {gateways['alone']:.0f} ms alone"
    print(f"processor time of a turn: in the gateway {in_gateway}; in the monitor beside it {beside:.0f} ms")
    print(f"tool results recorded: {recorded} (all {PAIRS * (WARM_UP + each)})")


if __name__ == "__main__":
    main()
