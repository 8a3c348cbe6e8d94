"""Serve the receiver until it is interrupted: on the loopback address, or on another address with a token."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import uvicorn

from critiqor.dashboard.web.bind_address import BindAddress, listen, resolve_host
from critiqor.dashboard.web.connections import server_configuration
from critiqor.errors import ActiveSessionError, UsageError
from critiqor.receiver.application import Figures, Receiver, application
from critiqor.receiver.importing import ImportTask, TraceResult
from critiqor.receiver.spool import IDLE_SECONDS, Spool, Waiting, spool_error
from critiqor.run.store import RunStore
from critiqor.storage.lock import exclusive, is_held

DEFAULT_PORT = 4318
"""The port of OTLP/HTTP."""
TOKEN_VARIABLE = "CRITIQOR_RECEIVE_TOKEN"
MIN_TOKEN = 16
"""Minimum number of characters of a token."""
_RESTART_SECONDS = 1.0


class ReceiverOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where to listen, and what becomes of traces."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    token: str | None = None
    """What senders must know; None if any program of this machine may send."""
    idle: float = IDLE_SECONDS
    """Seconds without new spans after which a trace without a root is imported."""
    metadata: dict[str, str] = {}


class Listening(NamedTuple):
    """A receiver that is ready for requests."""

    address: str
    port: int
    waiting: Waiting
    """What an earlier receiver has left to import."""


class Received(NamedTuple):
    """What was received until the end."""

    figures: Figures
    waiting: Waiting


def serve(
    store: RunStore,
    options: ReceiverOptions,
    *,
    opened: Callable[[Listening], None],
    imported: Callable[[TraceResult], None],
) -> Received:
    """Receive until the process is interrupted. `opened` is called once it listens, `imported` in a thread."""
    bind = resolve_host(options.host, command="critiqor receive")
    _check_token(bind, options)
    with ExitStack() as held:
        lock = store.paths.receiver_lock_path
        if is_held(lock):
            message = f"another receiver writes into {store.runs_dir}"
            raise ActiveSessionError(message, fix="end it, or name another --runs-dir")
        held.enter_context(exclusive(lock))
        listener = held.enter_context(listen(bind, options.port, command="critiqor receive"))
        held.enter_context(_naming_spool(store.paths.received_path))
        spool = Spool(store.paths.received_path)
        held.callback(spool.close)
        port: int = listener.getsockname()[1]
        hosts = bind.names(port)
        receiver = Receiver(spool, hosts, options.token)
        importer = _Importer(
            ImportTask(runs_dir=str(store.runs_dir), idle=options.idle, metadata=options.metadata), imported
        )
        importer.start()
        held.callback(importer.stop)
        with suppress(KeyboardInterrupt):
            opened(Listening(f"http://{hosts[0]}", port, spool.waiting()))
            uvicorn.Server(server_configuration(application(receiver))).run(sockets=[listener])
        importer.stop()
        return Received(receiver.figures, spool.waiting())


@contextmanager
def _naming_spool(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise spool_error(path, error) from error


def _check_token(bind: BindAddress, options: ReceiverOptions) -> None:
    if options.token is None:
        if not bind.is_loopback:
            message = f"other machines can reach {options.host}, so the receiver needs a token there"
            raise UsageError(message, fix=f"{TOKEN_VARIABLE}=… critiqor receive --host {options.host}")
    elif len(options.token) < MIN_TOKEN or not (options.token.isascii() and options.token.isprintable()):
        message = f"{TOKEN_VARIABLE} must have at least {MIN_TOKEN} printable ASCII characters"
        raise UsageError(message, fix=f"{TOKEN_VARIABLE}=$(openssl rand -hex 16)")


class _Importer:
    """The process that imports traces. It is started again if it fails."""

    def __init__(self, task: ImportTask, imported: Callable[[TraceResult], None]) -> None:
        self._task = msgspec.json.encode(task) + b"\n"
        self._imported = imported
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let the process complete the trace that it imports, and end it."""
        with self._lock:
            self._is_stopped = True
            process = self._process
        if process is not None and process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        self._thread.join()

    def _follow(self) -> None:
        while (process := self._start()) is not None:
            assert process.stdout is not None
            for line in process.stdout:
                with suppress(msgspec.DecodeError):
                    self._imported(msgspec.json.decode(line, type=TraceResult))
            process.wait()
            process.stdout.close()
            if not self._is_stopped:
                time.sleep(_RESTART_SECONDS)

    def _start(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._is_stopped:
                return None
            self._process = process = subprocess.Popen(
                [sys.executable, "-P", "-m", "critiqor.receiver"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.write(self._task)
            process.stdin.flush()
        return process
