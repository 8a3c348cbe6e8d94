"""Ask a running monitor for its statement, over the socket on which recorders report to it."""

from __future__ import annotations

import socket

import msgspec

from critiqor.storage.audit.statement import MAX_BYTES, Statement

ASK = b"statement\n"
"""The request for the statement so far."""
TIMEOUT_SECONDS = 10.0


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
