"""When alerts are sent: back-off, limit per hour with summaries, quiet hours, and clocks that jump."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from alerting import (
    NOON_MS,
    SECONDS,
    Clock,
    alert,
    alert_keys_received,
    keys_received,
    notifier,
    one_attempt,
    outbox_files,
    statuses,
    webhook,
)
from collectors import collector

from critiqor.notifications.delivery import FIRST_DELAY_MS, MAX_DELAY_MS, back_off_ms

HOUR_MS = 3_600_000


@pytest.mark.parametrize("asked", ["600", "600.5", "a date"])
def test_a_receiver_is_given_the_time_that_it_asks_for(tmp_path: Path, asked: str) -> None:
    clock = Clock()
    header = format_datetime(datetime.now(UTC) + timedelta(seconds=600), usegmt=True) if asked == "a date" else asked
    with collector(statuses(429, **{"Retry-After": header})) as receiver:
        sender = notifier(tmp_path, webhook(receiver.url), clock=clock)
        sender.announce([alert()])
        sender.deliver(SECONDS)
        clock.now_ms += 570_000
        [report] = sender.deliver(SECONDS)
        assert (report.sent, len(receiver.requests)) == (0, 1)
        clock.now_ms += 31_000
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
        [path] = [each for each in outbox_files(tmp_path, "waiting") if each.name.startswith("summary-")]
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
    assert outbox_files(tmp_path, "waiting") == outbox_files(tmp_path, "refused") == []


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
