"""Which alerts a channel receives, and whether it may be used at a moment. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, time
from fnmatch import fnmatchcase

from critiqor.model.diagnosis import severity_rank
from critiqor.notifications.alert import Alert
from critiqor.notifications.settings import Audience


def is_wanted(alert: Alert, audience: Audience, *, was_announced: bool = False) -> bool:
    """Return whether a channel with these settings receives an alert.

    `was_announced` says whether the channel was used to announce the finding. Then it also receives what becomes of it.
    """
    if alert.kind == "withdrawn":
        return was_announced
    return was_announced or (
        severity_rank(alert.finding.severity) <= severity_rank(audience.min_severity)
        and (not audience.types or alert.finding.type in audience.types)
        and _matches(alert.agent_id, audience.agents)
        # A failure of the process or the recording counts for every session.
        and (alert.session_key is None or _matches(alert.session_key, audience.sessions))
    )


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def quiet_until(audience: Audience, moment_ms: int) -> str | None:
    """Return the local time at which the quiet hours end, as text; None if a moment is not within them."""
    if audience.quiet_hours is None:
        return None
    begin, end = map(time.fromisoformat, audience.quiet_hours.split("-"))
    now = datetime.fromtimestamp(moment_ms / 1000).time()
    # Hours such as 22:00-07:00 contain midnight.
    is_quiet = begin <= now < end if begin <= end else now >= begin or now < end
    return end.isoformat("minutes") if is_quiet else None
