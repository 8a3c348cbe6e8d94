"""Repair of lines that the strict decoder rejects: what is wrong with a line, and which of its fields can be used.

A line is lost only if it is not a JSON object, belongs to another schema, or lacks a field that the contract requires.
A field that is unknown or of the wrong type is dropped, and the rest of its line is used.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from critiqor.model.sanitize import replace_lone_surrogates
from critiqor.model.timestamps import iso_from_ms, ms_from_iso
from critiqor.timeline.reader.problems import LineProblems
from critiqor.timeline.reader.records import (
    KNOWN_FIELDS,
    MAX_NAME_LENGTH,
    SCHEMA,
    TYPES,
    Attributes,
    Line,
    Record,
    Unknown,
    strict_decoder,
)

_REQUIRED = ("schemaVersion", "type", "timestamp", "name")
_LINE_START = b'{"schemaVersion":'
_fields_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def unknown_fields(data: bytes) -> list[str]:
    """Return the fields of a timeline's line that are not in the contract, and that `repair_line` drops."""
    try:
        return [_clean(name) for name in _fields_decoder.decode(data) if name not in KNOWN_FIELDS]
    except msgspec.DecodeError:
        return []  # a name with half a character: the decoder of records does not look at names that it skips


def repair_line(data: bytes, line: int, problems: LineProblems, *, terminated: bool = True) -> Record | None:
    """Return the record of one line, as far as it can be read, and note what is wrong with it."""
    try:
        data.decode()
        return strict_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        document = _decode_object(data, error)
    if isinstance(document, dict):
        return _build_record(document, line, problems)
    kind = document if terminated or document != "invalid_json" else "torn_tail"
    problems.unreadable.add(line, kind)
    # A writer that was killed in the middle of a line wrote no line break: the next line follows directly.
    start = data.rfind(_LINE_START, 1)
    return repair_line(data[start:], line, problems) if kind == "invalid_json" and start > 0 else None


def _decode_object(data: bytes, error: Exception) -> dict[str, Any] | str:
    """Return the JSON object in a line, or the kind of problem if there is none."""
    if isinstance(error, UnicodeDecodeError):
        return "invalid_utf8"
    try:
        document = msgspec.json.decode(data)
    except RecursionError:
        return "too_deep"
    except msgspec.DecodeError as problem:
        if "out of range" in str(problem):
            return "number_out_of_range"
        document = _decode_leniently(data)
        if document is None:
            return "invalid_json"
    return document if isinstance(document, dict) else "not_an_object"


def _decode_leniently(data: bytes) -> Any:
    """Decode with the standard library, which accepts the lone surrogates that a text cut by OpenClaw can end with."""
    if b"\\ud" not in data.lower():
        return None
    try:
        return json.loads(data, parse_constant=_reject)
    except (ValueError, RecursionError):
        return None


def _reject(constant: str) -> Any:
    raise ValueError(constant)


def _build_record(document: dict[str, Any], line: int, problems: LineProblems) -> Record | None:
    for field in _REQUIRED:
        if not isinstance(document.get(field), str):
            problems.unreadable.add(line, "wrong_type" if field in document else "missing_field", field)
            return None
        if field == "schemaVersion" and document[field] != SCHEMA:
            problems.unreadable.add(line, "other_schema", _clean(document[field]))
            return None
    moment = ms_from_iso(document["timestamp"])
    if moment is None:
        problems.unreadable.add(line, "invalid_timestamp")
        return None
    kind: type[Line] | None = TYPES.get(document["type"])
    if kind is None:
        kind = Unknown
        problems.irregular.add(line, "unknown_type", _clean(document["type"]))
    usable = {}
    for name, value in {**document, "timestamp": iso_from_ms(moment)}.items():
        if name not in KNOWN_FIELDS:
            problems.irregular.add(line, "unknown_field", _clean(name))
        elif name in kind.__struct_encode_fields__:
            usable[name] = _clean_value(value)
    return _convert(kind, usable, line, problems)


def _convert(kind: type[Line], fields: dict[str, Any], line: int, problems: LineProblems) -> Record | None:
    """Build the record, without the fields whose values have the wrong type."""
    while True:
        try:
            return msgspec.convert(fields, kind)  # type: ignore[return-value]
        except msgspec.ValidationError as error:
            field = str(error).rpartition("`$.")[2].partition("`")[0].partition(".")[0]
            if field in _REQUIRED or field not in fields:
                problems.unreadable.add(line, "wrong_type", field or None)
                return None
            problems.irregular.add(line, "unusable_field", field)
            del fields[field]


def _clean_value(value: Any) -> Any:
    """Return a value that the strict structs accept: texts shortened and valid, attributes of wrong types dropped."""
    if isinstance(value, str):
        return _clean(value)
    if not isinstance(value, dict):
        return value
    kept = {name: _clean_value(item) for name, item in value.items() if name in Attributes.__struct_encode_fields__}
    for name, item in list(kept.items()):
        try:
            msgspec.convert({name: item}, Attributes)
        except msgspec.ValidationError:
            del kept[name]
    return kept


def _clean(text: str) -> str:
    return replace_lone_surrogates(text[:MAX_NAME_LENGTH])
