"""Writing to a session: its lock is held, its transcript is open, and it is left consistent whatever happens."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from critiqor.agentloop.runs import Run
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.transcript import Transcript, TranscriptHead, open_transcript
from critiqor.agentloop.sessions.write_lock import LostLockError, acquire

ABORTED = "The run was ended before this tool had finished."


@contextlib.asynccontextmanager
async def writing(run: Run, services: Services, cwd: str = "") -> AsyncIterator[Transcript]:
    """The transcript of a run, for as long as the run is its one writer."""
    session = run.session
    wait = services.configuration.write_lock.acquire_timeout_ms / 1000
    lock = run.lock = await acquire(session.transcript, run.id, timeout=wait)
    try:
        if run.has_told_end:
            # It was left behind while something would not let go of it, and goes on only now.
            raise LostLockError("the run has ended, so nothing was written", fix="send the message again")
        head = TranscriptHead(session.id, session.key, session.agent_id, cwd)
        transcript = open_transcript(session.transcript, head, lock, services.updates)
        try:
            yield transcript
        finally:
            # A disk that is full, or a transcript that somebody else has written to: the next run repairs it.
            with contextlib.suppress(Exception):
                transcript.answer_open_calls(ABORTED)
    finally:
        lock.release()
