"""Failures of different calls and tools that have one cause, such as a full disk, until something is done about it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable

from critiqor.diagnosis.drafts.call_groups import CallGroup
from critiqor.diagnosis.signals.causes import missing_place
from critiqor.diagnosis.signals.errors import reports_absence
from critiqor.spans.calls import Kind, ToolCall, command_line

MIN_FAILURES = 4
"""Minimum number of failures with one cause."""
MIN_ATTEMPTS = 3
"""Minimum number of them that were attempts to do something; a search that fails may be a diagnosis."""
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


PHRASE = 7
"""Number of words in a row that failures with one cause have in common, if the cause has no name."""
_BOILERPLATE = re.compile(r"^\W*(?:traceback\b|file \"|at \S+[ (]|usage:|hint:|note:|caused by:?$).*", re.MULTILINE)
"""Lines that errors of any cause have."""
_WORD = re.compile(r"[^\W\d_]+|\d+")


def _phrases(call: ToolCall) -> dict[str, None]:
    """Return all sequences of `PHRASE` words in what a failed call printed, in order; numbers are equal."""
    text = _BOILERPLATE.sub(" ", (call.output or call.error or "").lower())
    words = ["#" if word.isdigit() else word for word in _WORD.findall(text)]
    return dict.fromkeys(" ".join(words[at : at + PHRASE]) for at in range(len(words) - PHRASE + 1))


class CauseGroup(CallGroup):
    """Failures with one cause."""

    __slots__ = ("attempts", "cause", "phrases")

    def __init__(self, first: ToolCall) -> None:
        super().__init__(first)
        self.cause = first.cause
        self.phrases: dict[str, None] = {}
        """What the outputs of all of them say, if the cause has no name."""
        self.attempts = int(not _is_look(first))

    def add(self, call: ToolCall) -> None:
        super().add(call)
        self.attempts += not _is_look(call)

    @property
    def description(self) -> str:
        """The common cause of repeated failures in words: its name, or what the output of the first one says."""
        if not self.phrases:
            return self.cause
        words = (r"\d+" if word == "#" else re.escape(word) for word in self.cause.split())
        said = self.first.output or self.first.error or ""
        found = re.search(r"[\W_]+".join(words), said, re.IGNORECASE)
        return said[found.start() :] if found else self.cause

    @property
    def is_reported(self) -> bool:
        """Whether there are enough failures of different calls."""
        return len(self) >= MIN_FAILURES and self.attempts >= MIN_ATTEMPTS and len(self.distinct) > 1


def _is_look(call: ToolCall) -> bool:
    """Return whether a call only finds out whether something is there, or can be reached."""
    is_search = bool(missing_place(call.cause)) or reports_absence(call.error or "")
    return (is_search and call.kind in _LOOKING) or _PROBE.match(command_line(call.arguments)) is not None


class CommonCauses:
    """Groups failures by cause. A call that had an effect ends all groups, because it may have removed the cause."""

    def __init__(self) -> None:
        self._open: dict[str, CauseGroup] = {}
        self._missing: deque[ToolCall] = deque(maxlen=MAX_MISSING)
        """Failures because something does not exist: only together they show which folder is missing."""
        self._alike: list[CauseGroup] = []
        """Failures whose outputs say the same."""
        self._past: list[CauseGroup] = []

    def failed(self, call: ToolCall) -> None:
        """Add a failure: to those with the same cause or, if it names none, to those whose outputs say the same."""
        if missing_place(call.cause):
            self._missing.append(call)
            return
        if not call.cause:
            self._failed_alike(call)
        elif call.cause in self._open:
            self._open[call.cause].add(call)
        else:
            self._open[call.cause] = CauseGroup(call)
        if len(self._open) > MAX_OPEN:
            self._close(self._open.pop(next(iter(self._open))))

    def _failed_alike(self, call: ToolCall) -> None:
        phrases = _phrases(call)
        for group in self._alike:
            shared = {phrase: None for phrase in group.phrases if phrase in phrases}
            if shared:
                group.phrases = shared
                group.cause = next(iter(shared))
                group.add(call)
                return
        if phrases:
            group = CauseGroup(call)
            group.phrases = phrases
            self._alike.append(group)
        if len(self._alike) > MAX_OPEN:
            self._close(self._alike.pop(0))

    def succeeded(self, call: ToolCall) -> None:
        """Note a call that succeeded."""
        if (self._open or self._missing or self._alike) and call.kind not in _LOOKING:
            for group in (*self._open.values(), *_missing_folders(self._missing), *self._alike):
                self._close(group)
            self._open.clear()
            self._alike.clear()
            self._missing.clear()

    def _close(self, group: CauseGroup) -> None:
        if group.is_reported and len(self._past) < MAX_PAST:
            self._past.append(group)

    def found(self) -> list[CauseGroup]:
        """Return the groups that are reported."""
        groups = (*self._open.values(), *_missing_folders(self._missing), *self._alike)
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
