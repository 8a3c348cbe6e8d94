"""Alerts: what is reported about a finding, and the messages in which alerts are sent.

An alert names the run, the session, the finding and the command to type. What the agent wrote, which titles and
explanations of findings quote, is in `texts`, and is sent only to channels that ask for it.
"""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Iterable
from typing import Literal

import msgspec

from critiqor.model import Diagnosis, Finding, RunHead, Scope, Severity, iso_from_ms
from critiqor.model.sanitize import sanitize_line

ALERT_SCHEMA = "critiqor.alert.v1"
AlertKind = Literal["new", "updated", "withdrawn"]
MessageKind = Literal["alert", "summary", "test"]
MAX_NAME = 200
"""Characters of a session key or an agent's name in an alert."""
MAX_TITLE = 300
MAX_TEXT = 2000
"""Characters of an explanation or recommendation in an alert."""
LIMIT_EXCEEDED = "limit_exceeded"
"""Type of an alert about a limit of the policy; no failure type, because a limit is no failure of the agent."""
_MEANINGS = {LIMIT_EXCEEDED: "a limit of the policy was exceeded"}
_KEY_LENGTH = 32


class AlertedFinding(msgspec.Struct, frozen=True, kw_only=True):
    """The finding that an alert is about."""

    id: str
    """Its id in the diagnosis at the time of the alert, such as `finding_001`."""
    type: str
    severity: Severity
    meaning: str
    """What this type of failure means in any run."""


class AlertTexts(msgspec.Struct, frozen=True, kw_only=True):
    """Texts of the finding. They may quote what the agent, its tools or its user wrote."""

    title: str
    explanation: str
    recommendation: str


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """One finding that is new, was updated or was withdrawn. Create it with `alert_of`."""

    idempotency_key: str
    """The same whenever this alert is sent: receivers drop what they have already seen."""
    finding_key: str
    """The same for all alerts about this finding: that of the alert with which it was announced."""
    kind: AlertKind
    """`withdrawn` means that later events have shown that the finding no longer holds."""
    run_id: str
    agent_id: str
    """The name under which the agent is recorded."""
    session_key: str | None
    """Null for a failure of the process or the recording."""
    finding: AlertedFinding
    command: str
    """The command to type."""
    texts: AlertTexts | None = None
    """Null unless the channel asks for texts."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent in one request: one alert, or the sum of those beyond the limit per hour."""

    schema_version: str = ALERT_SCHEMA
    idempotency_key: str
    """The same for every attempt to send this message."""
    kind: MessageKind
    created_at: str
    """When the message was written into the outbox; UTC, ISO 8601."""
    host: str
    """Name of the machine that sends it."""
    alerts: list[Alert]
    """One alert; several for a summary; none for a test."""


def alert_of(finding: Finding, head: RunHead, kind: AlertKind = "new", *, command: str | None = None) -> Alert:
    """Return the alert about a finding of the run with this head. The default command explains the finding."""
    # Imported here: sending what is in the outbox needs no detector.
    from critiqor.diagnosis import FAILURE_TYPES

    command = command or f"critiqor explain {head.run_id} {finding.id}"
    return Alert(
        idempotency_key=_alert_key(finding, head, kind),
        finding_key=_alert_key(finding, head, "new"),
        kind=kind,
        run_id=head.run_id,
        agent_id=sanitize_line(head.metadata.agent_id, MAX_NAME),
        session_key=None if finding.session_key is None else sanitize_line(finding.session_key, MAX_NAME),
        finding=AlertedFinding(
            id=finding.id,
            type=finding.type,
            severity=finding.severity,
            meaning={**FAILURE_TYPES, **_MEANINGS}.get(finding.type, "found by an extension"),
        ),
        command=sanitize_line(command),
        texts=AlertTexts(
            title=sanitize_line(finding.title, MAX_TITLE),
            explanation=sanitize_line(finding.explanation, MAX_TEXT),
            recommendation=sanitize_line(finding.recommendation, MAX_TEXT),
        ),
    )


def limit_alert(name: str, text: str, place: Scope, head: RunHead, *, command: str) -> Alert:
    """Return the alert about a limit of the policy that was exceeded while a run is recorded.

    There is one for each limit and agent run. `text` says by how much it was exceeded.
    """
    exceeded = Finding(
        type=LIMIT_EXCEEDED,
        cause=json.dumps((LIMIT_EXCEEDED, name, place.agent_run_id)),
        severity="high",
        confidence=100,
        title=text,
        explanation=text,
        evidence=[],
        session_key=place.session_key,
        agent_run_id=place.agent_run_id,
        recommendation="",
        verification="",
    )
    return alert_of(exceeded, head, command=command)


def alerts_of(diagnosis: Diagnosis, head: RunHead) -> list[Alert]:
    """Return an alert for every finding of a diagnosis, the worst first."""
    return [alert_of(finding, head) for finding in diagnosis.failure_analysis.findings]


def alert_message(alert: Alert, now_ms: int) -> Message:
    """Return one alert as a message, which is not rendered yet."""
    return _message(alert.idempotency_key, "alert", now_ms, [alert])


def summary_message(alerts: list[Alert], now_ms: int) -> Message:
    """Return several alerts as one message, without their texts, of which there would be too many."""
    key = _key("summary", *(alert.idempotency_key for alert in alerts))
    return _message(key, "summary", now_ms, without_texts(alerts))


def trial_message(now_ms: int) -> Message:
    """Return a message that has no alert, with which a user tests a channel."""
    return _message(_key("test", socket.gethostname(), str(now_ms)), "test", now_ms, [])


def _message(key: str, kind: MessageKind, now_ms: int, alerts: list[Alert]) -> Message:
    host = sanitize_line(socket.gethostname(), MAX_NAME)
    return Message(idempotency_key=key, kind=kind, created_at=iso_from_ms(now_ms), host=host, alerts=alerts)


def _alert_key(finding: Finding, head: RunHead, kind: AlertKind) -> str:
    """Return the key of an alert: the same while a run is recorded and after it is sealed, and in no other run.

    The id of a finding is not part of it: findings are numbered again whenever one is added. Every runs folder has a
    run_001, so the time at which the run was created is. A finding can be updated once to each severity.
    """
    updated_to = finding.severity if kind == "updated" else ""
    place = (finding.session_key, finding.is_of_recording)
    return _key("alert", head.run_id, head.timestamps.created_at, finding.cause, json.dumps(place), kind, updated_to)


def _key(*parts: str) -> str:
    # Escaped JSON, so that no two lists of parts are the same text, whatever characters they contain.
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_KEY_LENGTH]


def without_texts(alerts: Iterable[Alert]) -> list[Alert]:
    """Return alerts without the texts that may quote the agent."""
    return [msgspec.structs.replace(alert, texts=None) for alert in alerts]
