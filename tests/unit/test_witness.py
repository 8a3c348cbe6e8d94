"""Which processes the monitor takes for recorders, and what it counts of their reports."""

from __future__ import annotations

import socket

import pytest

from critiqor.recording.witness import MAX_GAP, Peer, Witness, WitnessedRecorder, _Connection, _is_embedded_loop
from critiqor.storage.audit.statement import RecorderStatement
from critiqor.storage.audit.witness_socket import ASK, ask_statement


@pytest.mark.parametrize(
    ("arguments", "is_loop"),
    [
        (["python", "/home/ada/.venv/bin/critiqor-agentloop", "chat"], True),
        (["python", "/home/ada/.venv/bin/critiqor", "agent"], True),
        (["python3", "-m", "critiqor.agentloop"], True),
        (["python3", "-u", "-m", "critiqor.agentloop"], True),
        (["python3", "-c", "import socket"], False),
        (["python3", "/tmp/forged.py"], False),
        (["python3", "-m", "http.server"], False),
        (["python3"], False),
    ],
)
def test_the_embedded_loop_is_known_by_its_command_line(arguments: list[str], is_loop: bool) -> None:
    assert _is_embedded_loop("python3.11", arguments) is is_loop


def test_reports_that_did_not_arrive_are_unknown_records_and_not_forged() -> None:
    recorder = WitnessedRecorder("abc", Peer())
    recorder.add(1, b"12345678")
    recorder.add(4, b"12345678")
    statement = recorder.statement()
    assert (statement.produced, statement.irregular, statement.digests) == (4, 0, b"12345678" + bytes(16) + b"12345678")


def test_reports_that_no_recorder_makes_are_counted_and_use_no_memory() -> None:
    recorder = WitnessedRecorder("abc", Peer())
    recorder.add(1, b"12345678")
    for sequence in (1, 0, MAX_GAP + 3, 10**12):
        recorder.add(sequence, b"12345678")
    assert (recorder.statement().irregular, recorder.produced) == (4, 1)


def test_who_asks_and_does_not_read_holds_nobody_up() -> None:
    witness = Witness(lambda pid: True)
    try:
        for number in range(3000):  # a statement that is larger than what the system keeps for a reader
            witness.recorder(f"recorder{number}")
        idle = [socket.socket(socket.AF_UNIX) for _ in range(5)]
        for asking in idle:
            asking.connect(str(witness.address))
            asking.sendall(ASK)
        stated = ask_statement(str(witness.address))
        assert stated is not None
        assert len(stated.recorders) == 3000
        for asking in idle:
            asking.close()
    finally:
        witness.close()


def test_what_a_process_outside_of_the_tree_reports_uses_no_memory() -> None:
    witness = Witness(lambda pid: False)
    try:
        with socket.socket(socket.AF_UNIX) as forging:
            forging.connect(str(witness.address))
            forging.sendall(b"hello forged\n1 0123456789abcdef\n1000 0123456789abcdef\n" + ASK)
            forging.recv(1)
        [recorder] = witness.statement().recorders
        assert (recorder.is_of_tree, recorder.produced, recorder.irregular) == (False, 0, 2)
    finally:
        witness.close()


GOOD = [b"%d %016x" % (number, number) for number in range(1, 40)]
ODD = [
    b"lost 10",
    b"5 0123456789abcdef",
    b"12 not hexadecimal",
    b"11 01234567 9abcdef",
    b"60 0123456789abcdef",
    b"11 0123456789abcdef00",
    b"end",
    b"nonsense",
    b"",
]


def counted(lines: list[bytes]) -> RecorderStatement:
    """Return what a witness counts of the reports of one recorder that arrive at once."""
    witness = Witness(lambda _: True)
    try:
        with socket.socket() as unused:
            connection = _Connection(unused, Peer(1))
            witness._handle(connection, b"hello abc\n" + b"".join(line + b"\n" for line in lines))
    finally:
        witness.close()
    [recorder] = witness.statement().recorders
    return recorder


@pytest.mark.parametrize("odd", ODD)
def test_reports_are_counted_in_blocks_as_they_are_one_by_one(odd: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [*GOOD[:10], odd, *GOOD[10:]]
    in_blocks = counted(lines)
    monkeypatch.setattr(WitnessedRecorder, "add_in_order", lambda *_: 0)
    assert in_blocks == counted(lines)
    assert in_blocks.produced >= len(GOOD)
