"""Client for the Chrome DevTools protocol over two pipes, with null-terminated messages. No port is opened."""

from __future__ import annotations

import os
import select
import time
from typing import Any

import msgspec

MAX_MESSAGE_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 18


class BrowserError(Exception):
    """The browser did not respond, or responded with something unexpected; the message says which."""


class DevToolsClient:
    """Sends commands to a browser and reads its responses, until a deadline."""

    def __init__(self, to_browser: int, from_browser: int, deadline: float) -> None:
        self._to_browser = to_browser
        self._from_browser = from_browser
        self._deadline = deadline
        self._received = bytearray()
        self._last_id = 0

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self._last_id += 1
        message = {"id": self._last_id, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        try:
            os.write(self._to_browser, msgspec.json.encode(message) + b"\0")
        except OSError as error:
            raise BrowserError("it has ended") from error
        while (response := self._read_message()).get("id") != self._last_id:
            pass
        result = response.get("result")
        if not isinstance(result, dict):
            error_object = response.get("error")
            reason = error_object.get("message") if isinstance(error_object, dict) else "without a word"
            raise BrowserError(f"it rejected {method}: {reason}")
        return result

    def wait_for(self, event: str) -> None:
        """Wait until the browser reports an event."""
        while self._read_message().get("method") != event:
            pass

    def _read_message(self) -> dict[str, Any]:
        while (end := self._received.find(b"\0")) < 0:
            remaining = self._deadline - time.monotonic()
            if remaining <= 0 or not select.select([self._from_browser], [], [], remaining)[0]:
                raise BrowserError("it did not finish in time")
            data = os.read(self._from_browser, _CHUNK_BYTES)
            if not data:
                raise BrowserError("it has ended")
            self._received += data
            if len(self._received) > MAX_MESSAGE_BYTES:
                raise BrowserError("it says too much")
        message = bytes(self._received[:end])
        del self._received[: end + 1]
        try:
            return msgspec.json.decode(message, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BrowserError("it does not answer like Chromium (DevTools protocol)") from error
