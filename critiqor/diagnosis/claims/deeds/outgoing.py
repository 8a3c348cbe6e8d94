"""The texts for others that a call carries: messages, mails, notes, commit messages and pull requests."""

from __future__ import annotations

import re

import msgspec

from critiqor.diagnosis.claims.call_arguments import path_of
from critiqor.diagnosis.claims.episode import EpisodeCall, EpisodeText
from critiqor.diagnosis.signals.text import decode_json
from critiqor.spans.calls import Kind

_OUTGOING = frozenset(
    (
        *("body", "text", "message", "content", "comment", "description", "title", "subject", "summary", "caption"),
        *("note", "notes", "remark", "remarks", "resolution", "details", "reply", "html", "markdown", "nota", "notiz"),
    )
)
"""The last word in the name of an argument that holds a text for others: `body`, `close_notes`, `customerComment`."""
_MESSAGE = re.compile(
    r"(?:\s-\w*m|--(?:message|body|title|notes|description|comment|subject))[= ]\s*\$?"
    r"(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)')",
    re.DOTALL,
)
_HERE = re.compile(r"<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n(.*?)\n\s*\1", re.DOTALL)
"""A text that follows in the lines after a command."""
_SPEAKS = re.compile(r"\bgit (?:commit|tag|merge)\b|\b(?:gh|glab) (?:pr|issue|release|mr)\b")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
MIN_OUTGOING = 20
"""Minimum number of characters of a text for others that is checked."""


def outgoing_texts(call: EpisodeCall, arguments: str, line: str) -> list[EpisodeText]:
    """Return the texts for others that a call carries."""
    if line:
        texts = [one or other for one, other in _MESSAGE.findall(line)] if _SPEAKS.search(line) else []
        texts = [text.replace("\\n", "\n") for text in texts]
        if texts or _SPEAKS.search(line):
            texts = [text for text in texts if "<<" not in text] + [found[2] for found in _HERE.finditer(line)]
    elif '"path"' not in arguments and (
        call.kind is Kind.ACTION or (call.kind in (Kind.CHANGE, Kind.OTHER) and not path_of(call))
    ):
        texts = _texts_of(arguments, by_shape=call.kind is Kind.ACTION)
    else:
        texts = []
    return [
        EpisodeText(order=call.order, event_id=call.call_id, text=text, call=call)
        for text in texts
        if len(text) >= MIN_OUTGOING
    ]


def without_texts(arguments: str, texts: list[EpisodeText]) -> str:
    """Return the arguments of a call without its outgoing texts, which others read."""
    for text in texts:
        escaped = msgspec.json.encode(text.text).decode()[1:-1]
        # In a shell's $'…' a line break is written as two characters, which JSON escapes again.
        for written in (text.text, escaped, escaped.replace("\\n", "\\\\n")):
            arguments = arguments.replace(written, "")
    return arguments


def _texts_of(arguments: str, *, by_shape: bool) -> list[str]:
    """Return the arguments that hold texts, by their names or `by_shape`: names are in any language, prose is prose."""
    try:
        value = decode_json(arguments)
    except msgspec.DecodeError:
        return []
    if not isinstance(value, dict):
        return []
    return [
        text
        for name, text in value.items()
        if isinstance(text, str) and (_last_word(name) in _OUTGOING or (by_shape and _is_prose(text)))
    ]


def _is_prose(text: str) -> bool:
    """Return whether a text consists of sentences: it has several words, and nothing that code or a query has."""
    return len(text.split()) >= MIN_PROSE and _PROSE_END.search(text) is not None and not _CODE.search(text)


MIN_PROSE = 6
"""Minimum number of words of a text that is recognized by its shape."""
_PROSE_END = re.compile(r"[^\W\d_]{2,}[.!?。！？](?:\s|$)")
_CODE = re.compile(r"[{}<>=;]|\b(?:SELECT|FROM|WHERE)\b")


def _last_word(name: str) -> str:
    words = _WORD.findall(name)
    return words[-1].lower() if words else name
