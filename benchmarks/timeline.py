"""Cost of reading a timeline: throughput against a bare decode of the same lines, and memory.

    python benchmarks/timeline.py [--json]

The floor is a typed decode of every line that keeps nothing. Both are measured in the same process, interleaved; the
figure is the median of the ratios. Memory is the peak of a separate process that only reads the file.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

from critiqor.model import iso_from_ms
from critiqor.timeline import read_timeline
from critiqor.timeline.reader.records import decoder

ROUNDS = 15
START = 1_794_000_000_000
PIDS = (4711, 4712, 4713)


class Writer:
    """Generates the timeline of one gateway process, turn by turn, with everything that a report shows."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._now = START + pid
        self._ids = count(1)

    def lines(self) -> Iterator[dict[str, Any]]:
        for number in count():
            yield from self._reload(number)
            yield from self._turn(number)

    def _reload(self, number: int) -> Iterator[dict[str, Any]]:
        plugin = ("browser", "canvas", "memory-core", "voice")[number % 4]
        staging = [self._span("runtimeDeps.stage", pluginId=plugin, dependencyCount=number % 17)]
        yield from self._span("plugins.load", [*staging, self._span("plugins.metadata.scan", indexPluginCount=64)])
        yield from self._span("config.load", [self._span("config.normalize", traceName="config.auth")])
        active = {"activeSpanName": "plugins.metadata.scan", "p50Ms": 10.117, "p95Ms": 11.862, "p99Ms": 48.31}
        yield self._line("eventLoop.sample", "eventLoop", **active, maxMs=(number * 1607 % 2500) / 10)
        child = {"command": "mcp-server --stdio", "exitCode": number % 9 and 0, "signal": None}
        yield self._line("childProcess.exit", "childProcess.exit", durationMs=number * 2531 % 4000, **child)
        yield self._line("mark", "gateway.ready", durationMs=12783.453, attributes={"traceName": "ready"})

    def _turn(self, number: int) -> Iterator[dict[str, Any]]:
        run_id = f"d7fae4aa-163a-4705-97ca-{self.pid:04d}{number:08d}"
        names = ("config.load", "models.catalog", "mcp.runtime.start", "providers.load", "mcp.runtime.stop")
        steps = [self._span(name, stage="attempt.tool-catalog") for name in names]
        steps += [self._request(run_id, call, number) for call in (1, 2, 3)]
        inner = self._span("agent.cleanup", [self._span("plugins.metadata.scan", hasWorkspaceDir=True)])
        yield from self._span("agent.turn", [*steps, inner], runId=run_id)

    def _span(
        self,
        name: str,
        inside: list[Iterator[dict[str, Any]]] | None = None,
        *,
        parent: str | None = None,
        **known: Any,
    ) -> Iterator[dict[str, Any]]:
        span_id = f"e4e085b7-8ec5-4e20-8fb0-{next(self._ids):012d}"
        ids = {"spanId": span_id} | ({"parentSpanId": parent} if parent else {})
        began = self._now
        yield self._line("span.start", name, **ids, attributes=known)
        for part in inside or ():
            for line in part:
                # A span without a parent is inside this one.
                if line["type"].startswith("span."):
                    line.setdefault("parentSpanId", span_id)
                yield line
        self._now += self._now * 7 % 23
        yield self._line("span.end", name, **ids, durationMs=self._now - began + 0.125, attributes=known)

    def _request(self, run_id: str, call: int, number: int) -> Iterator[dict[str, Any]]:
        began, took = iso_from_ms(self._now), number * 1187 % 1900
        self._now += took
        attributes = {
            "model": "scripted",
            "api": "openai-completions",
            "terminalReason": "stop",
            "providerAccepted": True,
        }
        yield self._line("provider.request", "provider.request", runId=run_id, spanId=f"{run_id}:model:{call}") | {
            "timestamp": began,
            "durationMs": took,
            "provider": "lab",
            "operation": "openai-completions",
            "ok": number % 13 > 0,
            "attributes": attributes,
        }

    def _line(self, kind: str, name: str, **fields: Any) -> dict[str, Any]:
        self._now += 1
        head = {"schemaVersion": "openclaw.diagnostics.v1", "type": kind, "timestamp": iso_from_ms(self._now)}
        return (
            head | {"name": name, "runId": "run_001", "envName": "main", "pid": self.pid, "phase": "startup"} | fields
        )


def write_timeline(path: Path, lines: int) -> float:
    """Write a timeline of interleaved processes, and return its bytes per line."""
    writers = [Writer(pid).lines() for pid in PIDS]
    left = lines
    with path.open("wb") as file:
        while left > 0:
            for number, writer in enumerate(writers):
                for line in islice(writer, min(20 + 10 * number, left)):
                    file.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")
                    left -= 1
    return path.stat().st_size / lines


def throughput(path: Path) -> tuple[float, float]:
    """Return the time of a bare decode divided by that of reading, and the lines read per second."""
    lines = path.read_bytes().splitlines()
    decode = decoder.decode
    ratios, seconds = [], []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        for line in lines:
            decode(line)
        bare = time.perf_counter() - began
        began = time.perf_counter()
        read_timeline(path)
        seconds.append(time.perf_counter() - began)
        ratios.append(bare / seconds[-1])
    return statistics.median(ratios), len(lines) / statistics.median(seconds)


# VmHWM is the peak since exec. The peak of a child in getrusage would include its parent's.
MEASURED = """
import sys
from pathlib import Path
from critiqor.timeline import read_timeline
assert read_timeline(Path(sys.argv[1])).events == int(sys.argv[2])
print(open("/proc/self/status").read())
"""


def peak_memory(path: Path, lines: int) -> float:
    """Return the peak megabytes of reading."""
    command = [sys.executable, "-c", MEASURED, str(path), str(lines)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    peak = re.search(r"VmHWM:\s+(\d+)", done.stdout)
    if peak is None:
        raise SystemExit("this system does not report the peak memory of a process")
    return int(peak[1]) / 1024


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        small, large = Path(name, "small.jsonl"), Path(name, "large.jsonl")
        width = write_timeline(small, 100_000)
        write_timeline(large, 1_000_000)
        ratio, speed = throughput(small)
        memory, more = peak_memory(small, 100_000), peak_memory(large, 1_000_000)
    report = {
        "bytes_per_line": width,
        "throughput_over_bare_decode": ratio,
        "lines_per_second": speed,
        "peak_mb_100000": memory,
        "peak_growth_1000000": more / memory,
    }
    if "--json" in sys.argv:
        print(json.dumps(report))
        return
    print(f"100,000 lines of {width:.0f} bytes: {speed:,.0f} per second")
    print(f"throughput ÷ bare typed decode of the same lines: {ratio:.2f} (at least 0.35)")
    print(f"peak memory at 100,000 lines: {memory:.0f} MB (at most 60)")
    print(f"peak memory at 1,000,000 lines ÷ at 100,000: {more / memory:.2f} (at most 1.5)")


if __name__ == "__main__":
    main()
