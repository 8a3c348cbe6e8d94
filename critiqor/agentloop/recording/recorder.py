"""Recorder of the embedded loop: writes what its agent runs do into the journal of a recording.

The loop reports to a `RunRecording` directly; only saved messages and a few hooks are received through listeners.
Recording never raises and never waits; something that could not be recorded leaves a gap in the numbering of records.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import platform
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from weakref import WeakValueDictionary

from critiqor import __version__
from critiqor.agentloop.recording.journal_writer import JournalWriter
from critiqor.agentloop.recording.run_recording import NOT_RECORDED, RunRecording
from critiqor.agentloop.recording.segments import POLL_SECONDS, Segments
from critiqor.errors import UsageError
from critiqor.storage import paths_for

VERSION = f"critiqor-agentloop {__version__}"
"""Recorded in the place of OpenClaw's version."""
RECORDED_HOOKS = (
    "session_start",
    "session_end",
    "message_received",
    "message_sent",
    "user_bash",
    "gateway_start",
    "gateway_stop",
    "before_reset",
    "subagent_spawned",
    "subagent_ended",
)
"""Hooks that are recorded under their own name, with their event as payload."""
MAX_SESSIONS = 1_000
"""Sessions whose latest run is remembered."""

Facts = Mapping[str, Any]


class _Hooks(Protocol):
    """The part of the plugin hooks that the recorder needs."""

    def on(self, name: str, handler: Callable[[dict[str, Any], dict[str, Any]], None], priority: int = 0) -> object:
        """Call `handler` with every event of that name and its context."""
        ...


class _Transcripts(Protocol):
    """The part of the transcript updates that the recorder needs."""

    def on_transcript(self, listener: Callable[[dict[str, Any]], None]) -> object:
        """Call `listener` with every message that is saved."""
        ...


class Recorder:
    """Records the agent runs of this process. Without a journal it does nothing."""

    def __init__(self, segments: Segments | None) -> None:
        self._segments = segments
        self._announcement: dict[str, Any] | None = None
        self._poll: asyncio.TimerHandle | None = None
        self._runs: WeakValueDictionary[str, RunRecording] = WeakValueDictionary()
        """Runs in progress by their id. Each is kept alive by the run that it belongs to."""
        self._latest_run: dict[str, str] = {}
        """Id of the latest run of each session; the most recently used session is last."""

    @property
    def lost(self) -> int:
        """Number of records that the recorder could not write."""
        return sum(segment.journal.lost for segment in self._segments.all) if self._segments is not None else 0

    @property
    def _journal(self) -> JournalWriter | None:
        return self._segments.current.journal if self._segments is not None else None

    def attach(self, hooks: _Hooks, transcripts: _Transcripts, event_source: str | None = None) -> None:
        """Announce the recorder and start to listen.

        The announcement is the evidence that the run was recorded.
        """
        self._announcement = {
            "mode": "full",
            "sources": {"hooks": True, "agent_events": True, "transcript": True},
            "plugin_version": __version__,
            "openclaw_version": VERSION,
            "node_version": None,
            "python_version": platform.python_version(),
            "pid": os.getpid(),
            "parent_pid": os.getppid(),
            "event_source": event_source,
        }
        self._announce()
        for name in RECORDED_HOOKS:
            hooks.on(name, self._handler(name))
        transcripts.on_transcript(self._message_saved)

        if self._segments is not None and self._segments.is_cut:
            with contextlib.suppress(
                RuntimeError
            ):  # without an event loop, only agent runs that begin look at the slot
                self._poll_later(asyncio.get_running_loop())

    def _announce(self) -> None:
        redaction = self._journal.redaction if self._journal is not None else None
        RunRecording(self._journal).notice("recorder_attached", {**(self._announcement or {}), "redaction": redaction})

    def _poll_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self.follow()
        self._poll = loop.call_later(POLL_SECONDS, self._poll_later, loop)

    def follow(self) -> None:
        """Go on in the next run of the recording once it is cut, and leave earlier ones when nothing goes on there."""
        segments = self._segments
        if segments is None or not segments.is_cut or segments.current.journal.is_closed:
            return
        # An exception here would end the agent.
        with contextlib.suppress(Exception):
            if segments.follow():
                self._announce()
            segments.close_left(self._runs.values())

    def open_run(self, run_id: str, session_key: str) -> RunRecording:
        """Return the recording of a new agent run."""
        self.follow()
        if self._journal is None:
            return NOT_RECORDED
        recording = self._runs[run_id] = RunRecording(self._journal, run_id, session_key)
        self._latest_run.pop(session_key, None)
        self._latest_run[session_key] = run_id
        if len(self._latest_run) > MAX_SESSIONS:
            del self._latest_run[next(iter(self._latest_run))]
        return recording

    def close(self) -> None:
        """Close the journal. Nothing is recorded after that."""
        if self._poll is not None:
            self._poll.cancel()
        for segment in self._segments.all if self._segments is not None else ():
            if not segment.journal.is_closed:
                segment.journal.close()
                if not segment.journal.is_sealed:
                    segment.view.finish()

    def _handler(self, name: str) -> Callable[[dict[str, Any], dict[str, Any]], None]:
        return lambda event, context: self._find_run(event, context).notice(name, event)

    def _message_saved(self, update: dict[str, Any]) -> None:
        self._find_run(update, {}).message_saved(update["message"], update.get("messageId"))

    def _find_run(self, event: Facts, context: Facts) -> RunRecording:
        # The event of a subagent hook has the run and session of the child in addition to those of the parent.
        session_key = _first(event, "childSessionKey", "targetSessionKey", "sessionKey")
        session_key = session_key or _first(context, "sessionKey")
        run_id = _first(event, "runId") or _first(context, "runId") or self._latest_run.get(session_key or "")
        known = self._runs.get(run_id) if run_id is not None else None
        return RunRecording(self._journal, run_id, session_key) if known is None else known


def attach_recorder(hooks: _Hooks, transcripts: _Transcripts, environment: Mapping[str, str]) -> Recorder:
    """Return a recorder for the recording that CRITIQOR_RUN_ID and CRITIQOR_RUNS_DIR name.

    Without these variables the recorder does nothing. It is closed when the process exits, if not earlier.
    """
    run_id, runs_dir = environment.get("CRITIQOR_RUN_ID", ""), environment.get("CRITIQOR_RUNS_DIR", "")
    paths = paths_for(runs_dir)
    try:
        recorder = Recorder(Segments(paths, run_id, environment) if runs_dir else None)
    except UsageError:
        return Recorder(None)
    if not runs_dir:
        return recorder
    recorder.attach(hooks, transcripts, environment.get("CRITIQOR_EVENT_SOURCE"))
    atexit.register(recorder.close)
    return recorder


def _first(source: Facts, *names: str) -> str | None:
    for name in names:
        value = source.get(name)
        if isinstance(value, str) and value:
            return value
    return None
