"""Channels: the outboxes that deliver messages to standard output, a file or a webhook, as configured.

A message to a channel that is not configured is not delivered, and the error names the key that is missing.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TextIO
from uuid import uuid4

import msgspec

from critiqor.agentloop.models.provider_secrets import substitute_variables
from critiqor.agentloop.settings import ChannelSettings, FileChannel, StdoutChannel, WebhookChannel
from critiqor.agentloop.tools.messaging import Delivery, Outbox, OutgoingMessage
from critiqor.model import iso_from_ms, now_ms
from critiqor.model.sanitize import Replacement, replace_lone_surrogates, sanitize
from critiqor.openclaw.paths import expand_path
from critiqor.storage.paths import FOLDER_MODE

if TYPE_CHECKING:
    import httpx2

WEBHOOK_SECONDS = 10.0
"""How long a webhook may take to accept a message."""
_MAX_KEPT = 1_000
_MAX_ANSWER_CHARS = 200


class MemoryOutbox:
    """Keeps the latest messages in memory instead of delivering them, for tests."""

    def __init__(self) -> None:
        self.sent: deque[OutgoingMessage] = deque(maxlen=_MAX_KEPT)
        self._count = 0

    async def send(self, message: OutgoingMessage) -> Delivery:
        """Keep the message in memory and report it as delivered."""
        self._count += 1
        self.sent.append(message)
        return Delivery(message_id=f"msg_{self._count}")


class StdoutOutbox:
    """Prints messages to standard output."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    async def send(self, message: OutgoingMessage) -> Delivery:
        """Print the message, after the name of its recipient if it has one."""
        stream = self._stream or sys.stdout
        text = f"to {message.target}: {message.text}" if message.target else message.text
        print(sanitize(text, multiline=True, replacement=Replacement.MARK), file=stream, flush=True)
        return Delivery(message_id=str(uuid4()))


class FileOutbox:
    """Appends messages to a file, as JSON Lines."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def send(self, message: OutgoingMessage) -> Delivery:
        """Append the message as one line, which is one write: several processes may use the same file."""
        message_id = str(uuid4())
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
        line = msgspec.json.encode(_document(message, message_id)) + b"\n"
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            is_written = os.write(handle, line) == len(line)
        finally:
            os.close(handle)
        return Delivery(message_id=message_id) if is_written else Delivery(error="the disk is full")


class WebhookOutbox:
    """Sends messages as POST requests to a URL. Any status from 200 to 299 means that the message was accepted."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._url = url
        self._headers = dict(headers)
        self._client: httpx2.AsyncClient | None = None

    async def send(self, message: OutgoingMessage) -> Delivery:
        """Send the message. An error does not contain the URL, which may be a secret."""
        import httpx2

        if self._client is None:
            self._client = httpx2.AsyncClient(timeout=WEBHOOK_SECONDS, headers=self._headers)
        message_id = str(uuid4())
        try:
            answer = await self._client.post(self._url, json=_document(message, message_id))
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            return Delivery(error=f"the webhook could not be reached: {type(error).__name__}")
        if not answer.is_success:
            text = " ".join(answer.text.split())[:_MAX_ANSWER_CHARS]
            return Delivery(
                error=f"the webhook answered with HTTP {answer.status_code}" + (f": {text}" if text else "")
            )
        return Delivery(message_id=message_id)

    async def close(self) -> None:
        """Close the connections of a channel to its webhook."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None


class Channels:
    """The outboxes of the configured channels, by name."""

    def __init__(self, settings: Mapping[str, ChannelSettings], home: Path, environment: Mapping[str, str]) -> None:
        self.outboxes = {name: _open_outbox(channel, home, environment) for name, channel in settings.items()}

    async def send(self, message: OutgoingMessage) -> Delivery:
        """Send a message through its channel; without a channel, through the only one that is configured."""
        name = message.channel
        if name is None and len(self.outboxes) == 1:
            [name] = self.outboxes
        outbox = self.outboxes.get(name or "")
        if outbox is None:
            return Delivery(error=self._missing(name))
        delivery = await outbox.send(msgspec.structs.replace(message, channel=name))
        if delivery.error is None:
            return delivery
        return msgspec.structs.replace(delivery, error=f"channel {name!r}: {delivery.error}")

    async def close(self) -> None:
        """Close the connections of all webhooks."""
        for outbox in self.outboxes.values():
            if isinstance(outbox, WebhookOutbox):
                await outbox.close()

    def _missing(self, name: str | None) -> str:
        known = ", ".join(self.outboxes) or "none"
        if name is None:
            return f"the message names no channel, and there is no single one to use; configured channels: {known}"
        return (
            f"channel {name!r} is not configured, so nothing was sent; configured channels: {known}. "
            f"Set channels.{name}.outbox to stdout, file or webhook in the configuration"
        )


def _open_outbox(settings: ChannelSettings, home: Path, environment: Mapping[str, str]) -> Outbox:
    """Return the outbox that a channel is configured with."""
    if isinstance(settings, StdoutChannel):
        return StdoutOutbox()
    if isinstance(settings, FileChannel):
        return FileOutbox(expand_path(settings.path, home))
    if isinstance(settings, WebhookChannel):
        headers = {name: substitute_variables(value, environment) for name, value in settings.headers.items()}
        return WebhookOutbox(substitute_variables(settings.url, environment), headers)
    return MemoryOutbox()


def _document(message: OutgoingMessage, message_id: str) -> dict[str, str | None]:
    """Return a message as it is written to a file or sent to a webhook."""
    text = replace_lone_surrogates(message.text)
    return {"messageId": message_id, "sentAt": iso_from_ms(now_ms()), **msgspec.to_builtins(message), "text": text}
