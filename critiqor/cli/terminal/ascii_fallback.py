"""Letters that a terminal or a file has: where it has only those of ASCII, signs of ours are spelt in them."""

from __future__ import annotations

import codecs
import io
import os

SPELT = {
    "\N{RIGHTWARDS ARROW}": "->",
    "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{MIDDLE DOT}": "-",
    "\N{LEFT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{SUPERSCRIPT TWO}": "^2",
}
"""Signs that texts of ours hold, in ASCII; anything else becomes a question mark."""
_NAME = "critiqor_spelt"
"""Of the encoding, and of what handles letters that another one does not have. By the name of ASCII, click would take
the stream for one that somebody forgot to set up, and write UTF-8 to it."""


def use_letters_of(stream: object) -> None:
    """Let a stream write what it can write, and spell the rest: an answer with a wrong letter is better than none."""
    if not isinstance(stream, io.TextIOWrapper):
        return
    codecs.register_error(_NAME, _spelt)
    codecs.register(_codec)
    # Python writes UTF-8 where the locale is plain. A pipe gets that as ever; a terminal may show three signs for one.
    is_ascii = codecs.lookup(stream.encoding).name == "ascii"
    if is_ascii or (stream.isatty() and _is_plain_locale()):
        stream.reconfigure(encoding=_NAME, errors="strict")
    else:
        stream.reconfigure(errors=_NAME)


def _is_plain_locale() -> bool:
    """Whether the user has asked for a locale without letters beyond ASCII; who asks for none gets all of them."""
    if everything := os.environ.get("LC_ALL"):
        return everything in ("C", "POSIX")
    # Where only LANG is set, Python itself adds such an LC_CTYPE before anything else runs.
    letters = os.environ.get("LC_CTYPE") or "C"
    return os.environ.get("LANG") in ("C", "POSIX") and letters in ("C", "POSIX", "C.UTF-8", "C.utf8", "UTF-8")


def _spelt(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unknown = error.object[error.start : error.end]
    return "".join(SPELT.get(letter, "?") for letter in unknown), error.end


class _Encoder(codecs.IncrementalEncoder):
    def encode(self, input: str, final: bool = False) -> bytes:
        return input.encode("ascii", _NAME)


def _codec(name: str) -> codecs.CodecInfo | None:
    if name != _NAME:
        return None
    ascii_ = codecs.lookup("ascii")
    return codecs.CodecInfo(
        name=_NAME,
        encode=lambda text, errors="strict": (text.encode("ascii", _NAME), len(text)),
        decode=ascii_.decode,
        incrementalencoder=_Encoder,
        incrementaldecoder=ascii_.incrementaldecoder,
    )
