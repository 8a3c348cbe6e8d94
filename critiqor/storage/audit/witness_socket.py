"""The socket of a monitor: recorders report on it what they write, and finalize asks it for the statement so far."""

from __future__ import annotations

import socket

import msgspec

from critiqor.storage.audit.statement import MAX_BYTES, Statement

ASK = b"statement\n"
"""The request for the statement so far."""
TIMEOUT_SECONDS = 10.0
CONNECT_SECONDS = 1.0
MAX_WAITING = 4 << 20
"""Bytes that may wait for a monitor that does not read; later reports are dropped, which the monitor notices."""


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
        """Report the proper end, and close the connection."""
        self._send("end\n")
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def _send(self, report: str) -> None:
        if self._socket is None:
            return
        data = self._waiting + report.encode() if len(self._waiting) < MAX_WAITING else self._waiting
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._socket = None
            return
        self._waiting = data[sent:]


def ask_statement(address: str) -> Statement | None:
    """Return what the monitor at this address knows so far; None if it does not answer."""
    data = bytearray()
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(TIMEOUT_SECONDS)
            connection.connect(address)
            connection.sendall(ASK)
            while not data.endswith(b"\n") and len(data) <= MAX_BYTES:
                received = connection.recv(1 << 16)
                if not received:
                    return None
                data += received
        return msgspec.json.decode(data, type=Statement)
    except (OSError, ValueError, RecursionError):
        return None
