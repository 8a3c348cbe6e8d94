"""What the recorder and the supervisor saw, as slices of time: agent runs, turns, model calls, tools, and the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeGuard

import msgspec

from critiqor.model.event import Event, EventType
from critiqor.model.resources import ResourceUsage
from critiqor.model.trace import Category, Counter, Fact, Instant, Part, Slice, Track, label, us_of
from critiqor.spans.facts import facts_of
from critiqor.spans.open_work import AgentRun, Begun
from critiqor.spans.pairing import Pairing

SUPERVISOR = "supervisor"
FIRST_LOOK_SECONDS = 0.5
"""Memory is first looked at that long after the process began, or after an interval if that is shorter."""


def is_retry(part: Part) -> TypeGuard[Slice | Instant]:
    """Whether something was done again: an agent run attempted once more, or a request that its provider refused."""
    if isinstance(part, Slice) and part.category == "agent":
        attempt = part.facts.get("attempt")
        return isinstance(attempt, int | float) and attempt > 1
    return isinstance(part, Instant) and part.category == "event" and part.name == "provider_retry"


def activity(events: Iterable[Event]) -> Iterator[Part]:
    """The parts of a trace that events tell, which come in their true order."""
    seen = _Activity()
    for event in events:
        seen.observe(event)
        yield from seen.told()
    seen.finish()
    yield from seen.told()


class _Activity(Pairing[Part]):
    def __init__(self) -> None:
        super().__init__()
        self._process: Begun | None = None
        self._launched: int | None = None

    def finish(self) -> None:
        super().finish()
        if self._process is not None:
            self._process_over(None, {}, failed=False)

    def _over(
        self,
        run: AgentRun,
        begun: Begun,
        category: Category,
        depth: int,
        end: int | None,
        *,
        finished: bool = True,
        failed: bool = False,
    ) -> None:
        self._told.append(
            Slice(
                track=run.track,
                name=begun.name,
                category=category,
                start_us=begun.start,
                end_us=end,
                depth=depth,
                family=run.family,
                finished=finished,
                failed=failed,
                facts=begun.facts,
            )
        )

    def _aside(self, event: Event, at: int) -> None:
        self._instant(self._track_of(event), event, at)

    def _instant(self, track: Track, event: Event, at: int) -> None:
        name, facts = label(event.event_type), facts_of(event)
        self._told.append(Instant(track=track, name=name, category="event", at_us=at, facts=facts))

    def _supervised(self, event: Event, at: int) -> None:
        kind = event.event_type
        if kind == EventType.PROCESS_START:
            pid = event.payload.get("pid")
            self._launched = pid if isinstance(pid, int) else None
            self._process = Begun("process", at, facts_of(event))
        elif kind == EventType.PROCESS_END:
            self._process_over(at, facts_of(event), failed=event.payload.get("exit_code") not in (None, 0))
        elif kind == "resource_usage":
            self._resources(event, at)
        else:
            self._instant(Track(None, SUPERVISOR), event, at)

    def _process_over(self, at: int | None, facts: dict[str, Fact], *, failed: bool) -> None:
        begun = self._process or Begun("process", at or 0, {})
        self._process = None
        self._told.append(
            Slice(
                track=Track(self._launched, "process"),
                name=begun.name,
                category="process",
                start_us=begun.start,
                end_us=at,
                finished=at is not None,
                failed=failed,
                facts={**facts, **begun.facts},
            )
        )

    def _resources(self, event: Event, at: int) -> None:
        """The series says how long after its first look, not when that was."""
        try:
            usage = msgspec.convert(event.payload, ResourceUsage)
        except msgspec.ValidationError:
            return
        if self._process is not None:
            first = self._process.start + us_of(min(usage.interval_seconds, FIRST_LOOK_SECONDS) * 1000)
        else:
            first = at - us_of(max((point.seconds for point in usage.series), default=0) * 1000)
        for point in usage.series:
            moment = us_of(first / 1000 + point.seconds * 1000)
            figures = {"": round(point.rss_bytes / (1 << 20), 3)}
            counter = Counter(pid=None, name="memory of all processes", unit="MiB", at_us=moment, figures=figures)
            self._told.append(counter)
