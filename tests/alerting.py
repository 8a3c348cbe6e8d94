"""Alerts, channels and receivers for the tests of notifications."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from collectors import Collector

from critiqor.model import Finding, Metadata, RunHead, Severity, Timestamps
from critiqor.notifications.alert import Alert, AlertKind, alert_of
from critiqor.notifications.notifier import Notifier
from critiqor.notifications.outbox import ChannelState
from critiqor.notifications.settings import Channel
from critiqor.session import paths_for

CREATED = "2026-11-17T09:00:00.000Z"
SECRET = "whsec_c2l4dGVlbi1ieXRlcy1rZXkh"
NOON_MS = 1_794_916_800_000


def finding(number: int = 1, **fields: Any) -> Finding:
    """A finding whose texts quote the agent."""
    given: dict[str, Any] = {
        "id": f"finding_{number:03d}",
        "type": "tool_loop",
        "cause": f"tool_loop:exec:{number}",
        "severity": "high",
        "confidence": 90,
        "title": "Said “the quarterly numbers are fine”",
        "explanation": "The agent wrote “the quarterly numbers are fine”.",
        "evidence": [],
        "session_key": "agent:main:main",
        "agent_run_id": "r1",
        "recommendation": "Look at the quarterly numbers.",
        "verification": "Run it again.",
    }
    return Finding(**{**given, **fields})


def head(run_id: str = "run_001", created_at: str = CREATED, agent_id: str = "release-bot") -> RunHead:
    """The head of a run."""
    return RunHead(
        run_id=run_id,
        status="COMPLETED",
        lifecycle=[],
        timestamps=Timestamps(created_at),
        metadata=Metadata(agent_id=agent_id),
    )


def alert(number: int = 1, kind: AlertKind = "new", severity: Severity = "high", **fields: Any) -> Alert:
    """An alert about a finding of run_001; each number is another finding."""
    return alert_of(finding(number, severity=severity, **fields), head(), kind)


def webhook(url: str, name: str = "ops", **fields: Any) -> Channel:
    """A channel that posts to an address."""
    return Channel(**{"name": name, "kind": "webhook", "url": url, "secret": SECRET, **fields})


def notifier(folder: Path, *channels: Channel, clock: Callable[[], int] | None = None) -> Notifier:
    """A notifier whose outbox is in a runs folder."""
    paths = paths_for(folder)
    return Notifier(channels, paths) if clock is None else Notifier(channels, paths, clock=clock)


def one_attempt(sender: Notifier) -> Notifier:
    """Let the next failure be one of many, so that no further attempt is made within a test."""
    for channel in sender.channels:
        sender.outbox.channel(channel.name).save_state(ChannelState(failures=30))
    return sender


class Clock:
    """A clock that a test sets."""

    def __init__(self, now_ms: int = NOON_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms


def keys_received(receiver: Collector) -> list[str]:
    """The idempotency keys of the requests, in order; each is the one in the body."""
    keys = []
    for _, headers, body in list(receiver.requests):
        message = json.loads(body)
        assert headers["idempotency-key"] == headers["webhook-id"] == message["idempotency_key"]
        keys.append(message["idempotency_key"])
    return keys


def alert_keys_received(receiver: Collector) -> set[str]:
    """The idempotency keys of all alerts in the requests, also of those in summaries."""
    return {each["idempotency_key"] for body in receiver.bodies for each in json.loads(body)["alerts"]}
