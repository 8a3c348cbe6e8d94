"""Failures of different calls and tools that have one cause, such as a full disk, until something is done about it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable

from critiqor.diagnosis.drafts.call_groups import CallGroup
from critiqor.diagnosis.signals.causes import missing_place
from critiqor.spans.calls import Kind, ToolCall, command_line

MIN_FAILURES = 4
"""Minimum number of failures with one cause."""
MIN_ATTEMPTS = 3
"""Minimum number of them that were attempts to do something; a lookup that fails may be a diagnosis."""
MAX_OPEN = 16
"""Maximum number of causes that are tracked at a time; the oldest is dropped first."""
MAX_MISSING = 32
"""Maximum number of failures because of missing files or folders that are compared: the latest ones."""
MAX_PAST = 64
"""Maximum number of groups that have ended and are reported."""
_LOOKING = (Kind.LOOKUP, Kind.WAIT)
_PROBE = re.compile(
    r"(?:sudo |timeout \S+ )*(?:nc|ncat|telnet|traceroute|tracepath|mtr|nslookup|host|dig|ping|nmap|openssl s_client"
    r"|pg_isready|ssh|curl -I|redis-cli ping)\b"
)


class CauseGroup(CallGroup):
    """Failures with one cause."""

    __slots__ = ("attempts", "cause")

    def __init__(self, first: ToolCall) -> None:
        super().__init__(first)
        self.cause = first.cause
        self.attempts = int(not _is_look(first))

    def add(self, call: ToolCall) -> None:
        super().add(call)
        self.attempts += not _is_look(call)

    @property
    def is_reported(self) -> bool:
        """Whether there are enough failures of different calls."""
        return len(self) >= MIN_FAILURES and self.attempts >= MIN_ATTEMPTS and len(self.distinct) > 1


def _is_look(call: ToolCall) -> bool:
    """Return whether a call only finds out whether something is there, or can be reached."""
    return call.kind in _LOOKING or _PROBE.match(command_line(call.arguments)) is not None


class CommonCauses:
    """Groups failures by cause. A call that had an effect ends all groups, because it may have removed the cause."""

    def __init__(self) -> None:
        self._open: dict[str, CauseGroup] = {}
        self._missing: deque[ToolCall] = deque(maxlen=MAX_MISSING)
        """Failures because something does not exist: only together they show which folder is missing."""
        self._past: list[CauseGroup] = []

    def failed(self, call: ToolCall) -> None:
        """Add a failure with a cause."""
        if missing_place(call.cause):
            self._missing.append(call)
            return
        group = self._open.get(call.cause)
        if group is not None:
            group.add(call)
            return
        self._open[call.cause] = CauseGroup(call)
        if len(self._open) > MAX_OPEN:
            self._close(self._open.pop(next(iter(self._open))))

    def succeeded(self, call: ToolCall) -> None:
        """Note a call that succeeded."""
        if (self._open or self._missing) and call.kind not in _LOOKING:
            for group in (*self._open.values(), *_missing_folders(self._missing)):
                self._close(group)
            self._open.clear()
            self._missing.clear()

    def _close(self, group: CauseGroup) -> None:
        if group.is_reported and len(self._past) < MAX_PAST:
            self._past.append(group)

    def found(self) -> list[CauseGroup]:
        """Return the groups that are reported."""
        groups = (*self._open.values(), *_missing_folders(self._missing))
        return [*self._past, *(group for group in groups if group.is_reported)]


def _missing_folders(calls: Iterable[ToolCall]) -> list[CauseGroup]:
    """Return failures in groups: if a folder does not exist, nothing inside of it does."""
    groups: dict[str, CauseGroup] = {}
    places = {missing_place(call.cause) for call in calls}
    for call in calls:
        place = missing_place(call.cause)
        root = min((each for each in places if place == each or place.startswith(f"{each}/")), key=len)
        if root in groups:
            groups[root].add(call)
        else:
            groups[root] = CauseGroup(call)
            groups[root].cause = f"missing {root}"
    return list(groups.values())
