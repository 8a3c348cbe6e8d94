"""Lines that the strict decoder refuses: what is wrong with them, and what of them can still be used.

A line is lost only where it is no JSON object, belongs to another schema, or lacks what the contract requires. A field
that is unknown or has the wrong type costs only itself.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec

from critiqor.model.event import iso_from_ms, ms_from_iso
from critiqor.model.sanitize import replace_lone_surrogates
from critiqor.timeline.reader.problems import Problems
from critiqor.timeline.reader.records import LONGEST_NAME, SCHEMA, TYPES, Attributes, Line, Record, Unknown, decoder

_REQUIRED = ("schemaVersion", "type", "timestamp", "name")
_LINE_START = b'{"schemaVersion":'
_KNOWN_FIELDS = {"type"}.union(*(kind.__struct_encode_fields__ for kind in TYPES.values()))


class Ledgers(NamedTuple):
    """Where problems are noted."""

    unreadable: Problems
    irregular: Problems


def salvage(data: bytes, line: int, ledgers: Ledgers, *, terminated: bool = True) -> Record | None:
    """The record of one line, as far as it can be read; what is wrong is noted."""
    try:
        data.decode()
        whole: Record = decoder.decode(data)
        return whole
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        document = _document(data, error)
    if isinstance(document, dict):
        return _record(document, line, ledgers)
    kind = document if terminated or document != "invalid_json" else "torn_tail"
    ledgers.unreadable.note(line, kind)
    # A writer that was killed within a line left no line break: the next line stands right behind.
    start = data.rfind(_LINE_START, 1)
    return salvage(data[start:], line, ledgers) if kind == "invalid_json" and start > 0 else None


def _document(data: bytes, error: Exception) -> dict[str, Any] | str:
    """The object that a line holds, or the kind of problem that keeps it from holding one."""
    if isinstance(error, UnicodeDecodeError):
        return "invalid_utf8"
    try:
        document = msgspec.json.decode(data)
    except RecursionError:
        return "too_deep"
    except msgspec.DecodeError as problem:
        if "out of range" in str(problem):
            return "number_out_of_range"
        document = _loosely_decoded(data)
        if document is None:
            return "invalid_json"
    return document if isinstance(document, dict) else "not_an_object"


def _loosely_decoded(data: bytes) -> Any:
    """What the standard library reads of it: it takes the lone surrogates that a cut text leaves in a message."""
    if b"\\ud" not in data.lower():
        return None
    try:
        return json.loads(data, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None


def _refused(constant: str) -> Any:
    raise ValueError(constant)


def _record(document: dict[str, Any], line: int, ledgers: Ledgers) -> Record | None:
    for field in _REQUIRED:
        if not isinstance(document.get(field), str):
            ledgers.unreadable.note(line, "wrong_type" if field in document else "missing_field", field)
            return None
        if field == "schemaVersion" and document[field] != SCHEMA:
            ledgers.unreadable.note(line, "other_schema", _clean(document[field]))
            return None
    moment = ms_from_iso(document["timestamp"])
    if moment is None:
        ledgers.unreadable.note(line, "invalid_timestamp")
        return None
    kind: type[Line] | None = TYPES.get(document["type"])
    if kind is None:
        kind = Unknown
        ledgers.irregular.note(line, "unknown_type", _clean(document["type"]))
    usable = {}
    for name, value in {**document, "timestamp": iso_from_ms(moment)}.items():
        if name not in _KNOWN_FIELDS:
            ledgers.irregular.note(line, "unknown_field", _clean(name))
        elif name in kind.__struct_encode_fields__:
            usable[name] = _usable(value)
    return _built(kind, usable, line, ledgers)


def _built(kind: type[Line], fields: dict[str, Any], line: int, ledgers: Ledgers) -> Record | None:
    """The record, without the fields whose values it cannot have."""
    while True:
        try:
            return msgspec.convert(fields, kind)  # type: ignore[return-value]
        except msgspec.ValidationError as error:
            field = str(error).rpartition("`$.")[2].partition("`")[0].partition(".")[0]
            if field in _REQUIRED or field not in fields:
                ledgers.unreadable.note(line, "wrong_type", field or None)
                return None
            ledgers.irregular.note(line, "unusable_field", field)
            del fields[field]


def _usable(value: Any) -> Any:
    """A value as the strict structs take it: texts cut and clean, attributes without those of the wrong type."""
    if isinstance(value, str):
        return _clean(value)
    if not isinstance(value, dict):
        return value
    kept = {name: _usable(item) for name, item in value.items() if name in Attributes.__struct_encode_fields__}
    for name, item in list(kept.items()):
        try:
            msgspec.convert({name: item}, Attributes)
        except msgspec.ValidationError:
            del kept[name]
    return kept


def _clean(text: str) -> str:
    return replace_lone_surrogates(text[:LONGEST_NAME])
