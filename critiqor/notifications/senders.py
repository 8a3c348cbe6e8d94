"""Send one message to a channel of any kind. A failure is described without the address and the key.

A request goes to the configured address: redirects are not followed, and of the answer only the status is read.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import hmac
import logging
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from critiqor.model.timestamps import retry_after_seconds
from critiqor.notifications.alert import Message
from critiqor.notifications.apprise_process import Outcome, Request
from critiqor.notifications.rendering import discord_body, slack_body, text_line
from critiqor.notifications.settings import Channel, MissingSecretError, read_secret

if TYPE_CHECKING:
    import httpx2

ATTEMPT_SECONDS = 10.0
"""Most seconds that one attempt waits for a receiver."""
THREAD_PREFIX = "critiqor-notify-"
"""Beginning of the names of the threads that send."""
_REFUSALS = frozenset({400, 413, 422})
"""Statuses that are about the message, not about the receiver."""
_STANDARD_PREFIX = "whsec_"
_TITLE = "Critiqor"


class NotDeliveredError(Exception):
    """A message was not accepted. The reason contains neither the address nor the key."""

    def __init__(
        self, reason: str, *, is_refused: bool = False, is_misconfigured: bool = False, retry_after: float = 0.0
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_misconfigured = is_misconfigured
        """Whether the settings or the environment must change before another attempt can succeed."""
        self.is_refused = is_refused
        """Whether the receiver rejects this message, and may accept another."""
        self.retry_after = retry_after
        """Seconds that the receiver asks to wait."""


class Sender:
    """Sends messages to one channel, over one connection if possible."""

    def __init__(self, channel: Channel, write_line: Callable[[str], None] | None = None) -> None:
        self._channel = channel
        self._write_line = write_line
        self._client: httpx2.Client | None = None

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection to the channel, if there is one."""
        if self._client is not None:
            self._client.close()

    def send(self, message: Message, seconds: float = ATTEMPT_SECONDS) -> None:
        """Send a message within about that many seconds. Raise `NotDeliveredError` if it is not accepted."""
        try:
            self._send(message, max(0.1, min(seconds, ATTEMPT_SECONDS)))
        except MissingSecretError as error:
            raise NotDeliveredError(str(error), is_misconfigured=True) from None

    def _send(self, message: Message, seconds: float) -> None:
        match self._channel.kind:
            case "webhook":
                body = msgspec.json.encode(message)
                self._post(body, seconds, self._signed_headers(message, body))
            case "slack":
                self._post(msgspec.json.encode(slack_body(message)), seconds)
            case "discord":
                self._post(msgspec.json.encode(discord_body(message)), seconds)
            case "command":
                code = _run_command(self._channel.command, msgspec.json.encode(message), seconds)
                if code != 0:
                    raise NotDeliveredError(f"its command ended with exit code {code}")
            case "terminal":
                if self._write_line is None:
                    raise NotDeliveredError("this process has no terminal", is_misconfigured=True)
                self._write_line(text_line(message))
            case "apprise":
                _send_with_apprise(read_secret(self._channel.url, "url"), text_line(message), seconds)

    def _signed_headers(self, message: Message, body: bytes) -> dict[str, str]:
        key, now = message.idempotency_key, str(int(time.time()))
        headers = {"Webhook-Id": key, "Webhook-Timestamp": now, "Idempotency-Key": key}
        if self._channel.secret is not None:
            secret = read_secret(self._channel.secret, "secret")
            headers["Webhook-Signature"] = sign(secret, key, now, body)
        return headers

    def _post(self, body: bytes, seconds: float, headers: Mapping[str, str] | None = None) -> None:
        import httpx2

        url = _checked_url(read_secret(self._channel.url, "url"))
        try:
            if self._client is None:
                _keep_addresses_out_of_logs()
                self._client = httpx2.Client(follow_redirects=False)
            sent = {"Content-Type": "application/json", "User-Agent": "critiqor", **(headers or {})}
            with self._client.stream("POST", url, content=body, headers=sent, timeout=seconds) as response:
                _check_status(response.status_code, response.headers.get("Retry-After", ""))
        except httpx2.TimeoutException:
            raise NotDeliveredError(f"no answer within {seconds:.0f} seconds") from None
        except httpx2.HTTPError as error:
            raise NotDeliveredError(_network_reason(error)) from None
        except (httpx2.InvalidURL, ValueError):
            raise NotDeliveredError("its url is not an address that can be used", is_misconfigured=True) from None


def sign(secret: str, key: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a request, as the Standard Webhooks specification defines it.

    A secret that begins with `whsec_` is Base64, any other one is used as it is.
    """
    try:
        is_standard = secret.startswith(_STANDARD_PREFIX)
        raw = base64.b64decode(secret.removeprefix(_STANDARD_PREFIX), validate=True) if is_standard else secret.encode()
    except (binascii.Error, ValueError):
        raise MissingSecretError("the secret begins with whsec_, but what follows is not Base64") from None
    digest = hmac.new(raw, f"{key}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not (url.isascii() and url.isprintable()) or " " in url:
        raise NotDeliveredError("its url is not an http or https address", is_misconfigured=True)
    return url


def _check_status(status: int, retry_after: str) -> None:
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise NotDeliveredError(f"it answered {status}, a redirect, which is not followed")
    seconds = retry_after_seconds(retry_after) or 0.0
    raise NotDeliveredError(f"it answered {status}", is_refused=status in _REFUSALS, retry_after=seconds)


def _network_reason(error: BaseException) -> str:
    """Return why a request failed. Texts of other programs may contain the address, so they are not used."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLError):
            return f"TLS failed: {(seen.reason or 'unknown').replace('_', ' ').lower()}"
        if isinstance(seen, OSError) and seen.strerror:
            return f"it cannot be reached: {seen.strerror}"
        seen = seen.__cause__ or seen.__context__
    if type(error).__name__ == "RemoteProtocolError":
        return "it closed the connection, or did not answer as a web server does"
    return f"the request failed: {type(error).__name__}"


def _keep_addresses_out_of_logs() -> None:
    """Drop what the client logs about our requests: with level INFO the address, which is a secret here."""
    for name in ("httpx2", "httpcore2.connection", "httpcore2.proxy"):
        logger = logging.getLogger(name)
        if _is_not_ours not in logger.filters:
            logger.addFilter(_is_not_ours)


def _is_not_ours(record: logging.LogRecord) -> bool:
    return not (record.threadName or "").startswith(THREAD_PREFIX)


def _run_command(command: Sequence[str], body: bytes, seconds: float) -> int:
    """Start a program with a text on its standard input, and return its exit code."""
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, **quiet)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "its command line is not valid"
        raise NotDeliveredError(f"its command cannot be started: {reason}", is_misconfigured=True) from None
    try:
        process.communicate(body, timeout=seconds)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise NotDeliveredError(f"its command did not end within {seconds:.0f} seconds") from None
    return process.returncode


def _send_with_apprise(url: str, text: str, seconds: float) -> None:
    request = msgspec.json.encode(Request(url=url, title=_TITLE, text=text))
    match _run_command((sys.executable, "-P", "-m", "critiqor.notifications.apprise_process"), request, seconds):
        case Outcome.SENT:
            return
        case Outcome.NOT_INSTALLED:
            reason = "apprise is not installed; to install it: pip install apprise"
            raise NotDeliveredError(reason, is_misconfigured=True)
        case Outcome.UNKNOWN_ADDRESS:
            raise NotDeliveredError("its url is not an address that apprise knows", is_misconfigured=True)
        case _:
            raise NotDeliveredError("the service did not accept it")
