"""Inbox of a session: what happens to a message that arrives while the session is busy, by queue mode.

- steer: the message joins the active run, which passes it to the model before its next call.
- followup: the message waits and gets its own run.
- collect: the message waits, and one run answers all waiting messages of the same channel and recipient.
- interrupt: the active run and all waiting ones are aborted, then the message gets its run.

The queue has a cap. Depending on `messages.queue.drop`, messages above it are rejected, dropped, or dropped with a
summary line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from critiqor.agentloop.runs import Abort, Run
from critiqor.agentloop.settings import QueueMode, QueueSettings
from critiqor.errors import CritiqorError

SUMMARY_CHARS = 160
"""Length of the summary of a dropped message."""
MAX_SUMMARIES = 50


class QueueFullError(CritiqorError):
    """Too many messages are waiting in a session."""


class Inbox:
    """The active run and the waiting messages of one session."""

    def __init__(self, settings: QueueSettings, drop: Callable[[Run, str], None]) -> None:
        self._settings = settings
        self._drop = drop
        """Drops a message that will not be answered; called with the reason."""
        self.active: Run | None = None
        self._modes: dict[str, QueueMode | None] = {}
        """Queue mode of each waiting run, by run id."""
        self._runs: dict[str, Run] = {}
        """Waiting runs by id, oldest first."""
        self._dropped_summaries: list[str] = []
        self._arrived_at = 0.0
        """Time of the last message with a queue mode, by the clock of the event loop, in seconds."""

    @property
    def is_idle(self) -> bool:
        """Whether the session has no active and no waiting run."""
        return self.active is None and not self._runs

    @property
    def waiting(self) -> list[Run]:
        """The waiting runs, oldest first."""
        return list(self._runs.values())

    def add(self, run: Run, mode: QueueMode | None, abort: Callable[[Run, Abort], object]) -> Run | None:
        """Add a message. Return the run that answers it, or None if it gets its own run.

        A message with mode None waits its turn and is never merged or dropped.
        """
        if mode is not None:
            self._arrived_at = asyncio.get_running_loop().time()
        if mode is None or self.is_idle:
            self._enqueue(run, None)
            return None
        if mode == "steer" and self.active is not None and self.active.accepts_steering:
            self.active.steering.append(run)
            return self.active
        if mode == "interrupt":
            for other in (*self.waiting, *([self.active] if self.active is not None else [])):
                abort(other, Abort("interrupted", "interrupted by a newer message"))
            self._enqueue(run, None)
            return None
        self._enforce_cap()
        collector = self._find_collector(run) if mode == "collect" else None
        if collector is not None:
            collector.joined.append(run)
            return collector
        self._enqueue(run, mode)
        return None

    async def wait_until_quiet(self, run: Run) -> None:
        """Wait until no message has arrived for `debounceMs`, if the run was queued with a mode."""
        if self._modes.get(run.id) is None:
            return
        clock = asyncio.get_running_loop().time
        while (pause := self._arrived_at + self._settings.debounce_ms / 1000 - clock()) > 0:
            await asyncio.sleep(pause)

    def begin(self, run: Run) -> None:
        """Make a run the active one, and combine the messages that it answers into its prompt."""
        self.leave(run)
        self.active = run
        texts = [text for text in (run.message, *(joined.message for joined in run.joined)) if text]
        if run.joined:
            listed = "\n\n".join(f"--- message {number}\n{text}" for number, text in enumerate(texts, 1))
            run.message = f"Several messages arrived while you were busy. Answer all of them.\n\n{listed}"
        if self._dropped_summaries:
            lines = "\n".join(f"- {line}" for line in self._dropped_summaries)
            run.message = f"Earlier messages were dropped because too many were waiting:\n{lines}\n\n{run.message}"
            self._dropped_summaries = []

    def leave(self, run: Run) -> None:
        """Remove a run from the waiting ones."""
        self._modes.pop(run.id, None)
        self._runs.pop(run.id, None)

    def end(self, run: Run) -> list[Run]:
        """End a run. Return the messages that it should have answered but did not; they wait for their own runs now."""
        self.leave(run)
        if self.active is run:
            self.active = None
        unanswered = [*run.steering]
        run.steering.clear()
        if run.started_at is None:
            unanswered += run.joined
            run.joined = []
        for message in unanswered:
            self._enqueue(message, None)
        return unanswered

    def _enqueue(self, run: Run, mode: QueueMode | None) -> None:
        self._modes[run.id] = mode
        self._runs[run.id] = run

    def _find_collector(self, run: Run) -> Run | None:
        """Return a waiting run that collects messages of the same channel and recipient."""
        for other in self._runs.values():
            same = (other.params.channel, other.params.to) == (run.params.channel, run.params.to)
            if same and self._modes.get(other.id) == "collect":
                return other
        return None

    def _enforce_cap(self) -> None:
        settings = self._settings
        # Messages without a mode do not count.
        while runs := [run for run in self._runs.values() if self._modes[run.id] is not None]:
            if sum(bool(run.message) + len(run.joined) for run in runs) < settings.cap:
                return
            if settings.drop == "new":
                raise QueueFullError(
                    f"{settings.cap} messages are already waiting in this session",
                    fix="wait, or raise messages.queue.cap",
                )
            # A run that other messages have joined is kept for them: drop its own text first, then the oldest joined
            # message.
            run = runs[0]
            oldest = run if run.message or not run.joined else run.joined.pop(0)
            if settings.drop == "summarize":
                self._dropped_summaries.append(" ".join(oldest.message.split())[:SUMMARY_CHARS])
                del self._dropped_summaries[:-MAX_SUMMARIES]
            if run.joined and oldest is run:
                run.message = ""
            else:
                self.leave(oldest)
                self._drop(oldest, "too many messages were waiting in this session")
