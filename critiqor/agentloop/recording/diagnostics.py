"""Timeline of the embedded loop in the format `openclaw.diagnostics.v1`, as OpenClaw writes it on request.

Writing is best-effort. Lines are written once per iteration of the event loop, so a killed process loses those of its
last iteration, and a full disk loses lines but disturbs nothing else. Without a timeline there is no cost.
"""

from __future__ import annotations

import os
import re
import secrets
import time
import uuid
from collections.abc import Mapping
from contextvars import ContextVar, Token
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from critiqor.agentloop.recording.loop_delays import LoopDelays
from critiqor.agentloop.recording.timeline_file import TimelineFile
from critiqor.model import iso_from_ms, now_ms
from critiqor.storage.redaction import Redactor

SCHEMA = "openclaw.diagnostics.v1"
TURN = "agent.turn"
_PHASES = {TURN: "agent-turn", "agent.prepare": "agent.prepare", "agent.cleanup": "agent.cleanup"}
_STARTUP = "startup"
"""Phase of spans that are not part of a turn."""
_EVERY = frozenset(("1", "true", "all", "*"))
_NONE = frozenset(("0", "false", "off", "none"))
_TIMELINE = frozenset(("timeline", "timeline.*", "diagnostics.timeline", "diagnostics.*"))
_YES = frozenset(("1", "on", "true", "yes"))
_MAX_MESSAGE_CHARS = 500
_ASSIGNMENT = re.compile(r"\w+=[^\s\"'`$()<>|&;]*")
_PROGRAM = re.compile(r"[\w./+-]{1,128}")
_current_span: ContextVar[DiagnosticsSpan | None] = ContextVar("critiqor_agentloop_span", default=None)


class DiagnosticsSpan:
    """A timed operation, used as a `with` block; it has failed if the block raises or calls `fail`."""

    __slots__ = ("_began", "_diagnostics", "_failure", "_token", "attributes", "name", "parent_id", "phase", "span_id")

    def __init__(
        self,
        diagnostics: Diagnostics,
        name: str,
        phase: str | None,
        parent: DiagnosticsSpan | None,
        attributes: dict[str, Any],
    ) -> None:
        self._diagnostics = diagnostics
        self._began = 0.0
        self._token: Token[DiagnosticsSpan | None] | None = None
        self._failure: tuple[str, str] | None = None
        self.name = name
        self.phase = phase
        self.parent_id = parent.span_id if parent is not None else None
        self.span_id: str | None = str(uuid.uuid4()) if diagnostics.enabled else None
        self.attributes = attributes
        """Additional attributes; those set before the span ends are written on its last line."""

    def __enter__(self) -> DiagnosticsSpan:
        if self._diagnostics.enabled:
            self._began = time.perf_counter()
            self._token = _current_span.set(self)
            self._diagnostics._span_started(self)
        return self

    def fail(self, name: str, message: str) -> None:
        """Mark the operation as failed, with the name and message of its error, although its block does not raise."""
        if self._token is not None:
            self._failure = (name, message)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is None:
            return
        duration_ms = (time.perf_counter() - self._began) * 1000
        try:
            _current_span.reset(self._token)
        except ValueError:
            _current_span.set(None)  # the block was left in another task than it was entered in
        self._token = None
        failure = self._failure if error is None else (type(error).__name__, str(error))
        self._diagnostics._span_ended(self, duration_ms, failure)


