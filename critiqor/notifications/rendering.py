"""Messages as text: a line for terminals and Apprise, and the bodies that Slack and Discord accept.

Names in a message come from recordings, so in chats they stand in code spans, which contain no markup or mentions.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from critiqor.model import SEVERITIES
from critiqor.model.formatting import counted, format_session, list_names
from critiqor.model.sanitize import sanitize_for_terminal
from critiqor.notifications.alert import Alert, Message

MAX_CHAT = 1900
"""Characters of a message in a chat; Discord accepts 2,000."""
MAX_QUOTED = 400
"""Characters of a text that may quote the agent, in a line or in a chat."""
MAX_PLACE = 120
"""Characters of the name of a run, session, agent or machine in a chat."""
_SUPPRESS_EMBEDS = 4


class Line(NamedTuple):
    """The parts of the description of a message."""

    what: str
    """What happened; no part of it comes from a recording."""
    places: list[str]
    """Names of run, session, agent and machine."""
    meaning: str
    texts: list[str]
    """Texts that may quote the agent; empty unless they were asked for."""
    command: str


def describe(message: Message) -> Line:
    """Return the parts from which the text of an alert is rendered."""
    if message.kind == "test":
        what, meaning = "Test of a channel for alerts", "No action is needed."
        return Line(what, [f"host {message.host}"], meaning, [], "critiqor notify test")
    if message.kind == "summary":
        return _describe_summary(message)
    [alert] = message.alerts
    prefix = "" if alert.kind == "new" else f"{alert.kind}: "
    texts = [] if alert.texts is None else [alert.texts.title, alert.texts.explanation]
    meaning = alert.finding.meaning if alert.kind != "withdrawn" else "It no longer holds."
    return Line(
        f"{prefix}{alert.finding.severity} {alert.finding.type}", _places(alert, message), meaning, texts, alert.command
    )


def _describe_summary(message: Message) -> Line:
    counts = Counter(alert.finding.severity for alert in message.alerts)
    worst = ", ".join(f"{counts[severity]} {severity}" for severity in SEVERITIES if counts[severity])
    types = list_names(dict.fromkeys(alert.finding.type for alert in message.alerts))
    runs = list_names(dict.fromkeys(alert.run_id for alert in message.alerts))
    what = f"{counted(len(message.alerts), 'further alert')}: {worst}"
    return Line(what, [runs, f"host {message.host}"], types, [], "critiqor runs")


def _places(alert: Alert, message: Message) -> list[str]:
    session = [] if alert.session_key is None else [f"session {format_session(alert.session_key)}"]
    return [alert.run_id, *session, f"agent {alert.agent_id}", f"host {message.host}"]


def text_line(message: Message) -> str:
    """Render the message of an alert as one line, with the command to type on a second one."""
    line = describe(message)
    texts = "".join(f" {text[:MAX_QUOTED]}" for text in line.texts)
    return sanitize_for_terminal(f"{line.what} ({', '.join(line.places)}): {line.meaning}{texts}\n  → {line.command}")


def slack_body(message: Message) -> dict[str, Any]:
    """Return the body for an incoming webhook of Slack, or of a service that accepts the same."""
    text = _chat_text(message, bold="*")
    # Slack's three control characters; within a code span they would otherwise still begin a link or a mention.
    return {"text": text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")}


def discord_body(message: Message) -> dict[str, Any]:
    """Return the body for a webhook of Discord. Nobody is mentioned, and no link is previewed."""
    text = _chat_text(message, bold="**")
    return {"content": text, "allowed_mentions": {"parse": []}, "flags": _SUPPRESS_EMBEDS}


def _chat_text(message: Message, *, bold: str) -> str:
    line = describe(message)
    places = ", ".join(_code(place, MAX_PLACE) for place in line.places)
    text = f"{bold}{line.what}{bold} ({places}): {line.meaning}"
    command = f"\n→ {_code(line.command, len(line.command))}"
    for quoted in (f"\n{_code(each, MAX_QUOTED)}" for each in line.texts):
        if len(text + quoted + command) <= MAX_CHAT:
            text += quoted
    return text + command


def _code(text: str, length: int) -> str:
    # A backtick would end the span.
    return f"`{text[:length].replace('`', chr(39)) or ' '}`"
