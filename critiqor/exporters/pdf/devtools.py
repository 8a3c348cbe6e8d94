"""Client for the Chrome DevTools protocol over two pipes, with null-terminated messages. No port is opened."""

from __future__ import annotations

import base64
import binascii
import os
import select
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

MAX_MESSAGE_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 18
_FOOTER = (
    '<div style="width:100%;text-align:center;font:8px sans-serif;color:#555">'
    '<span class="pageNumber"></span> of <span class="totalPages"></span></div>'
)


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


def print_page(page: Path, browser: DevToolsClient) -> Iterator[bytes]:
    """Yield a page as PDF while it is received. Scripts of the page are disabled."""
    target = _text(browser.call("Target.createTarget", url="about:blank"), "targetId")
    session = _text(browser.call("Target.attachToTarget", targetId=target, flatten=True), "sessionId")
    browser.call("Emulation.setScriptExecutionDisabled", session, value=True)
    browser.call("Page.enable", session)
    opened = browser.call("Page.navigate", session, url=page.as_uri())
    if opened.get("errorText"):
        raise BrowserError(f"it does not open the page: {opened['errorText']}")
    browser.wait_for("Page.loadEventFired")
    printed = browser.call(
        "Page.printToPDF",
        session,
        printBackground=True,
        preferCSSPageSize=True,
        displayHeaderFooter=True,
        headerTemplate="<span></span>",
        footerTemplate=_FOOTER,
        transferMode="ReturnAsStream",
    )
    stream = _text(printed, "stream")
    while True:
        chunk = browser.call("IO.read", session, handle=stream, size=_CHUNK_BYTES)
        data = _text(chunk, "data")
        try:
            yield base64.b64decode(data, validate=True) if chunk.get("base64Encoded") else data.encode()
        except binascii.Error as error:
            raise BrowserError("it does not answer like Chromium (DevTools protocol)") from error
        if chunk.get("eof"):
            return


def _text(response: dict[str, Any], name: str) -> str:
    value = response.get(name)
    if not isinstance(value, str):
        raise BrowserError("it does not answer like Chromium (DevTools protocol)")
    return value
