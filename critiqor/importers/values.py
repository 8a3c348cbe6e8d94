"""Conversion of untyped values to the expected type, or None: imported files follow no schema."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from critiqor.model import ms_from_iso

LATEST_MS = 36**9 - 1
"""The last time that an event id can represent, in the year 5188."""
_MAX_NUMBER = 1 << 53
_DURATION = re.compile(r"P(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,12})?)S)?)?")


def as_text(value: Any) -> str | None:
    """Convert an untyped value to text: a text or a number; None for anything else and for an empty text."""
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 64 else None


def as_object(value: Any) -> dict[str, Any]:
    """Convert an untyped value to an object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Convert an untyped value to a list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def as_number(value: Any) -> int | float | None:
    """Convert an untyped value, also a text, to a number that is not negative."""
    if isinstance(value, str) and re.fullmatch(r"\d{1,19}(\.\d{1,19})?", value, re.ASCII):
        value = float(value) if "." in value else int(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    if isinstance(value, int) and value.bit_length() > 64:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def as_count(value: Any) -> int | None:
    """Convert an untyped value to an integer that is not negative and that every JSON reader can represent."""
    number = as_number(value)
    return int(number) if number is not None and number < _MAX_NUMBER and number == int(number) else None


def as_moment(value: Any) -> int | None:
    """Convert an untyped value, an ISO 8601 time or a number in any usual unit, to nanoseconds since 1970."""
    if isinstance(value, str) and (moment := ms_from_iso(value)) is not None and not value.isdigit():
        return _micros(value, moment) if 0 <= moment <= LATEST_MS else None
    number = as_number(value)
    if number is None or number == 0:
        return None
    scale = next((scale for least, scale in ((10**17, 1), (10**14, 10**3), (10**11, 10**6)) if number >= least), 10**9)
    nanoseconds = int(number) if scale == 1 else int(number * scale)
    return nanoseconds if nanoseconds // 1_000_000 <= LATEST_MS else None


def as_ms(value: Any) -> int | None:
    """Convert an untyped value of an imported file that is a time, as `as_moment` does, to milliseconds since 1970."""
    moment = as_moment(value)
    return None if moment is None else moment // 1_000_000


def parse_duration(value: Any) -> int | float | None:
    """Convert an untyped value, an ISO 8601 duration such as `PT1M1.95S` or a number of seconds, to milliseconds."""
    if isinstance(value, str) and (parts := _DURATION.fullmatch(value)) and value[-1] not in "PT":
        days, hours, minutes, seconds = (float(part or 0) for part in parts.groups())
        return _round_ms((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
    number = as_number(value)
    return None if number is None else as_duration(number * 1000)


def elapsed_ms(start: int, end: int) -> int | float:
    """Return the milliseconds between two times that `as_moment` returned."""
    return _round_ms((end - start) / 1_000_000)


def as_duration(milliseconds: Any) -> int | float | None:
    """Convert a value of an imported file to a plausible number of milliseconds; None if it is none."""
    number = as_number(milliseconds)
    return None if number is None or number >= _MAX_NUMBER else _round_ms(number)


def parse_json(value: Any) -> Any:
    """Decode a text that is a JSON object or list; return anything else unchanged."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _micros(text: str, milliseconds: int) -> int:
    """Return the time in nanoseconds, with the digits after the milliseconds taken from the text."""
    fraction = re.search(r":\d\d[.,](\d{1,9})", text)
    digits = fraction[1].ljust(9, "0") if fraction else "000000000"
    return milliseconds * 1_000_000 + int(digits[3:])


def _round_ms(milliseconds: float) -> int | float:
    """Round to microseconds, to an integer if possible."""
    rounded = round(milliseconds, 3)
    return int(rounded) if rounded == int(rounded) else rounded
