"""The receiver refuses what is too much with `Retry-After`, and keeps serving afterwards."""

from __future__ import annotations

import http.client
import socket
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from exporting_tools import openinference, post, request_of
from support import PATIENCE_SECONDS, wait_until

from critiqor.receiver import application
from critiqor.receiver.application import Receiver
from critiqor.receiver.requests import Piece
from critiqor.receiver.spool import Spool

BODY = request_of(*openinference("a")).SerializeToString()


class Served:
    """A receiver in a thread."""

    def __init__(self, path: Path, max_bytes: int) -> None:
        self.spool = Spool(path)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.receiver = Receiver(self.spool, [f"127.0.0.1:{self.port}"], None, max_bytes)
        options = uvicorn.Config(application.application(self.receiver), log_level="critical", lifespan="off")
        self.server = uvicorn.Server(options)


@contextmanager
def serving(path: Path, max_bytes: int = 1 << 30) -> Iterator[Served]:
    served = Served(path, max_bytes)
    thread = threading.Thread(target=served.server.run, kwargs={"sockets": [served.listener]})
    thread.start()
    try:
        yield served
    finally:
        served.server.should_exit = True
        thread.join()
        served.listener.close()
        served.spool.close()


def test_a_full_spool_refuses_until_there_is_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "_COUNT_SECONDS", 0.0)
    with serving(tmp_path / "s", max_bytes=2 * len(BODY) + 100) as served:
        assert post(served.port, BODY).status == 200
        refused = post(served.port, BODY + BODY)
        assert (refused.status, refused.headers["retry-after"]) == (503, "30")
        assert b"wait to be imported" in refused.body
        [trace] = served.spool.due(now=9e12)
        served.spool.end(trace, served.spool.begin(trace), 4)
        assert post(served.port, BODY).status == 200
        assert served.receiver.figures.refused == 1


def test_too_many_bytes_at_once_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "MAX_BYTES_IN_PROGRESS", len(BODY) + 100)
    with serving(tmp_path / "s") as served:
        slow = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_SECONDS)
        slow.putrequest("POST", "/v1/traces")
        slow.putheader("Content-Type", "application/x-protobuf")
        slow.putheader("Content-Length", str(len(BODY)))
        slow.endheaders(BODY[:10])
        wait_until(lambda: served.receiver._in_progress > 0)
        refused = post(served.port, BODY)
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        slow.send(BODY[10:])
        assert slow.getresponse().status == 200
        slow.close()
        assert post(served.port, BODY).status == 200
        wait_until(lambda: served.receiver._in_progress == 0)


def test_a_request_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "BODY_SECONDS", 0.1)
    with serving(tmp_path / "s") as served:
        slow = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_SECONDS)
        slow.putrequest("POST", "/v1/traces")
        slow.putheader("Content-Type", "application/x-protobuf")
        slow.putheader("Content-Length", str(len(BODY)))
        slow.endheaders(BODY[:10])
        assert slow.getresponse().status == 408
        slow.close()
        assert served.receiver._in_progress == 0


def test_a_disk_that_is_full_is_a_refusal_and_not_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Spool, pieces: Iterable[Piece]) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with serving(tmp_path / "s") as served:
        monkeypatch.setattr(Spool, "add", full)
        refused = post(served.port, BODY)
        assert (refused.status, refused.headers["retry-after"]) == (503, "30")
        monkeypatch.undo()
        assert post(served.port, BODY).status == 200