class Diagnostics:
    """Writes the timeline of this process. Without a path it does nothing."""

    def __init__(
        self, path: Path | None, *, run_id: str | None = None, env_name: str | None = None, event_loop: bool = False
    ) -> None:
        self.enabled = path is not None
        """Whether a timeline is written at all."""
        self._file = TimelineFile(path) if path is not None else None
        always = {"runId": run_id or None, "envName": env_name or None, "pid": os.getpid()}
        self._common_fields = {name: value for name, value in always.items() if value is not None}
        self._redactor = Redactor(secrets.token_bytes(16))
        self._open: dict[str, DiagnosticsSpan] = {}
        self._delays = LoopDelays(self._write_sample) if event_loop and self.enabled else None

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> Diagnostics:
        """Return the timeline that OpenClaw's variables request, or one that does nothing."""
        flags = {flag.lower() for flag in re.split(r"[\s,]+", environment.get("OPENCLAW_DIAGNOSTICS", "")) if flag}
        path = environment.get("OPENCLAW_DIAGNOSTICS_TIMELINE_PATH")
        if not path or flags & _NONE or not flags & (_EVERY | _TIMELINE):
            return Diagnostics(None)
        return Diagnostics(
            Path(path),
            run_id=environment.get("OPENCLAW_DIAGNOSTICS_RUN_ID"),
            env_name=environment.get("OPENCLAW_DIAGNOSTICS_ENV"),
            event_loop=environment.get("OPENCLAW_DIAGNOSTICS_EVENT_LOOP", "").lower() in _YES,
        )

    def span(
        self,
        name: str,
        phase: str | None = None,
        parent: DiagnosticsSpan | None = None,
        run_id: str | None = None,
        **attributes: Any,
    ) -> DiagnosticsSpan:
        """Return a span for a `with` block.

        Its parent is `parent`, or the current span of the task. A turn has no parent, not even the turn of a subagent.
        `run_id` is the agent run that the span stands for.
        """
        if not self.enabled:
            return _NO_SPAN
        if run_id is not None:
            attributes["runId"] = run_id
        if parent is None and name != TURN:
            parent = _current_span.get()
        phase = phase or _PHASES.get(name) or (parent.phase if parent is not None else _STARTUP)
        return DiagnosticsSpan(self, name, phase, parent, attributes)

    def mark(self, name: str, *, run_id: str | None = None, span_id: str | None = None, **attributes: Any) -> None:
        """Write a point in time."""
        self._write("mark", name, now_ms(), run_id, spanId=span_id, attributes=attributes)

    def gateway_ready(self, duration_ms: float) -> None:
        """Write that clients can connect, and how long the process took until then."""
        self._write("mark", "gateway.ready", now_ms(), None, phase=_STARTUP, durationMs=round(duration_ms, 3))

    def request_started(self, run_id: str, call_id: str) -> None:
        """Write the start of a request to a provider."""
        self.mark("provider.request.started", run_id=run_id, span_id=call_id)

    def request(
        self,
        provider: str,
        operation: str,
        model: str,
        run_id: str,
        call_id: str,
        started_ms: float,
        duration_ms: float,
        ok: bool,
        status: int | None = None,
        **attributes: Any,
    ) -> None:
        """Write a request to a provider that has ended; `started_ms` is its start in milliseconds since 1970."""
        self._write(
            "provider.request",
            "provider.request",
            started_ms,
            run_id,
            spanId=call_id,
            durationMs=round(duration_ms, 3),
            provider=provider,
            operation=operation,
            ok=ok,
            status=status,
            attributes={"model": model, "terminalAtMs": round(started_ms + duration_ms), **attributes},
        )

    def child_exited(
        self,
        command: str,
        duration_ms: float,
        exit_code: int | None,
        signal: str | None,
        run_id: str | None = None,
    ) -> None:
        """Write the exit of a process, with only the program of its command: arguments may contain secrets.

        `run_id` is the agent run whose tool started the process.
        """
        name = "childProcess.exit"
        self._write(
            name,
            name,
            now_ms(),
            None,
            command=_program_of(command),
            durationMs=round(duration_ms, 3),
            exitCode=exit_code,
            signal=signal,
            attributes={} if run_id is None else {"runId": run_id},
        )

    def tool_ended(self, name: str, arguments: Mapping[str, Any], details: Mapping[str, Any], run_id: str) -> None:
        """Write the exit of the command of an exec call; do nothing for other tools."""
        if not self.enabled or name != "exec":
            return
        code, signal = details.get("exitCode"), details.get("exitSignal")
        code, signal = code if isinstance(code, int) else None, signal if isinstance(signal, str) else None
        duration_ms = details.get("durationMs")
        # Without these the command was never started or is still running.
        if (code is not None or signal is not None) and isinstance(duration_ms, int | float):
            self.child_exited(str(arguments.get("command", "")), duration_ms, code, signal, run_id)

    def flush(self) -> None:
        """Write the pending lines."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Write the pending lines and stop measuring the event loop."""
        if self._delays is not None:
            self._delays.stop()
        if self._file is not None:
            self._file.close()

    def _span_started(self, span: DiagnosticsSpan) -> None:
        self._open[span.span_id or ""] = span
        self._write("span.start", span.name, now_ms(), None, **_span_facts(span))

    def _span_ended(self, span: DiagnosticsSpan, duration_ms: float, failure: tuple[str, str] | None) -> None:
        self._open.pop(span.span_id or "", None)
        if self._delays is not None:
            self._delays.span_ended(span.name, duration_ms)
        facts = {**_span_facts(span), "durationMs": round(duration_ms, 3)}
        if failure is None:
            self._write("span.end", span.name, now_ms(), None, **facts)
            return
        name, message = failure
        text = self._redactor.text(message[:_MAX_MESSAGE_CHARS])
        self._write("span.error", span.name, now_ms(), None, **facts, errorName=name, errorMessage=text)

    def _write_sample(self, figures: dict[str, float], active: str | None) -> None:
        self._write("eventLoop.sample", "eventLoop", now_ms(), None, **figures, activeSpanName=active)

    def _write(self, kind: str, name: str, at_ms: float, run_id: str | None, **facts: Any) -> None:
        if self._file is None:
            return
        line: dict[str, Any] = {
            "schemaVersion": SCHEMA,
            "type": kind,
            "timestamp": iso_from_ms(int(at_ms)),
            "name": name,
            **self._common_fields,
        }
        if run_id is not None:
            line["runId"] = run_id
        line.update((key, value) for key, value in facts.items() if value is not None and value != {})
        try:
            data = msgspec.json.encode(line, enc_hook=str)
        except Exception:  # an unexpected attribute must not disturb the agent
            return
        self._file.append(data + b"\n")
        if self._delays is not None and kind != "eventLoop.sample":
            self._delays.note_activity(next(reversed(self._open.values())).name if self._open else None)


_NO_SPAN = DiagnosticsSpan(Diagnostics(None), "", None, None, {})


def _program_of(command: str) -> str:
    """Return the program that a shell command starts with; `sh` if that is not obvious."""
    for word in command.split():
        if not _ASSIGNMENT.fullmatch(word):
            return word.rpartition("/")[2] or word if _PROGRAM.fullmatch(word) else "sh"
    return "sh"


def _span_facts(span: DiagnosticsSpan) -> dict[str, Any]:
    ids = {"spanId": span.span_id, "parentSpanId": span.parent_id}
    return {"phase": span.phase, **ids, "attributes": span.attributes}
