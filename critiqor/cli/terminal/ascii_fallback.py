"""ASCII fallback for terminals and files without Unicode."""

from __future__ import annotations

import codecs
import io
import os

ASCII_SPELLINGS = {
    "\N{RIGHTWARDS ARROW}": "->",
    "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{MIDDLE DOT}": "-",
    "\N{LEFT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{SUPERSCRIPT TWO}": "^2",
}
"""The non-ASCII characters of our own texts, in ASCII; others become a question mark."""
_NAME = "critiqor_ascii"
"""Name of the encoding and of the error handler. Click writes UTF-8 to a stream whose encoding is named ASCII, because
it takes that for a missing locale."""


def enable_ascii_fallback(stream: object) -> None:
    """Make a stream replace the characters that it cannot encode, instead of failing."""
    if not isinstance(stream, io.TextIOWrapper):
        return
    codecs.register_error(_NAME, _replace)
    codecs.register(_find_codec)
    # In a C locale Python writes UTF-8. That suits a pipe, but a terminal may show several characters for one.
    is_ascii = codecs.lookup(stream.encoding).name == "ascii"
    if is_ascii or (stream.isatty() and _is_c_locale()):
        stream.reconfigure(encoding=_NAME, errors="strict")
    else:
        stream.reconfigure(errors=_NAME)


def _is_c_locale() -> bool:
    """Return whether the user set a locale without Unicode; no locale at all counts as Unicode."""
    if everything := os.environ.get("LC_ALL"):
        return everything in ("C", "POSIX")
    # If only LANG is set, Python adds one of these values of LC_CTYPE itself at start-up.
    ctype = os.environ.get("LC_CTYPE") or "C"
    return os.environ.get("LANG") in ("C", "POSIX") and ctype in ("C", "POSIX", "C.UTF-8", "C.utf8", "UTF-8")


def _replace(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unknown = error.object[error.start : error.end]
    return "".join(ASCII_SPELLINGS.get(character, "?") for character in unknown), error.end


class _Encoder(codecs.IncrementalEncoder):
    def encode(self, input: str, final: bool = False) -> bytes:
        return input.encode("ascii", _NAME)


def _find_codec(name: str) -> codecs.CodecInfo | None:
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
