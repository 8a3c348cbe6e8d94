"""Spans streamed to a collector that is away for a while: which of them arrive, how often, and memory.

    python benchmarks/streaming.py [--away SECONDS] [--rate EVENTS]

A run is written at a fixed rate, and a process streams its spans, as `critiqor monitor` and `critiqor guard` do. The
collector closes every connection for a minute in the middle. At the end, each span of the export must have been
accepted once.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler
from pathlib import Path

TESTS = Path(__file__).parent.parent / "tests"
sys.path.insert(0, str(TESTS))

import msgspec  # noqa: E402
import psutil  # noqa: E402
from collectors import Collector, answering, collector  # noqa: E402
from story import Story  # noqa: E402

from critiqor import __version__  # noqa: E402
from critiqor.exporters.otlp.span_builder import build_spans  # noqa: E402
from critiqor.model import Event, Metadata, now_ms  # noqa: E402
from critiqor.model.report import Recorded  # noqa: E402
from critiqor.run.lifecycle import start_session  # noqa: E402
from critiqor.run.store import Run, RunStore  # noqa: E402

STREAM = """
import sys
from critiqor.live.messages import StreamTarget
from critiqor.live.span_stream import SpanStream
from critiqor.run.store import Run
stream = SpanStream(Run.load(sys.argv[2], sys.argv[1]), StreamTarget(url=sys.argv[3], content=True))
stream.start()
sys.stdin.readline()
stream.conclude(None)
report = stream.finish(300)
print(report.sent, report.is_complete)
"""


class Outage:
    """Answers like a collector that is away for some time, and counts the spans that were accepted."""

    def __init__(self) -> None:
        self.is_away = False
        self.accepted: Counter[str] = Counter()
        self.receiver: Collector

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        if self.is_away:
            handler.connection.close()
            return
        document = msgspec.json.decode(self.receiver.bodies[-1])
        self.receiver.requests.clear()
        scopes = [scope for resource in document["resourceSpans"] for scope in resource["scopeSpans"]]
        self.accepted.update(span["spanId"] for scope in scopes for span in scope["spans"])
        answering()(handler)


def turn(number: int) -> list[Event]:
    """An agent run of 24 events."""
    story = Story(f"agent:main:{number % 7}", f"run-{number}", start=now_ms() - 24_000).starts().user("Go on.")
    for step in range(5):
        story.asks(model="m").model(model="m").calls("exec", {"command": f"make step-{step}"}, f"step {step} " * 20)
    return story.says("Done.").finishes().events


def write(run: Run, rate: int, seconds: float, outage: Outage, process: psutil.Process) -> tuple[list[int], int]:
    """Record events. Return samples of the memory of the stream, and the number of events."""
    memory = []
    began = time.perf_counter()
    number = written = 0
    with run.paths.journal_path(run.id).open("ab", buffering=0) as journal:
        while (now := time.perf_counter() - began) < seconds:
            outage.is_away = seconds * 0.2 <= now < seconds * 0.8
            for event in turn(number):
                written += 1
                event = msgspec.structs.replace(event, event_id=f"evt_{number:09}_{written:012}")
                journal.write(msgspec.json.encode(event) + b"\n")
            number += 1
            memory.append(process.memory_info().rss)
            time.sleep(max(0.0, written / rate - (time.perf_counter() - began)))
    outage.is_away = False
    return memory, written


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--away", type=float, default=60)
    parser.add_argument("--rate", type=int, default=200)
    options = parser.parse_args()
    outage = Outage()
    with tempfile.TemporaryDirectory() as folder, collector(outage) as receiver:
        outage.receiver = receiver
        store = RunStore(folder)
        run = store.run(start_session(store, Metadata()).run_id)
        command = [sys.executable, "-c", STREAM, folder, run.id, f"{receiver.url}/v1/traces"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as stream:
            time.sleep(3)
            seconds = options.away / 0.6
            memory, events = write(run, options.rate, seconds, outage, psutil.Process(stream.pid))
            ended = time.perf_counter()
            printed, _ = stream.communicate(b"conclude\n")
            caught_up = time.perf_counter() - ended
        recorded = Recorded(run.head(), run.events(), None, {}, {}, __version__)
        expected = {span.id for span in build_spans(recorded)}
    tenth = len(memory) // 10
    ratio = statistics.median(memory[-tenth:]) / statistics.median(memory[tenth : 2 * tenth])
    lost, twice = expected - outage.accepted.keys(), sum(count > 1 for count in outage.accepted.values())
    print(
        f"{events:,} events in {seconds:.0f} s, the collector away for {options.away:.0f} s: {len(expected):,} spans, "
        f"{len(lost)} lost (at most 0), {twice} accepted twice (at most 0), caught up {caught_up:.1f} s after the end; "
        f"memory at the last tenth ÷ at the second {ratio:.2f} (at most 1.5); {printed.decode().strip()}"
    )


if __name__ == "__main__":
    main()
