"""Failures of different calls and tools that have one cause, such as a full disk, until something is done about it."""

from __future__ import annotations

from critiqor.diagnosis.drafts.call_groups import CallGroup
from critiqor.diagnosis.signals.causes import missing_place
from critiqor.spans.calls import Kind, ToolCall

MIN_FAILURES = 4
"""Minimum number of failures with one cause."""
MIN_ATTEMPTS = 3
"""Minimum number of them that were attempts to do something; a lookup that fails may be a diagnosis."""
MAX_OPEN = 16
"""Maximum number of causes that are tracked at a time; the oldest is dropped first."""
MAX_PAST = 64
"""Maximum number of groups that have ended and are reported."""
_LOOKING = (Kind.LOOKUP, Kind.WAIT)


class CauseGroup(CallGroup):
    """Failures with one cause."""

    __slots__ = ("attempts", "cause")

    def __init__(self, first: ToolCall) -> None:
        super().__init__(first)
        self.cause = first.cause
        self.attempts = int(first.kind not in _LOOKING)

    def add(self, call: ToolCall) -> None:
        super().add(call)
        self.attempts += call.kind not in _LOOKING

    @property
    def is_reported(self) -> bool:
        """Whether there are enough failures of different calls."""
        return len(self) >= MIN_FAILURES and self.attempts >= MIN_ATTEMPTS and len(self.distinct) > 1


class CommonCauses:
    """Groups failures by cause. A call that had an effect ends all groups, because it may have removed the cause."""

    def __init__(self) -> None:
        self._open: dict[str, CauseGroup] = {}
        self._past: list[CauseGroup] = []

    def failed(self, call: ToolCall) -> None:
        """Add a failure with a cause."""
        group = self._find(call.cause)
        if group is not None:
            group.add(call)
            return
        self._open[call.cause] = CauseGroup(call)
        if len(self._open) > MAX_OPEN:
            self._close(self._open.pop(next(iter(self._open))))

    def _find(self, cause: str) -> CauseGroup | None:
        """Return the group of a cause. A missing folder is also the cause if something inside of it is missing."""
        known = self._open.get(cause)
        place = missing_place(cause)
        if known is not None or not place:
            return known
        for name, group in self._open.items():
            other = missing_place(name)
            if other and (place.startswith(f"{other}/") or other.startswith(f"{place}/")):
                if len(place) < len(other):
                    del self._open[name]
                    self._open[cause] = group
                    group.cause = cause
                return group
        return None

    def succeeded(self, call: ToolCall) -> None:
        """Note a call that succeeded."""
        if self._open and call.kind not in _LOOKING:
            for group in self._open.values():
                self._close(group)
            self._open.clear()

    def _close(self, group: CauseGroup) -> None:
        if group.is_reported and len(self._past) < MAX_PAST:
            self._past.append(group)

    def found(self) -> list[CauseGroup]:
        """Return the groups that are reported."""
        return [*self._past, *(group for group in self._open.values() if group.is_reported)]
