"""Block streaming: a long reply is sent in blocks of readable size while the model is still writing.

Blocks end at a paragraph, a line, a sentence or a word, in this order of preference, and never inside a fenced code
block; a code block that is too long is closed and reopened. What the user has read already, in a message of a tool or
before a retry, does not become a block again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from critiqor.agentloop.replies.reply_builder import may_have_been_sent, was_sent
from critiqor.agentloop.settings import BlockBreak, BlockChunk

_FENCE = re.compile(r"^[ \t]*(```|~~~)[^\n]*$", re.MULTILINE)
_BREAKS = {
    "paragraph": re.compile(r"\n[ \t]*\n"),
    "newline": re.compile(r"\n"),
    "sentence": re.compile(r"(?<=[.!?…])\s"),
    "word": re.compile(r"\s"),
}


class Block(NamedTuple):
    """A part of a reply."""

    text: str
    """As it is sent: a code block that was cut is closed and reopened. Empty if there is nothing to read in it."""
    source: str
    """As the model wrote it."""


class BlockChunker:
    """Splits streamed text into blocks."""

    def __init__(self, settings: BlockChunk) -> None:
        self._min_chars = max(1, settings.min_chars)
        self._max_chars = max(self._min_chars, settings.max_chars)
        order = list(_BREAKS)
        self._order = order[order.index(settings.break_preference) :]
        self._text = ""
        self._fence: str | None = None
        """The line that opened the code block in which the buffered text begins."""

    def feed(self, text: str) -> list[Block]:
        """Add text and return the complete blocks."""
        self._text += text
        blocks = []
        while (place := self._find_cut()) is not None:
            blocks.append(self._take(place))
        return blocks

    def flush(self) -> list[Block]:
        """Return the remaining text as blocks."""
        blocks = []
        while len(self._head) + len(self._text) > self._max_chars and (place := self._find_cut()) is not None:
            blocks.append(self._take(place))
        return [*blocks, self._take(len(self._text))]

    def restart(self, skipped: str = "") -> None:
        """Discard the buffered text. The text that follows continues a reply that began with `skipped`."""
        self._text = ""
        self._fence = _open_fence(skipped)

    @property
    def _head(self) -> str:
        """What reopens a code block before the buffered text."""
        return "" if self._fence is None else f"{self._fence}\n"

    def _find_cut(self) -> int | None:
        """Return where in the buffered text the next block ends, or None if there is not enough text for one."""
        head = len(self._head)
        text = self._head + self._text
        if len(text) < self._min_chars:
            return None
        window = text[: self._max_chars]
        for name in self._order:
            # Wait for a break of the preferred kind while the block may still grow.
            if name != self._order[0] and len(text) <= self._max_chars:
                return None
            places = [found.end() for found in _BREAKS[name].finditer(window) if found.end() >= self._min_chars]
            places = [place - head for place in places if place > head and _open_fence(text[:place]) is None]
            if places:
                return places[-1]
        if len(text) <= self._max_chars:
            return None
        line_end = window.rfind("\n") + 1 - head
        is_code = line_end > 0 and _open_fence(window) is not None
        return line_end if is_code else max(1, self._max_chars - head)

    def _take(self, place: int) -> Block:
        source, text = self._text[:place], self._head + self._text[:place]
        self._text = self._text[place:]
        self._fence = _open_fence(source, self._fence)
        if not _FENCE.sub("", source).strip():
            return Block("", source)
        if self._fence is not None:
            text = f"{text.rstrip()}\n{self._fence.strip()[:3]}"
        return Block(text.strip(), source)


class BlockStream:
    """The messages of a run as blocks, without what the user has read already."""

    def __init__(self, chunk: BlockChunk, when: BlockBreak) -> None:
        self._chunker = BlockChunker(chunk)
        self._when = when
        self._text = ""
        """Text of the current message."""
        self._used = 0
        """How much of the text the chunker has got."""
        self.has_begun = False
        """Whether the current message is known to contain something new."""
        self._sources: list[str] = []
        """Blocks of the current message, without white space."""
        self._drafts: list[list[str]] = []
        """Blocks of attempts at the current message that failed; the user has read them."""

    def add_text(self, text: str, sent: Sequence[str]) -> list[str]:
        """Add streamed text of the current message and return the blocks that are complete.

        `sent` are the texts that tools have sent to the user; a message that repeats one of them has no blocks.
        """
        self._text += text
        if self._when == "message_end" or not (self.has_begun or self._is_new(sent)):
            return []
        return self._accept(self._chunker.feed(self._next_text()))

    def cut(self) -> list[str]:
        """Return all text so far as blocks, because something else is sent before the rest of the message."""
        return self._accept(self._chunker.flush()) if self.has_begun else []

    def end_message(self, sent: Sequence[str]) -> list[str]:
        """Return the remaining blocks of the current message, which is complete."""
        blocks: list[str] = []
        if self.has_begun or not (was_sent(self._text, sent) or self._is_read()):
            blocks = self._accept([*self._chunker.feed(self._next_text()), *self._chunker.flush()])
        self._begin_message()
        self._drafts = []
        return blocks

    def restart(self) -> None:
        """Discard the current message, because its attempt failed. Its blocks were sent, and are not sent again."""
        if self._sources:
            self._drafts.append(self._sources)
        self._begin_message()

    def _begin_message(self) -> None:
        self._text, self._used, self._sources = "", 0, []
        self.has_begun = False
        self._chunker.restart()

    def _is_new(self, sent: Sequence[str]) -> bool:
        """Whether the text so far cannot be the beginning of something that the user has read already."""
        return not (may_have_been_sent(self._text, sent) or self._is_read())

    def _is_read(self) -> bool:
        """Whether the user has read the text so far before the attempt failed."""
        text = _without_whitespace(self._text)
        return any("".join(draft).startswith(text) for draft in self._drafts)

    def _next_text(self) -> str:
        """Return the text that the chunker has not got yet; first of all, skip what was sent before a retry."""
        if not self.has_begun:
            self.has_begun = True
            text = _without_whitespace(self._text)
            self._sources = max((_common_blocks(draft, text) for draft in self._drafts), key=_length, default=[])
            self._used = _skip(self._text, _length(self._sources))
            self._chunker.restart(self._text[: self._used])
        text, self._used = self._text[self._used :], len(self._text)
        return text

    def _accept(self, blocks: Sequence[Block]) -> list[str]:
        self._sources += [_without_whitespace(block.source) for block in blocks]
        return [block.text for block in blocks if block.text]


def _open_fence(text: str, opened: str | None = None) -> str | None:
    """Return the line that opens a code block which the text does not close; `opened` was open before it."""
    for found in _FENCE.finditer(text):
        opened = found.group() if opened is None else None
    return opened


def _common_blocks(draft: Sequence[str], text: str) -> list[str]:
    """Return the blocks at the beginning of a draft with which the text begins, too."""
    common: list[str] = []
    position = 0
    for block in draft:
        if not text.startswith(block, position):
            break
        common.append(block)
        position += len(block)
    return common


def _length(blocks: Sequence[str]) -> int:
    return sum(map(len, blocks))


def _skip(text: str, count: int) -> int:
    """Return the position in a text after `count` characters that are not white space."""
    for position, character in enumerate(text):
        if count == 0:
            return position
        count -= not character.isspace()
    return len(text)


def _without_whitespace(text: str) -> str:
    return "".join(text.split())
