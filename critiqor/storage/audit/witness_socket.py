"""The socket of a monitor: recorders report on it what they write, and finalize asks it for the statement so far."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from critiqor.model.event import EventType
from critiqor.storage.audit.statement import MAX_BYTES, Statement

ASK = b"statement\n"
"""The request for the statement so far."""
TIMEOUT_SECONDS = 10.0
CONNECT_SECONDS = 1.0
END_SECONDS = 0.2
MAX_SENT = 1 << 16
"""Bytes that are sent at once."""
MAX_WAITING = 4 << 20
"""Bytes that may wait for a monitor that does not read; later reports are dropped, which the monitor notices."""
_NAMING_A_WITNESS = (EventType.PROCESS_START, EventType.GUARD_STARTED, EventType.SEGMENT_STARTED)


class WitnessConnection:
    """Reports the records of one writer to a monitor. Its methods never raise and never wait."""

    def __init__(self, address: str, writer: str) -> None:
        self._socket: socket.socket | None = None
        self._waiting = b""
        try:
            connected = socket.socket(socket.AF_UNIX)
            connected.settimeout(CONNECT_SECONDS)
            connected.connect(address)
            connected.setblocking(False)
        except OSError:
            return  # without a monitor, a recorder works as before
        self._socket = connected
        self._send(f"hello {writer}\n")

    def add(self, sequence: int, digest: bytes) -> None:
        """Report that a record is about to be written."""
        self._send(f"{sequence} {digest.hex()}\n")

    def lose(self, sequence: int) -> None:
        """Report that a record was not written."""
        self._send(f"lost {sequence}\n")

    def stop_at_seal(self) -> None:
        """Report that the run was found sealed, so that nothing more is written."""
        self._send("sealed\n")

    def end(self) -> None:
        """Report the proper end, and close the connection. Wait a moment if the monitor is too busy to read."""
        self._send("end\n")
        if self._socket is not None:
            self._socket.settimeout(END_SECONDS)
            with contextlib.suppress(OSError):
                self._socket.sendall(self._waiting)
            self._socket.close()
        self._socket = None

    def _send(self, report: str) -> None:
        if self._socket is None:
            return
        data = self._waiting + report.encode() if len(self._waiting) < MAX_WAITING else self._waiting
        try:
            sent = self._socket.send(data[:MAX_SENT])
        except BlockingIOError:
            sent = 0
        except OSError:
            self._socket = None
            return
        self._waiting = data[sent:]


def witness_address(event: Mapping[str, Any]) -> str | None:
    """Return the address of the socket that the event of a launch, or of a starting guard, names; None for others."""
    has_address = event.get("event_type") in _NAMING_A_WITNESS
    payload = event.get("payload") if has_address else None
    address = payload.get("witness") if isinstance(payload, dict) else None
    return address if isinstance(address, str) else None


def ask_statement(address: str) -> Statement | None:
    """Return what the monitor at this address knows so far; None if it does not answer."""
    data = bytearray()
    until = time.monotonic() + TIMEOUT_SECONDS
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT_SECONDS)
            connection.connect(address)
            connection.sendall(ASK)
            while not data.endswith(b"\n") and len(data) <= MAX_BYTES and time.monotonic() < until:
                received = connection.recv(1 << 16)
                if not received:
                    return None
                data += received
        statement = msgspec.json.decode(data, type=Statement)
        return statement if statement.is_valid else None
    except (OSError, ValueError, RecursionError):
        return None
