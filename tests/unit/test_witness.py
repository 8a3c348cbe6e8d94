"""Which processes the monitor takes for recorders, and what it counts of their reports."""

from __future__ import annotations

import pytest

from critiqor.recording.witness import MAX_GAP, Peer, WitnessedRecorder, _is_embedded_loop


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
