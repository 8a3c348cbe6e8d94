"""The witness of a recording: counts in the monitor's memory what each recorder reports, before it is on the disk.

Recorders report over a Unix socket in a folder of the monitor's own. The agent runs as the same user and could connect
as well, so the process at the other end is identified by the system: its pid, its start time and its program are in the
statement. Nobody waits for the witness, and a recorder without one works as before.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shutil
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil

from critiqor.storage.audit.statement import DIGEST_BYTES, RecorderStatement, Statement
from critiqor.storage.audit.witness_socket import ASK

MAX_LINE = 4_096
MAX_RECORDERS = 20_000
"""Maximum number of recorders of a run; the records of further ones are not confirmed."""
MAX_DRAINED = 1 << 26
"""Maximum number of bytes of all connections that are read at the end."""
MAX_ANSWERS = 8
"""Maximum number of answers that are sent at the same time; who asks while there are as many gets none."""
ANSWER_SECONDS = 5.0
MAX_GAP = 1_000_000
"""Maximum number of reports in a row that can be missing; a larger gap is an attempt to use up memory."""
PAUSE_SECONDS = 0.001
"""Between two readings; the system keeps some hundred reports meanwhile, and a recorder the others."""
_READ_BYTES = 1 << 16
_DIGITS = 2 * DIGEST_BYTES
_HEXADECIMAL = re.compile(rb"[0-9a-f]*")
_PEER = struct.Struct("3i")
"""What Linux says about the process at the other end of a socket: pid, user, group."""
_PROGRAMS = ("node", "bun", "deno", "openclaw")
"""Programs in which the recorder plugin runs. The embedded agent loop is a Python program of Critiqor."""


class WitnessedRecorder:
    """The reports of one recorder."""

    def __init__(self, writer: str, peer: Peer) -> None:
        self._writer = writer
        self._peer = peer
        self._digests = bytearray()
        self._lost = 0
        self._irregular = 0
        self._has_ended = False
        self._found_seal = False
        self._gaps = 0
        """Number of reports that did not arrive."""

    @property
    def produced(self) -> int:
        """How many records it has produced so far."""
        return len(self._digests) // DIGEST_BYTES

    @property
    def is_of_tree(self) -> bool:
        """Whether it runs in a process of the launched OpenClaw."""
        return self._peer.is_of_tree and self._peer.pid != os.getpid()

    def add(self, sequence: int, digest: bytes) -> None:
        """Note that a record is about to be written; a recorder numbers its records without gaps."""
        missing = sequence - 1 - self.produced
        if missing < 0 or self._gaps + missing > MAX_GAP or len(digest) != DIGEST_BYTES:
            self._irregular += 1
            return
        # Reports can be lost if the witness was stopped for long: nothing is known about these records.
        self._gaps += missing
        self._digests.extend(bytes(DIGEST_BYTES * missing))
        self._digests.extend(digest)

    def add_in_order(self, lines: list[bytes], position: int) -> int:
        """Note the reports of records from a position on that follow each other without a gap. Return how many.

        Nearly all reports are such ones. Reading them one by one would take the time that the agent has to record.
        """
        first = self.produced + 1
        count = 0
        while position + count < len(lines):
            line, start = lines[position + count], b"%d " % (first + count)
            if len(line) != len(start) + _DIGITS or not line.startswith(start):
                break
            count += 1
        joined = b"".join([line[-_DIGITS:] for line in lines[position : position + count]])
        count = _HEXADECIMAL.match(joined).end() // _DIGITS  # type: ignore[union-attr]
        self._digests.extend(bytes.fromhex(joined[: count * _DIGITS].decode("ascii")))
        return count

    def lose(self, sequence: int) -> None:
        """Note that a record was not written; one that was not announced before counts as produced."""
        if sequence == self.produced + 1:
            self._digests.extend(bytes(DIGEST_BYTES))
        elif sequence != self.produced:
            self._irregular += 1
            return
        self._digests[-DIGEST_BYTES:] = bytes(DIGEST_BYTES)
        self._lost += 1

    def stop_at_seal(self) -> None:
        """Note that it found the run sealed."""
        self._found_seal = True

    def end(self) -> None:
        """Note that it ended properly."""
        self._has_ended = True

    def note_irregular(self) -> None:
        """Count a report that a recorder does not make."""
        self._irregular += 1

    def statement(self) -> RecorderStatement:
        """Return what is known about it so far."""
        return RecorderStatement(
            writer=self._writer,
            pid=self._peer.pid,
            started_at=self._peer.started_at,
            program=self._peer.program,
            is_of_tree=self._peer.is_of_tree,
            produced=self.produced,
            lost=self._lost,
            has_ended=self._has_ended,
            found_seal=self._found_seal,
            irregular=self._irregular,
            digests=bytes(self._digests),
        )


class Peer(msgspec.Struct, frozen=True):
    """The process at the other end of a connection."""

    pid: int | None = None
    started_at: float | None = None
    program: str | None = None
    is_of_tree: bool = True


class Witness:
    """Listens to the recorders of one run, in a thread of its own, until it is closed."""

    def __init__(self, is_of_tree: Callable[[int], bool], since: int | None = None) -> None:
        """`since` is for a guard, which begins while the run is recorded: when it began, in milliseconds since 1970."""
        self._is_of_tree = is_of_tree
        self._since = since
        self._folder = Path(tempfile.mkdtemp(prefix="critiqor-"))
        self.address = self._folder / "witness"
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(self.address))
        self._place = _place_of(self.address)
        self._server.listen(64)
        self._server.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)
        self._waker, self._wake = socket.socketpair()
        self._selector.register(self._waker, selectors.EVENT_READ)
        self._connections: dict[socket.socket, _Connection] = {}
        self._recorders: dict[str, WitnessedRecorder] = {}
        self._lifecycle: dict[str, str] = {}
        self._has_too_many = False
        self._answers = threading.BoundedSemaphore(MAX_ANSWERS)
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._listen, daemon=True, name="critiqor-witness")
        self._thread.start()

    def recorder(self, writer: str) -> WitnessedRecorder:
        """Return a recorder of the monitor's own, which reports without a connection."""
        with self._lock:
            return self._recorders.setdefault(writer, WitnessedRecorder(writer, Peer(os.getpid())))

    def add_lifecycle_event(self, event_id: str, digest: str) -> None:
        """Note a lifecycle event that the monitor wrote into the run record."""
        with self._lock:
            self._lifecycle[event_id] = digest

    def statement(self, altered: list[str] | None = None, *, is_open: bool = False) -> Statement:
        """Return what is known so far; `is_open` is whether recorders go on without it."""
        with self._lock:
            recorders = [recorder.statement() for recorder in self._recorders.values()]
            return Statement(
                recorders=recorders,
                lifecycle=dict(self._lifecycle),
                altered=altered or [],
                # Recorders that do not report to a guard are no forgeries: the copy of the plugin may be an older one.
                is_open=is_open or self._has_too_many or self._since is not None,
                since=self._since,
            )

    def reported(self) -> int:
        """Return how many records the recorders in the launched OpenClaw have produced, written or not."""
        with self._lock:
            return sum(recorder.produced for recorder in self._recorders.values() if recorder.is_of_tree)

    def is_reachable(self) -> bool:
        """Return whether recorders could connect all the time: the agent can move or replace the socket."""
        return self._place is not None and _place_of(self.address) == self._place

    def close(self) -> None:
        """Read what was sent so far, and stop; nothing happens if it was closed before."""
        if self._is_closed:
            return
        self._is_closed = True
        self._wake.send(b"x")
        self._thread.join()
        left = MAX_DRAINED
        for connection in [*self._connections.values()]:
            left -= self._drain(connection, left)
        for each in (*self._connections, self._server, self._waker, self._wake):
            each.close()
        self._selector.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _listen(self) -> None:
        while not self._is_closed:
            for key, _ in self._selector.select():
                if key.fileobj is self._server:
                    self._accept()
                elif key.fileobj is not self._waker:
                    self._read(self._connections[key.fileobj])  # type: ignore[index]
            # Reports that come in the meantime wake nobody up, which would cost the recorder more than to send them.
            time.sleep(PAUSE_SECONDS)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            accepted, _ = self._server.accept()
            accepted.setblocking(False)
            self._connections[accepted] = _Connection(accepted, self._peer_of(accepted))
            self._selector.register(accepted, selectors.EVENT_READ)

    def _peer_of(self, accepted: socket.socket) -> Peer:
        if not hasattr(socket, "SO_PEERCRED"):
            return Peer()
        pid, user, _ = _PEER.unpack(accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
        try:
            process = psutil.Process(pid)
            program = Path(process.exe()).name
            is_recorder = program.startswith(_PROGRAMS) or _is_embedded_loop(program, process.cmdline())
            is_known = user == os.getuid() and is_recorder and self._is_of_tree(pid)
            if not is_known and not process.is_running():
                raise psutil.NoSuchProcess(pid)
            return Peer(pid, process.create_time(), program, is_known)
        except psutil.NoSuchProcess:
            # It has ended by now, as a command of OpenClaw does at once: what it was is not known, which is no forgery.
            return Peer(pid, None, None, user == os.getuid())
        except (psutil.Error, OSError):
            return Peer(pid, None, None, False)

    def _read(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(_READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(connection.socket)
            del self._connections[connection.socket]
            connection.socket.close()
            return
        self._handle(connection, data)

    def _drain(self, connection: _Connection, limit: int) -> int:
        """Read what was sent, until there are `limit` bytes. Return how many there were."""
        size = 0
        with contextlib.suppress(OSError):
            while size < limit and (data := connection.socket.recv(_READ_BYTES)):
                size += len(data)
                self._handle(connection, data)
        return size

    def _handle(self, connection: _Connection, data: bytes) -> None:
        lines = (connection.rest + data).split(b"\n")
        connection.rest = lines.pop()[:MAX_LINE]
        position = 0
        while position < len(lines):
            with self._lock:
                if connection.recorder is not None and connection.peer.is_of_tree:
                    position += connection.recorder.add_in_order(lines, position)
                if position == len(lines):
                    break
                line = lines[position]
                position += 1
                if line + b"\n" != ASK:
                    self._report(connection, line.split(b" "))
                    continue
            self._answer(connection)

    def _answer(self, connection: _Connection) -> None:
        # A peer that asks and does not read must not hold up the others.
        if connection.has_asked or not self._answers.acquire(blocking=False):
            return
        connection.has_asked = True
        answer = (connection.socket.dup(), msgspec.json.encode(self.statement()) + b"\n")
        threading.Thread(target=self._send_answer, args=answer, daemon=True, name="critiqor-statement").start()

    def _send_answer(self, connected: socket.socket, data: bytes) -> None:
        try:
            with connected, contextlib.suppress(OSError):
                connected.settimeout(ANSWER_SECONDS)
                connected.sendall(data)
        finally:
            self._answers.release()

    def _report(self, connection: _Connection, words: list[bytes]) -> None:
        recorder = connection.recorder
        if words[0] == b"hello" and len(words) == 2:
            self._add_recorder(connection, words[1][:40].decode("ascii", "replace"))
            return
        if recorder is None:
            return
        if not connection.peer.is_of_tree:
            recorder.note_irregular()  # nothing is kept of it: it could use up the memory
            return
        try:
            if words[0].isdigit():
                recorder.add(int(words[0][:12]), bytes.fromhex(words[1].decode("ascii")))
            elif words[0] == b"lost":
                recorder.lose(int(words[1][:12]))
            elif words[0] == b"sealed":
                recorder.stop_at_seal()
            elif words[0] == b"end":
                recorder.end()
            else:
                recorder.note_irregular()
        except (ValueError, IndexError):
            recorder.note_irregular()

    def _add_recorder(self, connection: _Connection, writer: str) -> None:
        known = self._recorders.get(writer)
        if known is not None or connection.recorder is not None:
            (known or connection.recorder).note_irregular()  # type: ignore[union-attr]
        elif len(self._recorders) < MAX_RECORDERS:
            connection.recorder = self._recorders[writer] = WitnessedRecorder(writer, connection.peer)
        else:
            self._has_too_many = True


def _place_of(path: Path) -> tuple[int, int] | None:
    """Return what changes when a file is moved or replaced, and cannot be set; None if it is gone."""
    with contextlib.suppress(OSError):
        status = path.lstat()
        return status.st_ino, status.st_ctime_ns
    return None


def _is_embedded_loop(program: str, arguments: list[str]) -> bool:
    """Return whether a Python process runs a module or a script of Critiqor."""
    if not program.startswith("python"):
        return False
    given = [each for each in arguments[1:] if each == "-m" or not each.startswith("-")]
    if given[:1] == ["-m"]:
        return len(given) > 1 and given[1].partition(".")[0] == "critiqor"
    script = Path(given[0]) if given else Path()
    return script.name in ("critiqor", "critiqor-agentloop") or "critiqor" in script.parent.parts


class _Connection:
    def __init__(self, connected: socket.socket, peer: Peer) -> None:
        self.socket = connected
        self.peer = peer
        self.recorder: WitnessedRecorder | None = None
        self.rest = b""
        self.has_asked = False
