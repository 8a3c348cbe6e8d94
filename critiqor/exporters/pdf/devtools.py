"""Talking to a Chromium through its two pipes, in which messages end with a zero byte. No port is opened."""

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

LARGEST_MESSAGE = 64 << 20
_PIECE = 1 << 18
_FOOTER = (
    '<div style="width:100%;text-align:center;font:8px sans-serif;color:#555">'
    '<span class="pageNumber"></span> of <span class="totalPages"></span></div>'
)


class SilenceError(Exception):
    """A browser that does not answer, or not with what was asked for; says which."""


class Conversation:
    """Questions to a browser and its answers, until a moment in time."""

    def __init__(self, to_browser: int, from_browser: int, deadline: float) -> None:
        self._to_browser = to_browser
        self._from_browser = from_browser
        self._deadline = deadline
        self._received = bytearray()
        self._asked = 0

    def ask(self, method: str, session: str | None = None, **wishes: Any) -> dict[str, Any]:
        """What it answers to a question."""
        self._asked += 1
        message = {"id": self._asked, "method": method, "params": wishes}
        if session is not None:
            message["sessionId"] = session
        try:
            os.write(self._to_browser, msgspec.json.encode(message) + b"\0")
        except OSError as error:
            raise SilenceError("it has ended") from error
        while (answer := self._next()).get("id") != self._asked:
            pass
        result = answer.get("result")
        if not isinstance(result, dict):
            refusal = answer.get("error")
            told = refusal.get("message") if isinstance(refusal, dict) else "without a word"
            raise SilenceError(f"it refuses {method}: {told}")
        return result

    def wait_for(self, event: str) -> None:
        """Until it says that something has happened."""
        while self._next().get("method") != event:
            pass

    def _next(self) -> dict[str, Any]:
        while (end := self._received.find(b"\0")) < 0:
            left = self._deadline - time.monotonic()
            if left <= 0 or not select.select([self._from_browser], [], [], left)[0]:
                raise SilenceError("it did not finish in time")
            data = os.read(self._from_browser, _PIECE)
            if not data:
                raise SilenceError("it has ended")
            self._received += data
            if len(self._received) > LARGEST_MESSAGE:
                raise SilenceError("it says too much")
        message = bytes(self._received[:end])
        del self._received[: end + 1]
        try:
            return msgspec.json.decode(message, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise SilenceError("it does not answer like Chromium (DevTools protocol)") from error


def pdf_of(page: Path, browser: Conversation) -> Iterator[bytes]:
    """A page as PDF, as it comes. No script of the page is run."""
    target = _text(browser.ask("Target.createTarget", url="about:blank"), "targetId")
    session = _text(browser.ask("Target.attachToTarget", targetId=target, flatten=True), "sessionId")
    browser.ask("Emulation.setScriptExecutionDisabled", session, value=True)
    browser.ask("Page.enable", session)
    opened = browser.ask("Page.navigate", session, url=page.as_uri())
    if opened.get("errorText"):
        raise SilenceError(f"it does not open the page: {opened['errorText']}")
    browser.wait_for("Page.loadEventFired")
    printed = browser.ask(
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
        piece = browser.ask("IO.read", session, handle=stream, size=_PIECE)
        data = _text(piece, "data")
        try:
            yield base64.b64decode(data, validate=True) if piece.get("base64Encoded") else data.encode()
        except binascii.Error as error:
            raise SilenceError("it does not speak as a Chromium does") from error
        if piece.get("eof"):
            return


def _text(answer: dict[str, Any], name: str) -> str:
    value = answer.get(name)
    if not isinstance(value, str):
        raise SilenceError("it does not speak as a Chromium does")
    return value
