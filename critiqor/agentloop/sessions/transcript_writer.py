"""Exclusive access to the transcript of a run: the lock is held, and open tool calls are closed at the end."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from critiqor.agentloop.runs import Run
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.transcript import Transcript, TranscriptHead, open_transcript
from critiqor.agentloop.sessions.write_lock import LostLockError, acquire

ABORTED = "The agent run ended before this tool finished."


@contextlib.asynccontextmanager
async def locked_transcript(run: Run, services: Services, cwd: str = "") -> AsyncIterator[Transcript]:
    """Open the transcript of a run under its write lock, for the duration of an `async with` block."""
    session = run.session
    wait = services.configuration.write_lock.acquire_timeout_ms / 1000
    lock = run.lock = await acquire(session.transcript, run.id, timeout=wait)
    try:
        if run.has_emitted_end:
            # The run was abandoned while it waited for the lock.
            raise LostLockError("the agent run has ended, so nothing was written", fix="send the message again")
        head = TranscriptHead(session.id, session.key, session.agent_id, cwd)
        transcript = open_transcript(session.transcript, head, lock, services.updates)
        try:
            yield transcript
        finally:
            # On a full disk or a foreign write this fails, and the next run repairs the transcript.
            with contextlib.suppress(Exception):
                transcript.close_open_calls(ABORTED)
    finally:
        lock.release()
