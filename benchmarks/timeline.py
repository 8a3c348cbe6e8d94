"""Cost of `critiqor timeline FILE`: throughput against a bare decode of the same lines, and memory.

    python benchmarks/timeline.py [--json]

The floor is a typed decode of every line that keeps nothing. The verb runs as a process of its own; its start-up, which
is measured with a file of one line, is subtracted. All are CPU times, interleaved; the figure is the ratio of their
medians. In one file, every tenth line has fields that the contract does not know, as a newer OpenClaw may write them.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import verb

from critiqor.model import iso_from_ms
from critiqor.timeline.reader.records import decoder

ROUNDS = 9
START = 1_794_000_000_000
PIDS = (4711, 4712, 4713)
UNKNOWN = {"cpuMs": 0.482, "threadId": 7, "gc": {"minor": 3, "major": 0}}


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


def write_timeline(path: Path, lines: int, unknown_every: int = 0) -> float:
    """Write a timeline of interleaved processes, and return its bytes per line."""
    writers = [Writer(pid).lines() for pid in PIDS]
    left = lines
    with path.open("wb") as file:
        while left > 0:
            for number, writer in enumerate(writers):
                for line in islice(writer, min(20 + 10 * number, left)):
                    left -= 1
                    fields = line | UNKNOWN if unknown_every and left % unknown_every == 0 else line
                    file.write(json.dumps(fields, separators=(",", ":")).encode() + b"\n")
    return path.stat().st_size / lines


def bare_decode(lines: list[bytes]) -> float:
    decode = decoder.decode
    began = time.process_time()
    for line in lines:
        decode(line)
    return time.process_time() - began


def throughput(path: Path, tiny: Path) -> tuple[float, float]:
    """Return the time of a bare decode divided by that of reading, and the lines read per second."""
    lines = path.read_bytes().splitlines()
    bare, start, whole = [], [], []
    for _ in range(ROUNDS):
        bare.append(bare_decode(lines))
        start.append(verb.cpu_seconds("timeline", str(tiny)))
        whole.append(verb.cpu_seconds("timeline", str(path)))
    reading = statistics.median(whole) - statistics.median(start)
    return statistics.median(bare) / reading, len(lines) / reading


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        tiny, small, unknown, large = (Path(name, each) for each in ("tiny", "small", "unknown", "large"))
        write_timeline(tiny, 1)
        width = write_timeline(small, 100_000)
        write_timeline(unknown, 100_000, unknown_every=10)
        write_timeline(large, 1_000_000)
        ratio, speed = throughput(small, tiny)
        unknown_ratio, _ = throughput(unknown, tiny)
        memory, more = verb.peak_mb("timeline", str(small)), verb.peak_mb("timeline", str(large))
    report = {
        "bytes_per_line": width,
        "throughput_over_bare_decode": ratio,
        "throughput_over_bare_decode_unknown_fields": unknown_ratio,
        "lines_per_second": speed,
        "peak_mb_100000": memory,
        "peak_growth_1000000": more / memory,
    }
    if "--json" in sys.argv:
        print(json.dumps(report))
        return
    print(f"100,000 lines of {width:.0f} bytes: {speed:,.0f} per CPU second")
    print(f"throughput of critiqor timeline ÷ bare typed decode of the same lines: {ratio:.2f} (at least 0.35)")
    print(f"the same if a tenth of the lines has unknown fields: {unknown_ratio:.2f} (at least 0.35)")
    print(f"peak memory at 100,000 lines: {memory:.0f} MB (at most 60)")
    print(f"peak memory at 1,000,000 lines ÷ at 100,000: {more / memory:.2f} (at most 1.5)")


if __name__ == "__main__":
    main()
