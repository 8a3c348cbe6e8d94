"""Values of any type made into what they are meant to be, or None: files of others keep to no schema."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from critiqor.model import ms_from_iso

LATEST_MS = 36**9 - 1
"""The last moment that an event id can hold, in the year 5188."""
_MOST = 1 << 53
_DURATION = re.compile(r"P(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d{1,12})?)S)?)?")


def as_text(value: Any) -> str | None:
    """A text, or a number as one; None for anything else and for nothing."""
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 64 else None


def as_object(value: Any) -> dict[str, Any]:
    """An object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """A list, or an empty one for anything else."""
    return value if isinstance(value, list) else []


def as_number(value: Any) -> int | float | None:
    """A number that is not negative, also where it was written as a text."""
    if isinstance(value, str) and re.fullmatch(r"\d{1,19}(\.\d{1,19})?", value, re.ASCII):
        value = float(value) if "." in value else int(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    if isinstance(value, int) and value.bit_length() > 64:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def as_count(value: Any) -> int | None:
    """A whole number that is not negative and that every reader of JSON can hold."""
    number = as_number(value)
    return int(number) if number is not None and number < _MOST and number == int(number) else None


def as_moment(value: Any) -> int | None:
    """Nanoseconds since 1970 of an ISO 8601 time, or of a number of seconds, milli-, micro- or nanoseconds."""
    if isinstance(value, str) and (moment := ms_from_iso(value)) is not None and not value.isdigit():
        return _micros(value, moment) if 0 <= moment <= LATEST_MS else None
    number = as_number(value)
    if number is None or number == 0:
        return None
    scale = next((scale for least, scale in ((10**17, 1), (10**14, 10**3), (10**11, 10**6)) if number >= least), 10**9)
    nanoseconds = int(number) if scale == 1 else int(number * scale)
    return nanoseconds if nanoseconds // 1_000_000 <= LATEST_MS else None


def as_ms(value: Any) -> int | None:
    """The same in milliseconds."""
    moment = as_moment(value)
    return None if moment is None else moment // 1_000_000


def _micros(text: str, milliseconds: int) -> int:
    """The moment to the microsecond, as far as the text tells it."""
    fraction = re.search(r":\d\d[.,](\d{1,9})", text)
    digits = fraction[1].ljust(9, "0") if fraction else "000000000"
    return milliseconds * 1_000_000 + int(digits[3:])


def as_told_duration(value: Any) -> int | float | None:
    """Milliseconds of an ISO 8601 duration such as `PT1M1.95S`, or of a number of seconds."""
    if isinstance(value, str) and (parts := _DURATION.fullmatch(value)) and value[-1] not in "PT":
        days, hours, minutes, seconds = (float(part or 0) for part in parts.groups())
        return tidy_ms((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
    seconds_told = as_number(value)
    return None if seconds_told is None else as_duration(seconds_told * 1000)


def as_duration(milliseconds: Any) -> int | float | None:
    """A number of milliseconds that can have passed."""
    number = as_number(milliseconds)
    return None if number is None or number >= _MOST else tidy_ms(number)


def tidy_ms(milliseconds: float) -> int | float:
    """To the microsecond, and whole where it is."""
    rounded = round(milliseconds, 3)
    return int(rounded) if rounded == int(rounded) else rounded


_WRAPPED = frozenset({"args", "sanitize_inputs_outputs", "kwargs"})


def unwrapped(arguments: Any) -> Any:
    """The arguments of a tool call themselves: smolagents wraps them together with its own switches."""
    if not isinstance(arguments, dict) or arguments.keys() != _WRAPPED or not isinstance(arguments["kwargs"], dict):
        return arguments
    named, in_order = arguments["kwargs"], arguments["args"]
    return {**named, "args": in_order} if in_order else named


def parsed(value: Any) -> Any:
    """What a text says that is JSON; anything else as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
