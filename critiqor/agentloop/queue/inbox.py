"""Queue modes: what becomes of a message that comes while its session is busy.

- steer: it goes into the run that is under way, which tells the model at the next opportunity.
- followup: it waits and gets a run of its own.
- collect: it waits, and everything that waits for the same place is answered by one run.
- interrupt: the run under way is ended, and so is everything that waits; then it gets its run.

A queue has a cap. What is over it is refused, forgotten, or kept as one line of a summary.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from critiqor.agentloop.runs import Abort, Run
from critiqor.agentloop.settings import QueueMode, QueueSettings
from critiqor.errors import CritiqorError

SUMMARY_CHARS = 160
MOST_SUMMARIES = 50


class QueueFullError(CritiqorError):
    """Too many messages wait in a session."""


class Inbox:
    """The messages of one session."""

    def __init__(self, settings: QueueSettings, drop: Callable[[Run, str], None]) -> None:
        self._settings = settings
        self._drop = drop
        """Ends a message that nobody will answer."""
        self.active: Run | None = None
        """The run under way."""
        self._waiting: dict[str, QueueMode | None] = {}
        self._runs: dict[str, Run] = {}
        self._forgotten: list[str] = []
        self._arrived = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether nothing goes on in the session."""
        return self.active is None and not self._runs

    @property
    def waiting(self) -> list[Run]:
        """Runs that wait for their turn, oldest first."""
        return list(self._runs.values())

    def place(self, run: Run, mode: QueueMode | None, abort: Callable[[Run, Abort], object]) -> Run | None:
        """Find a place for a message: the run that answers it as well, or None for a run of its own.

        None as its mode is for a message that waits for its turn, without rules.
        """
        if mode is not None:
            self._arrived = asyncio.get_running_loop().time()
        if mode is None or self.is_idle:
            self._add(run, None)
            return None
        if mode == "steer" and self.active is not None and self.active.takes_steering:
            self.active.steering.append(run)
            return self.active
        if mode == "interrupt":
            for other in (*self.waiting, *([self.active] if self.active is not None else [])):
                abort(other, Abort("interrupted", "a newer message took its place"))
            self._add(run, None)
            return None
        self._make_room()
        host = self._collecting(run) if mode == "collect" else None
        if host is not None:
            host.joined.append(run)
            return host
        self._add(run, mode)
        return None

    async def quiet(self, run: Run) -> None:
        """Wait until no message has come for a while, for a run that had to wait itself."""
        if self._waiting.get(run.id) is None:
            return
        clock = asyncio.get_running_loop().time
        while (pause := self._arrived + self._settings.debounce_ms / 1000 - clock()) > 0:
            await asyncio.sleep(pause)

    def begin(self, run: Run) -> None:
        """It is this run's turn: what it is to answer is settled now."""
        self.leave(run)
        self.active = run
        texts = [text for text in (run.message, *(joined.message for joined in run.joined)) if text]
        if run.joined:
            listed = "\n\n".join(f"--- message {number}\n{text}" for number, text in enumerate(texts, 1))
            run.message = f"Several messages came while you were busy. Answer all of them.\n\n{listed}"
        if self._forgotten:
            lines = "\n".join(f"- {line}" for line in self._forgotten)
            run.message = f"Earlier messages were left out because too many waited:\n{lines}\n\n{run.message}"
            self._forgotten = []

    def leave(self, run: Run) -> None:
        """It no longer waits."""
        self._waiting.pop(run.id, None)
        self._runs.pop(run.id, None)

    def end(self, run: Run) -> list[Run]:
        """It is over; returns the messages that it was to answer and did not, which wait for their own turn now."""
        self.leave(run)
        if self.active is run:
            self.active = None
        left = [*run.steering]
        run.steering.clear()
        if run.started_at is None:
            left += run.joined
            run.joined = []
        for one in left:
            self._add(one, None)
        return left

    def _add(self, run: Run, mode: QueueMode | None) -> None:
        self._waiting[run.id] = mode
        self._runs[run.id] = run

    def _collecting(self, run: Run) -> Run | None:
        """A run that waits with messages for the same place."""
        for other in self._runs.values():
            same = (other.params.channel, other.params.to) == (run.params.channel, run.params.to)
            if same and self._waiting.get(other.id) == "collect":
                return other
        return None

    def _make_room(self) -> None:
        settings = self._settings
        # Those without a mode wait by nobody's rules but their own.
        while runs := [run for run in self._runs.values() if self._waiting[run.id] is not None]:
            if sum(bool(run.message) + len(run.joined) for run in runs) < settings.cap:
                return
            if settings.drop == "new":
                raise QueueFullError(
                    f"{settings.cap} messages wait in this session already", fix="wait, or raise messages.queue.cap"
                )
            # A run that others have joined stays for their sake, without its own words or theirs who came next.
            run = runs[0]
            oldest = run if run.message or not run.joined else run.joined.pop(0)
            if settings.drop == "summarize":
                self._forgotten.append(" ".join(oldest.message.split())[:SUMMARY_CHARS])
                del self._forgotten[:-MOST_SUMMARIES]
            if run.joined and oldest is run:
                run.message = ""
            else:
                self.leave(oldest)
                self._drop(oldest, "too many messages waited in this session")
