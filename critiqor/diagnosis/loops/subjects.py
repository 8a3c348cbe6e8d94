"""What a search looks for, and where, however it is put."""

from __future__ import annotations

import re

import msgspec

from critiqor.diagnosis.collections.fingerprints import canonical_json
from critiqor.diagnosis.signals.text import decode_json
from critiqor.spans.calls import ToolCall, command_line

_TABLE = re.compile(r"\b(?:from|join)\s+(?:[\w\"`\[\]]+\.)?[\"`\[]?(\w+)", re.IGNORECASE)
_SELECT = re.compile(r"\bselect\b.+\bfrom\b", re.IGNORECASE | re.DOTALL)
_LITERAL = re.compile(r"'([^']*)'|(?<![\w.'])(\d{3,})(?![\w.'])")
_SHOWN = re.compile(
    r"limit|count|size|max\w*|num\w*|per_?page|page\w*|offset|cursor|sort\w*|order\w*|fields?|columns?|format|view"
    r"|verbose|include\w*|expand|language|lang|locale|fuzzy|exact|case\w*|mode",
    re.IGNORECASE,
)
"""Arguments for how hits are shown or compared."""
_PIPED = re.compile(
    r"\|\s*(?:head|tail|wc|sort|uniq|less|cat|nl|column|true)\b[^|;&]*|\d?>\S+|\|\|\s*(?:true|echo\b.*)"
)
_MARKS = "'\"*%^$./\\()[]"


def searched_for(call: ToolCall) -> frozenset[str]:
    """Return what a search looks for, and where, without options, columns, order, limits and wildcards."""
    line = command_line(call.arguments)
    if line and not _SELECT.search(line):
        shown = [word.lower() for word in _PIPED.sub(" ", line).split()[1:] if not word.startswith("-")]
        return frozenset(filter(None, (word.strip(_MARKS) for word in shown)))
    try:
        value = decode_json(call.arguments)
    except msgspec.DecodeError:
        value = call.arguments
    values = (
        [each for name, each in value.items() if not _SHOWN.fullmatch(name)] if isinstance(value, dict) else [value]
    )
    return frozenset(part for each in values for part in _parts(str(each).lower()))


def _parts(text: str) -> list[str]:
    """Return the tables and values of a query of a database; of another query, its words."""
    if not _SELECT.search(text):
        return [word.strip(_MARKS) for word in text.split()]
    return [*_TABLE.findall(text), *(one.strip(_MARKS) or other for one, other in _LITERAL.findall(text))]


_SEARCH_ARGUMENTS = frozenset(
    ("query", "q", "question", "keywords", "offset", "page", "cursor", "start", "from", "to", "limit", "count")
)


def subject_of_call(arguments: str) -> str:
    """Return what a tool call is about: its arguments without search terms, offsets and limits."""
    try:
        value = decode_json(arguments)
    except msgspec.DecodeError:
        return arguments
    return (
        canonical_json({name: value[name] for name in value.keys() - _SEARCH_ARGUMENTS})
        if isinstance(value, dict)
        else arguments
    )
