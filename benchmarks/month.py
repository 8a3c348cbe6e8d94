"""A month of two gateways that never end: memory and descriptors of everything that runs for its whole length.

    python benchmarks/month.py [--segments 30] [--events 100000] [--json]

One stand-in gateway is launched by `critiqor monitor`, which cuts its recording; another one is attached, and
`critiqor guard` cuts that. Each segment has the given number of events. After each one, resident memory and open
descriptors of both recorders, of the monitor and of the guard are sampled; the figure is the largest ratio of the mean
of the last third of the samples to that of the second quarter, when everything has been loaded. At the end, the list of
all runs is made by `critiqor runs` and by a dashboard that was just started; both compute the digests of all evidence,
so that their CPU time grows with its size.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import verb
from dashboard import open_dashboard, request_seconds

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support import STANDIN, environment

from critiqor.recording.attach import AttachOptions, attach_openclaw
from critiqor.run.store import RunStore

EVENTS_PER_TOOL = 7
"""Events of the stand-in for one tool call, with its model call and its turn."""


def number_after(option: str, default: int) -> int:
    return int(sys.argv[sys.argv.index(option) + 1]) if option in sys.argv else default


class Month:
    """Two gateways, what cuts them, and the samples of their processes."""

    def __init__(self, folder: Path, events: int) -> None:
        self._folder = folder
        self.runs = RunStore(folder / "runs")
        home = folder / "home"
        (home / ".openclaw").mkdir(parents=True)
        (home / ".openclaw" / "openclaw.json").write_text("{}")
        self._environment = environment(home)
        tools = ("--tools", str(events // EVENTS_PER_TOOL), "--slow", "0")
        rule = f"{max(1, events * 450 // 1000)}KB"  # less than one turn, so that each turn is one segment
        openclaw = ("--openclaw-command", str(STANDIN))
        launch = ("monitor", "openclaw", "--runs-dir", str(self.runs.runs_dir), *openclaw, "--segment", rule)
        self.monitor = self._start([verb.CRITIQOR, *launch, "--", "gateway", "run", *tools])
        named = AttachOptions(
            runs_dir=self.runs.runs_dir, openclaw_command=str(STANDIN), timeout=0.0, slot="attached", segment=rule
        )
        self._wait_for(self.monitor, "ready")
        attach_openclaw(named, say=lambda text: None, environment=environment(self._other_home()))
        command = [str(STANDIN), "gateway", "run", *tools]
        self.attached = self._start(command, environment(self._other_home()))
        self._wait_for(self.attached, "ready")
        self._nodes = [_node_of(self.monitor), _node_of(self.attached)]
        guard = ("guard", "--runs-dir", str(self.runs.runs_dir), *openclaw)
        self.guard = self._start([verb.CRITIQOR, *guard])
        self.samples: dict[str, list[tuple[int, int]]] = {}

    def _other_home(self) -> Path:
        home = self._folder / "other"
        (home / ".openclaw").mkdir(parents=True, exist_ok=True)
        configuration = home / ".openclaw" / "openclaw.json"
        if not configuration.exists():
            configuration.write_text("{}")
        return home

    def _start(self, command: list[str], variables: dict[str, str] | None = None) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        with (self._folder / "log").open("a") as log:
            return subprocess.Popen(
                command,
                env=variables or self._environment,
                cwd=self._folder,
                stdin=pipe,
                stdout=pipe,
                stderr=log,
                text=True,
            )

    @staticmethod
    def _wait_for(process: subprocess.Popen[str], text: str) -> None:
        assert process.stdout is not None
        assert text in process.stdout.readline()

    def play_segment(self) -> None:
        """Play one turn of both gateways, and wait until it is sealed."""
        for process in (self.monitor, self.attached):
            assert process.stdin is not None
            process.stdin.write("turn\n")
            process.stdin.flush()
        before = len(self.runs.runs())
        for process in (self.monitor, self.attached):
            self._wait_for(process, "Done")
        until = time.monotonic() + 900
        while len(self.runs.runs()) < before + 2 or len(self._unsealed()) > 2:
            if time.monotonic() > until:
                raise SystemExit("a segment was not sealed in time")
            time.sleep(0.5)
        self._sample()

    def _unsealed(self) -> list[str]:
        return [run.id for run in self.runs.runs() if run.head().status != "COMPLETED"]

    def _sample(self) -> None:
        watched = {
            "monitor": psutil.Process(self.monitor.pid),
            "guard": psutil.Process(self.guard.pid),
            "monitored recorder": self._nodes[0],
            "attached recorder": self._nodes[1],
        }
        for name, process in watched.items():
            self.samples.setdefault(name, []).append((process.memory_info().rss, process.num_fds()))

    def end(self) -> None:
        for process in (self.attached, self.guard, self.monitor):
            process.terminate()
            process.communicate()


def _node_of(process: subprocess.Popen[str]) -> psutil.Process:
    """Return the Node process of a gateway, which may have been started by a script of that name."""
    root = psutil.Process(process.pid)
    found = [each for each in (root, *root.children(recursive=True)) if "standin" in " ".join(each.cmdline())]
    found = [each for each in found if "critiqor" not in each.name()]  # the monitor has the name among its arguments
    return max(found, key=lambda each: each.memory_info().rss)


def growth(values: list[int]) -> float:
    """Return the mean of the last third ÷ that of the second quarter."""
    quarter = max(1, len(values) // 4)
    third = max(1, len(values) // 3)
    return statistics.mean(values[-third:]) / statistics.mean(values[quarter : 2 * quarter])


def main() -> None:
    segments, events = number_after("--segments", 30), number_after("--events", 100_000)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        month = Month(Path(name), events)
        try:
            for _ in range(segments):
                month.play_segment()
            runs = len(month.runs.runs())
            seals = [run.head().seal for run in month.runs.runs()]
            recorded = sum(seal.events for seal in seals if seal is not None)
            listed = statistics.median(
                verb.cpu_seconds("runs", "--runs-dir", str(month.runs.runs_dir)) for _ in range(3)
            )
            _, client = open_dashboard(month.runs.runs_dir)
            began = time.process_time()
            request_seconds(client, "/runs")
            shown = time.process_time() - began
        finally:
            month.end()
    memory = {name: growth([rss for rss, _ in found]) for name, found in month.samples.items()}
    descriptors = {name: growth([fds for _, fds in found]) for name, found in month.samples.items()}
    report = {
        "runs": runs,
        "events": recorded,
        "memory_growth": memory,
        "descriptor_growth": descriptors,
        "memory_mb": {name: round(found[-1][0] / 1e6) for name, found in month.samples.items()},
        "list_seconds": listed,
        "dashboard_seconds": shown,
    }
    if "--json" in sys.argv:
        print(json.dumps(report))
        return
    print(f"{runs} runs with {recorded:,} sealed events")
    for name in memory:
        size = report["memory_mb"][name]  # type: ignore[index]
        print(f"{name}: memory {memory[name]:.2f}, descriptors {descriptors[name]:.2f} (at most 1.1), now {size} MB")
    print(f"CPU time of critiqor runs: {listed:.2f} s (at most 1); list of the dashboard: {shown:.2f} s (at most 1)")


if __name__ == "__main__":
    main()
