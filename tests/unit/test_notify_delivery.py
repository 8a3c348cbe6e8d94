"""Delivery of alerts to real receivers on loopback that are down, slow or broken."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from alerting import (
    SECONDS,
    SECRET,
    alert,
    alert_keys_received,
    closed_address,
    keys_received,
    notifier,
    one_attempt,
    outbox_files,
    statuses,
    webhook,
)
from collectors import answering, collector
from standardwebhooks import Webhook
from support import wait_until


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
            return not outbox_files(tmp_path, "waiting")

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
