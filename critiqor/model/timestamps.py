"""Points in time: milliseconds and microseconds since 1970, `datetime` and ISO 8601."""

from __future__ import annotations

import math
import time
from datetime import UTC, datetime, timedelta


def now_ms() -> int:
    """Return the current time in milliseconds since 1970, UTC."""
    return time.time_ns() // 1_000_000


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_DAY_MS = 86_400_000
_FIRST_MS = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND
_LAST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND


def iso_from_ms(milliseconds: int) -> str:
    """Return a time as UTC, ISO 8601, with three decimals and a Z; times outside the calendar are clamped."""
    moment = _EPOCH + timedelta(milliseconds=max(_FIRST_MS, min(milliseconds, _LAST_MS)))
    return moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def ms_from_iso(text: str) -> int | None:
    """Return milliseconds since 1970, or None if the text is not a time; a time without a zone is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - _EPOCH
    return since.days * _DAY_MS + since.seconds * 1000 + since.microseconds // 1000


def plain_seconds(text: str | None) -> float | None:
    """Return a number of seconds; None if the text is not a number."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


MAX_RETRY_AFTER_SECONDS = 86_400.0


def retry_after_seconds(header: str | None) -> float | None:
    """Return the seconds that the HTTP header `Retry-After` asks to wait, at most a day; it is a number or a date."""
    seconds = plain_seconds(header)
    if seconds is None and header:
        import email.utils

        try:
            seconds = max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
        except (ValueError, OverflowError, OSError):
            return None
    return None if seconds is None else min(seconds, MAX_RETRY_AFTER_SECONDS)


def moment_before(moment: datetime, milliseconds: float) -> datetime:
    """Return the point in time that many milliseconds before another, not before year 1."""
    try:
        return moment - timedelta(milliseconds=milliseconds)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def iso_from_datetime(moment: datetime) -> str:
    """Return a point in time as UTC, ISO 8601, with milliseconds."""
    return iso_from_ms(round(moment.timestamp() * 1000))


NO_TIME_MS = 946_684_800_000
"""Time of events whose source has no times: the beginning of 2000, which cannot be mistaken for a real time."""


def is_real_time(milliseconds: int) -> bool:
    """Return whether a time was recorded; the first day of 2000 only gives events without a time their order."""
    return not NO_TIME_MS <= milliseconds < NO_TIME_MS + _DAY_MS


LATEST_US = (1 << 53) - 1
"""Latest time: beyond it, a double cannot represent microseconds."""


def us_of(milliseconds: float) -> int:
    """Return milliseconds since 1970 as microseconds, within the supported range."""
    return round(min(max(milliseconds, 0.0), LATEST_US / 1000) * 1000)
