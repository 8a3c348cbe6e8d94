"""Text that is hidden from people: encoded, invisible, or in markup that is not shown."""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from collections.abc import Iterator
from urllib.parse import unquote

MAX_DECODED = 40
"""Maximum number of encoded passages of a text that are read."""
MIN_CODE = 20
"""Minimum number of characters of an encoded passage."""
MIN_PERCENT = 4
"""Minimum number of characters of a passage that are written with a percent sign."""
_BASE64 = re.compile(r"(?<![\w+/=-])(?:[A-Za-z0-9+/_-]{20,}={0,2})(?![\w+/=-])")
_HEX = re.compile(r"(?<![\w])(?:0x)?((?:[0-9a-fA-F]{2}){14,})(?!\w)|((?:\\x[0-9a-fA-F]{2}){8,})")
_PERCENT = re.compile(r"(?<![\w.,:;/~%-])(?:[\w.,:;/~-]*+%[0-9a-fA-F]{2}){4,}+[\w.,:;/~%-]*+")
_ENTITIES = re.compile(r"(?:&#x?[0-9a-fA-F]{2,6};\s?){6,}")
_TAGS = re.compile("[\U000e0020-\U000e007e]{6,}")
_BITS = re.compile("[\u200b\u200c\u200d]{40,}")
_INVISIBLE = re.compile("[\u200b\u200c\u200d\u2060\u2061\u2062\u2063\ufeff\u00ad\u202a-\u202e\u2066-\u2069]")
_ROTATED = re.compile(
    r"\b(?:uggcf?://|phey |jtrg |onfu |vtaber|sbejneq|rkrphgr|frnq |nffvfgnag|nffvfgnagf|ntragf?)", re.I
)


_ROTATED_SIGNS = ("uggc", "phey", "jtrg", "onfu", "vtaber", "sbejneq", "rkrphgr", "frnq", "nffvfgnag", "ntrag")
"""One of them is in each text whose letters are shifted by 13 and that can be an instruction."""
_CODE = re.compile(r"[a-z0-9+/_\\-]{20}", re.IGNORECASE | re.ASCII)
_WIDTHLESS = re.compile(f"{_INVISIBLE.pattern[:-1]}\U000e0020-\U000e007e]")


def may_hide(piece: str) -> bool:
    """Return whether a piece of a text without spaces, in lower case, can belong to what is encoded or invisible.

    Passages in which many characters are written with a percent sign are recognized by their number.
    """
    if len(piece) >= MIN_CODE and _CODE.search(piece):
        return True
    if "&#" in piece or (not piece.isascii() and _WIDTHLESS.search(piece)):
        return True
    return any(map(piece.__contains__, _ROTATED_SIGNS))


def visible(text: str) -> str:
    """Return a text without hidden characters, which have no width."""
    return _INVISIBLE.sub("", text) if _INVISIBLE.search(text) else text


def decoded(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the passages of a text that are hidden by an encoding: where they are, and what they say."""
    for count, (start, end, plain) in enumerate(_decoded(text)):
        if count >= MAX_DECODED:
            return
        yield start, end, plain


def _decoded(text: str) -> Iterator[tuple[int, int, str]]:
    if _CODE.search(text):
        for match in _BASE64.finditer(text):
            if (plain := _from_base64(match[0])) is not None:
                yield match.start(), match.end(), plain
        for match in _HEX.finditer(text):
            if (plain := _from_hex(match[1] or match[2].replace("\\x", ""))) is not None:
                yield match.start(), match.end(), plain
    if text.count("%") >= MIN_PERCENT:
        for match in _PERCENT.finditer(text):
            yield match.start(), match.end(), unquote(match[0])
    if "&#" in text:
        for match in _ENTITIES.finditer(text):
            yield match.start(), match.end(), html.unescape(match[0])
    if not text.isascii():
        for match in _TAGS.finditer(text):
            yield match.start(), match.end(), "".join(chr(ord(char) - 0xE0000) for char in match[0])
        for match in _BITS.finditer(text):
            if (plain := _from_bits(match[0])) is not None:
                yield match.start(), match.end(), plain
    if _ROTATED.search(text):
        position = 0
        for line in text.splitlines(keepends=True):
            if _ROTATED.search(line):
                yield position, position + len(line), codecs.decode(line, "rot13")
            position += len(line)


def _readable(data: bytes) -> str | None:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    shown = sum(char.isprintable() or char in "\n\t\r" for char in text)
    return text if text and shown == len(text) and " " in text.strip() else None


def _from_base64(text: str) -> str | None:
    if "-" in text or "_" in text:
        text = text.replace("-", "+").replace("_", "/")
    try:
        return _readable(base64.b64decode(text + "=" * (-len(text) % 4), validate=True))
    except (binascii.Error, ValueError):
        return None


def _from_hex(text: str) -> str | None:
    try:
        return _readable(bytes.fromhex(text))
    except ValueError:
        return None


def _from_bits(text: str) -> str | None:
    for zero, one in (("\u200b", "\u200c"), ("\u200c", "\u200b"), ("\u200b", "\u200d")):
        bits = "".join({zero: "0", one: "1"}.get(char, "") for char in text)
        data = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8))
        if (plain := _readable(data)) is not None:
            return plain
    return None


_COMMENT = re.compile(r"<!--(.*?)(?:-->|\Z)|/\*(.*?)\*/|\{#(.*?)#\}|\[//\]: # \((.*?)\)", re.DOTALL)
_HIDDEN = re.compile(
    r"<(\w+)\b[^<>]{0,300}?(?:\bhidden\b|display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*(?:0|1px)|opacity\s*:\s*0(?![.\d])"
    r"|color\s*:\s*(?:white|#fff\b|#ffffff|transparent)|left\s*:\s*-\d{3,})[^<>]{0,300}>(.*?)(?:</\1>|\Z)"
    r"|\[(?:white text|hidden text|hidden|invisible|weißer text|texto oculto|texte caché|beyaz metin|белый текст"
    r"|biały tekst|witte tekst|testo nascosto|隐藏文字|白字|白文字|숨은 텍스트|نص مخفي)[^\]]*\](.*?)(?:$)"
    r"|\[(\w+ \w+)\].*?\[/\4\]",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)


def comments(text: str) -> list[tuple[int, int]]:
    """Return where text is hidden in comments."""
    has_one = "<!--" in text or "/*" in text or "{#" in text or "[//]" in text
    return [match.span() for match in _COMMENT.finditer(text)] if has_one else []


def unseen(text: str) -> list[tuple[int, int]]:
    """Return where text is hidden in markup that a page does not show."""
    return [match.span() for match in _HIDDEN.finditer(text)] if "<" in text or "[" in text else []
