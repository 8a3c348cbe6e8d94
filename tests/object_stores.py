"""Shared by tests of the fleet: small sealed runs, and an S3 endpoint in a process of its own that can fail at random.

`python tests/object_stores.py PORT RATE` forwards requests to the S3 endpoint at that port of this machine, and lets
this share of them fail: half are answered with an error, the others lose their connection, before or after the request
was carried out.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from support import PATIENCE_SECONDS, Fields, Runs, attached, recorded

from critiqor.run.store import Run, RunStore
from critiqor.session import complete_session

BUCKET = "fleet"


def seal_small_run(runs: Runs, text: str = "Done: all tests pass.", **metadata: str) -> Run:
    """Record and seal a run with a few events."""
    run_id = runs.start(**metadata)
    call: Fields = {"tool_name": "exec", "tool_call_id": "c1"}
    runs.write(
        run_id,
        attached(),
        recorded(2, "agent_start"),
        recorded(3, "input", payload={"role": "user", "text": "run the tests"}),
        recorded(4, "tool_call", payload={"arguments": {"command": "pytest"}}, **call),
        recorded(5, "tool_result", payload={"result": {"content": "5 passed", "details": {"exitCode": 0}}}, **call),
        recorded(6, "message_end", payload={"role": "assistant", "text": text}),
        recorded(7, "agent_end"),
    )
    complete_session(run_id, runs.folder)
    return RunStore(runs.folder).run(run_id)


def environment_of(port: int) -> dict[str, str]:
    """Return the variables with which a process reaches an S3 endpoint of this machine."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "made-up",
        "AWS_SECRET_ACCESS_KEY": "made-up",
        "AWS_REGION": "us-east-1",
    }


@contextlib.contextmanager
def s3_server() -> Iterator[int]:
    """Start an S3 endpoint with an empty bucket. Yield its port."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with _process(command, port):
        request = urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
        urllib.request.urlopen(request).read()
        yield port


@contextlib.contextmanager
def failing_proxy(port: int, rate: float) -> Iterator[int]:
    """Start a proxy in front of an S3 endpoint that lets a share of the requests fail. Yield its port."""
    own = free_port()
    with _process([sys.executable, __file__, str(port), str(rate), str(own)], own):
        yield own


@contextlib.contextmanager
def _process(command: list[str], port: int) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + PATIENCE_SECONDS * 2
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert process.poll() is None, command
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    """Return a port of this machine that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class _Forwarder(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    target: int
    rate: float
    chance = random.Random(7)

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.chance.random() < self.rate:
            kind = self.chance.choice(["error", "error", "lost request", "lost answer"])
            if kind == "error":
                self._answer(self.chance.choice([500, 503]), {}, b"<Error><Code>InternalError</Code></Error>")
                return
            if kind == "lost answer":
                self._request(body)
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self._answer(*self._request(body))

    def _request(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=PATIENCE_SECONDS)
        connection.request(self.command, self.path, body, dict(self.headers.items()))
        found = connection.getresponse()
        data = found.read()
        headers = {name: value for name, value in found.getheaders() if name.lower() not in _HOP}
        if self.command == "HEAD":
            headers["Content-Length"] = found.headers.get("Content-Length", "0")
        connection.close()
        return found.status, headers, data

    def _answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "Content-Length" not in headers:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward  # noqa: N815

    def log_message(self, format: str, *values: object) -> None:
        """Print nothing."""


_HOP = frozenset({"content-length", "connection", "transfer-encoding"})


def count_objects(store: Path) -> int:
    """Return how many files a store in a folder has."""
    return sum(len(files) for _, _, files in os.walk(store))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing: connections break on purpose."""


if __name__ == "__main__":
    _Forwarder.target, _Forwarder.rate = int(sys.argv[1]), float(sys.argv[2])
    _Server(("127.0.0.1", int(sys.argv[3])), _Forwarder).serve_forever()
