"""`critiqor receive` under load: spans that are lost or refused, and memory.

    python benchmarks/receiver.py [--seconds N] [--rate N]

An exporter sends spans at a fixed rate, in requests of 500 spans of five traces, as usual exporters do. Each span that
was accepted must be in a run or in the spool at the end. A second part fills a small spool: further requests must be
refused with `Retry-After`, and nothing that was accepted may be lost. A third sends malformed and oversized requests.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psutil

from critiqor.exporters.otlp import protobuf
from critiqor.exporters.otlp.span import OtlpSpan
from critiqor.receiver.requests import MAX_BODY_BYTES
from critiqor.receiver.spool import Spool

SPANS, TRACES = 500, 5
"""Spans of a request, and traces that they are from."""
MAX_MEGABYTES = 200
PROTOBUF = {"Content-Type": "application/x-protobuf"}
SMALL_SPOOL = """
import critiqor.receiver.application, critiqor.receiver.serving as serving
from functools import partial
serving.Receiver = partial(serving.Receiver, max_bytes=4 << 20)
from critiqor.cli import main
main()
"""


def template() -> tuple[bytes, list[bytes]]:
    """Return a request, and the trace ids in it."""
    ids = [os.urandom(16) for _ in range(TRACES)]
    spans = []
    for number in range(SPANS):
        trace, place = ids[number % TRACES], number // TRACES
        is_root = place == SPANS // TRACES - 1
        start = time.time_ns() // 1000 + place * 1000
        attributes: dict[str, str | int | float | bool | list[str]] = {
            "openinference.span.kind": "AGENT" if is_root else ("LLM", "TOOL")[place % 2],
            "llm.model_name": "model",
            "llm.token_count.prompt": 1000 + place,
            "llm.token_count.completion": 20,
            "tool.name": "exec",
            "input.value": f'{{"command": "make step-{place}"}}',
            "output.value": f"step {place} done " * 10,
            "session.id": "agent:main:main",
        }
        root = trace[8:].hex()
        spans.append(
            OtlpSpan(
                trace_id=trace.hex(),
                id=root if is_root else os.urandom(8).hex(),
                parent=None if is_root else root,
                name=f"span {place}",
                kind="internal",
                start_us=start,
                end_us=start + 500,
                attributes=attributes,
                events=[],
            )
        )
    return protobuf.request({"service.name": "load"}, ("benchmark", "1"), spans), ids


class Receiver:
    """A receiver in a process of its own."""

    def __init__(self, folder: Path, *, program: str | None = None) -> None:
        self.folder = folder
        words = ["-c", program] if program else ["-m", "critiqor"]
        command = [sys.executable, *words, "receive", "--port", "0", "--json", "--runs-dir", str(folder)]
        self._errors = (folder.parent / f"{folder.name}.err").open("wb+")
        self._lines = (folder.parent / f"{folder.name}.out").open("wb+")
        self.process = subprocess.Popen(command, stdout=self._lines, stderr=self._errors)
        self.peak = Counter[str]()
        while not (found := re.search(rb"http://127.0.0.1:(\d+)/", self._text())):
            time.sleep(0.05)
        self.port = int(found[1])

    def _text(self) -> bytes:
        self._errors.seek(0)
        return self._errors.read()

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def sample(self) -> None:
        """Note the memory of the receiver and of its importing process."""
        process = psutil.Process(self.process.pid)
        for name, each in [("receiver", process), *(("importer", child) for child in process.children())]:
            self.peak[name] = max(self.peak[name], each.memory_info().rss)

    def end(self) -> tuple[int, int]:
        """End it. Return the spans in runs, and those in the spool."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        self._lines.seek(0)
        imported = sum(msgspec.json.decode(line)["data"].get("spans", 0) for line in self._lines)
        spool = Spool(self.folder / ".received.sqlite")
        waiting = spool.waiting().spans
        spool.close()
        return imported, waiting


@contextmanager
def receiving(**options: str) -> Iterator[Receiver]:
    with tempfile.TemporaryDirectory() as name:
        receiver = Receiver(Path(name) / "runs", **options)
        try:
            yield receiver
        finally:
            receiver.process.kill()


def post(connection: http.client.HTTPConnection, body: bytes, **headers: str) -> http.client.HTTPResponse:
    connection.request("POST", "/v1/traces", body, {**PROTOBUF, **headers})
    response = connection.getresponse()
    response.read()
    return response


