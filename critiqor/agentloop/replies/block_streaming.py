"""Block streaming: a long reply goes out in pieces of a readable size while the model still writes.

Pieces end at a paragraph, a line, a sentence or a word, in this order of preference, and never inside of a fenced block
of code; one that is too long is closed and opened again.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

from critiqor.agentloop.settings import BlockBreak, BlockChunk

_FENCE = re.compile(r"^[ \t]*(```|~~~)[^\n]*$", re.MULTILINE)
_BREAKS = {
    "paragraph": re.compile(r"\n[ \t]*\n"),
    "newline": re.compile(r"\n"),
    "sentence": re.compile(r"(?<=[.!?…])\s"),
    "word": re.compile(r"\s"),
}


class BlockChunker:
    """Cuts a text that comes bit by bit."""

    def __init__(self, settings: BlockChunk) -> None:
        self._least = max(1, settings.min_chars)
        self._most = max(self._least, settings.max_chars)
        order = list(_BREAKS)
        self._order = order[order.index(settings.break_preference) :]
        self._text = ""

    def feed(self, text: str) -> list[str]:
        """Add text; returns the blocks that are complete."""
        self._text += text
        blocks = []
        while (place := self._cut()) is not None:
            blocks.append(self._take(place))
        return [block for block in blocks if block]

    def flush(self) -> list[str]:
        """What is left."""
        blocks = []
        while len(self._text) > self._most and (place := self._cut()) is not None:
            blocks.append(self._take(place))
        blocks.append(self._text.strip())
        self._text = ""
        return [block for block in blocks if block]

    def reset(self) -> None:
        """Forget what has come."""
        self._text = ""

    def _cut(self) -> int | None:
        """Where the next block ends; None where it is not long enough for one."""
        text = self._text
        if len(text) < self._least:
            return None
        window = text[: self._most]
        for name in self._order:
            # A better break may still come, as long as there is room for it.
            if name != self._order[0] and len(text) <= self._most:
                return None
            places = [found.end() for found in _BREAKS[name].finditer(window) if found.end() >= self._least]
            places = [place for place in places if _open_fence(text[:place]) is None]
            if places:
                return places[-1]
        if len(text) <= self._most:
            return None
        line_end = window.rfind("\n") + 1
        return line_end if line_end > 1 and _open_fence(window) is not None else self._most

    def _take(self, place: int) -> str:
        block, rest = self._text[:place], self._text[place:]
        fence = _open_fence(block)
        if fence is not None:
            marker = fence.strip()[:3]
            block, rest = f"{block.rstrip()}\n{marker}", f"{fence}\n{rest}"
        self._text = rest
        return block.strip()


def _open_fence(text: str) -> str | None:
    """The line that opened a block of code which the text does not close."""
    opened: str | None = None
    for found in _FENCE.finditer(text):
        opened = found.group() if opened is None else None
    return opened


class BlockReplies:
    """Sends the blocks of one run, in order, while it goes on."""

    def __init__(self, chunk: BlockChunk, when: BlockBreak, send: Callable[[str], Awaitable[object]]) -> None:
        self._chunker = BlockChunker(chunk)
        self._when = when
        self._send = send
        self._message = ""
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self._sender: asyncio.Task[None] | None = None
        self._sent: set[str] = set()
        self._delivered: set[str] = set()

    def said(self, text: str) -> None:
        """More words of the message that the model is writing."""
        self._message += text
        if self._when == "text_end":
            self._put(self._chunker.feed(text))

    def message_ended(self) -> None:
        """The message is complete."""
        if self._when == "message_end":
            self._put(self._chunker.feed(self._message))
        self._put(self._chunker.flush())
        self._delivered.add(_bare(self._message))
        self._message = ""

    def reset(self) -> None:
        """The attempt is made again. What went out is out, and does not go out a second time."""
        self._chunker.reset()
        self._message = ""

    def covers(self, text: str) -> bool:
        """Whether a reply has gone out already, block by block."""
        return _bare(text) in self._delivered

    async def drained(self) -> None:
        """Wait until everything has been sent."""
        if self._sender is not None:
            await self._waiting.join()

    def close(self) -> None:
        """Stop sending."""
        if self._sender is not None:
            self._sender.cancel()

    def _put(self, blocks: list[str]) -> None:
        for block in blocks:
            if block not in self._sent:
                self._sent.add(block)
                self._waiting.put_nowait(block)
        if self._sender is None and not self._waiting.empty():
            self._sender = asyncio.create_task(self._send_all())

    async def _send_all(self) -> None:
        while True:
            block = await self._waiting.get()
            try:
                await self._send(block)
            finally:
                self._waiting.task_done()


def _bare(text: str) -> str:
    return "".join(text.split())
