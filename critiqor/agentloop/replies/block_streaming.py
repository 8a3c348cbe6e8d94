"""Block streaming: a long reply is sent in blocks of readable size while the model is still writing.

Blocks end at a paragraph, a line, a sentence or a word, in this order of preference, and never inside a fenced code
block; a code block that is too long is closed and reopened.
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
    """Splits streamed text into blocks."""

    def __init__(self, settings: BlockChunk) -> None:
        self._min_chars = max(1, settings.min_chars)
        self._max_chars = max(self._min_chars, settings.max_chars)
        order = list(_BREAKS)
        self._order = order[order.index(settings.break_preference) :]
        self._text = ""

    def feed(self, text: str) -> list[str]:
        """Add text and return the complete blocks."""
        self._text += text
        blocks = []
        while (place := self._find_cut()) is not None:
            blocks.append(self._take(place))
        return [block for block in blocks if block]

    def flush(self) -> list[str]:
        """Return the remaining text as blocks."""
        blocks = []
        while len(self._text) > self._max_chars and (place := self._find_cut()) is not None:
            blocks.append(self._take(place))
        blocks.append(self._text.strip())
        self._text = ""
        return [block for block in blocks if block]

    def reset(self) -> None:
        """Discard the buffered text."""
        self._text = ""

    def _find_cut(self) -> int | None:
        """Return where the next block ends, or None if there is not enough text for one."""
        text = self._text
        if len(text) < self._min_chars:
            return None
        window = text[: self._max_chars]
        for name in self._order:
            # Wait for a break of the preferred kind while the block may still grow.
            if name != self._order[0] and len(text) <= self._max_chars:
                return None
            places = [found.end() for found in _BREAKS[name].finditer(window) if found.end() >= self._min_chars]
            places = [place for place in places if _open_fence(text[:place]) is None]
            if places:
                return places[-1]
        if len(text) <= self._max_chars:
            return None
        line_end = window.rfind("\n") + 1
        return line_end if line_end > 1 and _open_fence(window) is not None else self._max_chars

    def _take(self, place: int) -> str:
        block, rest = self._text[:place], self._text[place:]
        fence = _open_fence(block)
        if fence is not None:
            marker = fence.strip()[:3]
            block, rest = f"{block.rstrip()}\n{marker}", f"{fence}\n{rest}"
        self._text = rest
        return block.strip()


def _open_fence(text: str) -> str | None:
    """Return the line that opens a code block which the text does not close."""
    opened: str | None = None
    for found in _FENCE.finditer(text):
        opened = found.group() if opened is None else None
    return opened


class BlockReplies:
    """Sends the blocks of one run in order while the model is writing."""

    def __init__(self, chunk: BlockChunk, when: BlockBreak, send: Callable[[str], Awaitable[object]]) -> None:
        self._chunker = BlockChunker(chunk)
        self._when = when
        self._send = send
        self._message = ""
        self._queue: asyncio.Queue[str] = asyncio.Queue()
        self._sender: asyncio.Task[None] | None = None
        self._sent: set[str] = set()
        self._delivered: set[str] = set()

    def add_text(self, text: str) -> None:
        """Add streamed text of the current message."""
        self._message += text
        if self._when == "text_end":
            self._enqueue(self._chunker.feed(text))

    def end_message(self) -> None:
        """Send the rest of the current message, which is complete."""
        if self._when == "message_end":
            self._enqueue(self._chunker.feed(self._message))
        self._enqueue(self._chunker.flush())
        self._delivered.add(_without_whitespace(self._message))
        self._message = ""

    def reset(self) -> None:
        """Discard unsent text before a new attempt. Blocks that were sent are not sent again."""
        self._chunker.reset()
        self._message = ""

    def has_delivered(self, text: str) -> bool:
        """Whether a reply was already sent in blocks."""
        return _without_whitespace(text) in self._delivered

    async def wait_until_sent(self) -> None:
        """Wait until all blocks have been sent."""
        if self._sender is not None:
            await self._queue.join()

    def close(self) -> None:
        """Stop sending."""
        if self._sender is not None:
            self._sender.cancel()

    def _enqueue(self, blocks: list[str]) -> None:
        for block in blocks:
            if block not in self._sent:
                self._sent.add(block)
                self._queue.put_nowait(block)
        if self._sender is None and not self._queue.empty():
            self._sender = asyncio.create_task(self._send_all())

    async def _send_all(self) -> None:
        while True:
            block = await self._queue.get()
            try:
                await self._send(block)
            finally:
                self._queue.task_done()


def _without_whitespace(text: str) -> str:
    return "".join(text.split())