def load(receiver: Receiver, rate: int, seconds: float) -> tuple[Counter[int], float, float]:
    """Send at a rate. Return the statuses of all requests, the seconds it took, and the slowest response."""
    body, ids = template()
    statuses: Counter[int] = Counter()
    connection = receiver.connect()
    began, slowest = time.perf_counter(), 0.0
    total = round(rate * seconds / SPANS)
    for number in range(total):
        for old in range(TRACES):
            new = os.urandom(16)
            body, ids[old] = body.replace(ids[old], new), new
        due = began + number * SPANS / rate
        time.sleep(max(0.0, due - time.perf_counter()))
        sent = time.perf_counter()
        statuses[post(connection, body).status] += 1
        slowest = max(slowest, time.perf_counter() - sent)
        if number % 20 == 0:
            receiver.sample()
    return statuses, time.perf_counter() - began, slowest


def measure_load(rate: int, seconds: float) -> None:
    with receiving() as receiver:
        statuses, took, slowest = load(receiver, rate, seconds)
        receiver.sample()
        imported, waiting = receiver.end()
    accepted = statuses[200] * SPANS
    peak = {name: size >> 20 for name, size in receiver.peak.items()}
    print(
        f"{rate:,} spans a second for {seconds:.0f} s: {sum(statuses.values()) * SPANS / took:,.0f} a second were "
        f"sent, {accepted:,} accepted, {sum(statuses.values()) - statuses[200]} requests refused, slowest response "
        f"{slowest * 1000:.0f} ms; {imported:,} spans in runs, {waiting:,} in the spool: "
        f"{accepted - imported - waiting} lost (at most 0)\n"
        f"memory: receiver {peak['receiver']} MB, importer {peak['importer']} MB (at most {MAX_MEGABYTES})"
    )


def measure_full_spool() -> None:
    with receiving(program=SMALL_SPOOL) as receiver:
        statuses, _, _ = load(receiver, 20_000, 5)
        again = post(receiver.connect(), template()[0])
        imported, waiting = receiver.end()
    accepted = (statuses[200] + (again.status == 200)) * SPANS
    print(
        f"a spool of 4 MB: {dict(statuses)}, Retry-After {again.headers.get('Retry-After')}; "
        f"{accepted - imported - waiting} of {accepted:,} accepted spans lost (at most 0)"
    )


def measure_refusals() -> None:
    body, _ = template()
    cases: dict[str, tuple[bytes, dict[str, str], int]] = {
        "no Protobuf": (b"\xff" * 100, {}, 400),
        "truncated": (body[:-7], {}, 400),
        "no JSON": (b"{", {"Content-Type": "application/json"}, 400),
        "nested JSON": (b"[" * 100_000, {"Content-Type": "application/json"}, 400),
        "no gzip": (body, {"Content-Encoding": "gzip"}, 400),
        "truncated gzip": (gzip.compress(body)[:-20], {"Content-Encoding": "gzip"}, 400),
        "too large": (bytes(MAX_BODY_BYTES + 1), {}, 413),
        "too large unpacked": (gzip.compress(bytes(1 << 30), 1), {"Content-Encoding": "gzip"}, 413),
        "other type": (body, {"Content-Type": "text/plain"}, 415),
        "other encoding": (body, {"Content-Encoding": "br"}, 415),
        "web page": (body, {"Origin": "http://example.com"}, 403),
        "other host": (body, {"Host": "example.com"}, 403),
    }
    with receiving() as receiver:
        receiver.sample()
        wrong = []
        for name, (data, headers, expected) in cases.items():
            status = post(receiver.connect(), data, **headers).status
            receiver.sample()
            if status != expected:
                wrong.append(f"{name}: {status}")
        is_well = post(receiver.connect(), body).status == 200
        imported, waiting = receiver.end()
    lost = SPANS - imported - waiting if is_well else SPANS
    print(
        f"{len(cases)} malformed or oversized requests: {len(wrong)} with another status (at most 0) {wrong or ''}; "
        f"memory of the receiver {receiver.peak['receiver'] >> 20} MB (at most {MAX_MEGABYTES}); "
        f"{lost} spans of the valid request after them lost (at most 0)"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=int, default=10_000)
    options = parser.parse_args()
    measure_refusals()
    measure_full_spool()
    measure_load(options.rate, options.seconds)


if __name__ == "__main__":
    main()
