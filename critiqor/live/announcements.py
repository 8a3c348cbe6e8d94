"""Announcements of findings while a run is recorded: once when they are certain enough, and when they change.

A finding is certain enough once it is of at least medium severity and has been there for a moment. Failures after which
an agent usually tries again by itself must last longer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import msgspec

from critiqor.live.verdict import LiveFinding, LiveVerdict

SETTLE_SECONDS = 0.5
"""How long a finding must be there before it is announced."""
RETRY_SECONDS = 10.0
"""The same for a failure after which an agent usually tries again, and for records that may only be late."""
_PASSING = frozenset(("provider_failure", "agent_failure", "timeout", "context_pollution", "records_lost"))

Kind = Literal["new", "updated", "withdrawn"]


class Announcement(msgspec.Struct, frozen=True, kw_only=True):
    """News about a finding, for notifiers. Its texts may quote the agent."""

    run_id: str
    kind: Kind
    """`updated`: its severity has changed; `withdrawn`: the agent has recovered."""
    finding: LiveFinding
    """Its `id` stays the same while the run is recorded."""
    command: str
    """What to type next."""
    at: str
    """UTC, ISO 8601."""


class Announcer:
    """Compares verdicts of one run, and returns what is to be announced."""

    def __init__(self, run_id: str, announced: Iterable[LiveFinding] = ()) -> None:
        self._run_id = run_id
        self._announced = {finding.id: finding for finding in announced}
        """What was announced and not withdrawn."""
        self._due: dict[str, float] = {}
        """When each finding that was not announced yet can be announced."""

    @property
    def due_at(self) -> float:
        """When the next finding that waits can be announced; infinite if none waits."""
        return min(self._due.values(), default=math.inf)

    @property
    def announced(self) -> list[str]:
        """Ids of the findings that were announced and not withdrawn."""
        return list(self._announced)

    def update(self, verdict: LiveVerdict, now: float) -> list[Announcement]:
        """Return what is new in a verdict; `now` is in seconds, of a clock that never goes back."""
        current = {finding.id: finding for finding in verdict.findings}
        is_over = verdict.state == "ended"
        news = []
        for known in list(self._announced.values()):
            if known.id not in current:
                del self._announced[known.id]
                # One that only did not fit into a long list has not gone.
                if not verdict.findings_left_out:
                    news.append(self._announcement("withdrawn", known, verdict))
        for finding in current.values():
            before = self._announced.get(finding.id)
            if before is not None:
                if before.severity != finding.severity:
                    news.append(self._announcement("updated", finding, verdict))
                self._announced[finding.id] = finding
            elif is_over or now >= self._due.setdefault(finding.id, now + _settling(finding)):
                self._announced[finding.id] = finding
                news.append(self._announcement("new", finding, verdict))
        self._due = {key: due for key, due in self._due.items() if key in current and key not in self._announced}
        return news

    def _announcement(self, kind: Kind, finding: LiveFinding, verdict: LiveVerdict) -> Announcement:
        verb = "finalize" if verdict.state == "ended" else "watch"
        command = f"critiqor {verb} {self._run_id}"
        return Announcement(run_id=self._run_id, kind=kind, finding=finding, command=command, at=verdict.updated_at)


def _settling(finding: LiveFinding) -> float:
    return RETRY_SECONDS if finding.type in _PASSING else SETTLE_SECONDS
