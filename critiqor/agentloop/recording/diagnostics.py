"""The timeline of the embedded loop: lines of `openclaw.diagnostics.v1`, as an OpenClaw writes them when asked to.

Writing is best-effort. Lines are gathered and written once a turn of the event loop, so a process that is killed loses
those of its last turn; a full disk loses lines and nothing else. Whoever does not ask for a timeline pays nothing.
"""

from __future__ import annotations

import os
import re
import secrets
import time
import uuid
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import msgspec

from critiqor.agentloop.recording.loop_delays import LoopDelays
from critiqor.agentloop.recording.timeline_file import TimelineFile
from critiqor.model import iso_from_ms, now_ms
from critiqor.storage.redaction import Redactor

SCHEMA = "openclaw.diagnostics.v1"
TURN = "agent.turn"
_PHASES = {TURN: "agent-turn", "agent.prepare": "agent.prepare", "agent.cleanup": "agent.cleanup"}
_STARTUP = "startup"
"""The phase of whatever is not part of a turn."""
_EVERY = frozenset(("1", "true", "all", "*"))
_NONE = frozenset(("0", "false", "off", "none"))
_TIMELINE = frozenset(("timeline", "timeline.*", "diagnostics.timeline", "diagnostics.*"))
_YES = frozenset(("1", "on", "true", "yes"))
_LONGEST_MESSAGE = 500
_ASSIGNMENT = re.compile(r"\w+=[^\s\"'`$()<>|&;]*")
_PROGRAM = re.compile(r"[\w./+-]{1,128}")
_around: ContextVar[Span | None] = ContextVar("critiqor_agentloop_span", default=None)


class Hooks(Protocol):
    """What the timeline wants of plugin hooks."""

    def on(self, name: str, handler: Callable[[dict[str, Any], dict[str, Any]], None], priority: int = 0) -> object:
        """Call `handler` with every event of that name and its context."""
        ...


class Span:
    """A timed operation, from entering to leaving its `with` block; one that raises has failed."""

    __slots__ = ("_began", "_diagnostics", "_token", "attributes", "name", "parent_id", "phase", "span_id")

    def __init__(
        self, diagnostics: Diagnostics, name: str, phase: str | None, parent: Span | None, attributes: dict[str, Any]
    ) -> None:
        self._diagnostics = diagnostics
        self._began = 0.0
        self._token: Token[Span | None] | None = None
        self.name = name
        self.phase = phase
        self.parent_id = parent.span_id if parent is not None else None
        self.span_id: str | None = str(uuid.uuid4()) if diagnostics.enabled else None
        self.attributes = attributes
        """Further facts; what is added before the end is told at the end."""

    def __enter__(self) -> Span:
        if self._diagnostics.enabled:
            self._began = time.perf_counter()
            self._token = _around.set(self)
            self._diagnostics._span_started(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is None:
            return
        duration_ms = (time.perf_counter() - self._began) * 1000
        try:
            _around.reset(self._token)
        except ValueError:
            _around.set(None)  # left in another task than it was entered in
        self._token = None
        self._diagnostics._span_ended(self, duration_ms, error)


class Diagnostics:
    """Writes the timeline of this process. Without a file it does nothing."""

    def __init__(
        self, path: Path | None, *, run_id: str | None = None, env_name: str | None = None, event_loop: bool = False
    ) -> None:
        self.enabled = path is not None
        """Whether a timeline is written at all."""
        self._file = TimelineFile(path) if path is not None else None
        always = {"runId": run_id or None, "envName": env_name or None, "pid": os.getpid()}
        self._always = {name: value for name, value in always.items() if value is not None}
        self._redactor = Redactor(secrets.token_bytes(16))
        self._open: dict[str, Span] = {}
        self._delays = LoopDelays(self._sampled) if event_loop and self.enabled else None

    @staticmethod
    def from_environment(environment: Mapping[str, str]) -> Diagnostics:
        """The timeline that the variables of OpenClaw ask for; one that does nothing where they do not."""
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

    def attach(self, hooks: Hooks) -> None:
        """Tell of the commands that the exec tool has run."""
        if self.enabled:
            hooks.on("after_tool_call", self._tool_ended)

    def span(
        self,
        name: str,
        phase: str | None = None,
        parent: Span | None = None,
        run_id: str | None = None,
        **attributes: Any,
    ) -> Span:
        """A span for a `with` block. It is inside `parent`, or else inside the span that is around it in this task.

        `run_id` is that of the agent run which it stands for. A turn is inside of nothing: a subagent's is its own.
        """
        if not self.enabled:
            return _NO_SPAN
        if run_id is not None:
            attributes["runId"] = run_id
        if parent is None and name != TURN:
            parent = _around.get()
        phase = phase or _PHASES.get(name) or (parent.phase if parent is not None else _STARTUP)
        return Span(self, name, phase, parent, attributes)

    def mark(self, name: str, *, run_id: str | None = None, span_id: str | None = None, **attributes: Any) -> None:
        """A point in time."""
        self._write("mark", name, now_ms(), run_id, spanId=span_id, attributes=attributes)

    def request_started(self, run_id: str, call_id: str) -> None:
        """A request to a provider goes out."""
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
        """A request to a provider has ended; `started_ms` is when it began, in milliseconds since 1970."""
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
        """A process has ended. Only its program is told: arguments can hold secrets.

        `run_id` is that of the agent run whose tool had started it.
        """
        name = "childProcess.exit"
        self._write(
            name,
            name,
            now_ms(),
            None,
            command=program_of(command),
            durationMs=round(duration_ms, 3),
            exitCode=exit_code,
            signal=signal,
            attributes={} if run_id is None else {"runId": run_id},
        )

    def flush(self) -> None:
        """Write what was gathered."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Write what was gathered, and stop looking at the event loop."""
        if self._delays is not None:
            self._delays.stop()
        if self._file is not None:
            self._file.close()

    def _span_started(self, span: Span) -> None:
        self._open[span.span_id or ""] = span
        self._write("span.start", span.name, now_ms(), None, **_facts_of(span))

    def _span_ended(self, span: Span, duration_ms: float, error: BaseException | None) -> None:
        self._open.pop(span.span_id or "", None)
        if self._delays is not None:
            self._delays.ended(span.name, duration_ms)
        facts = {**_facts_of(span), "durationMs": round(duration_ms, 3)}
        if error is None:
            self._write("span.end", span.name, now_ms(), None, **facts)
            return
        said = self._redactor.text(str(error)[:_LONGEST_MESSAGE])
        self._write("span.error", span.name, now_ms(), None, **facts, errorName=type(error).__name__, errorMessage=said)

    def _sampled(self, figures: dict[str, float], active: str | None) -> None:
        self._write("eventLoop.sample", "eventLoop", now_ms(), None, **figures, activeSpanName=active)

    def _tool_ended(self, event: dict[str, Any], context: dict[str, Any]) -> None:
        result, params = event.get("result"), event.get("params")
        details = result.get("details") if isinstance(result, Mapping) else None
        if event.get("toolName") != "exec" or not isinstance(details, Mapping) or not isinstance(params, Mapping):
            return
        code, signal = details.get("exitCode"), details.get("exitSignal")
        code, signal = code if isinstance(code, int) else None, signal if isinstance(signal, str) else None
        took = details.get("durationMs")
        # Without any of these it was never started, or goes on.
        if (code is not None or signal is not None) and isinstance(took, int | float):
            run_id = event.get("runId") or context.get("runId")
            self.child_exited(str(params.get("command", "")), took, code, signal, run_id)

    def _write(self, kind: str, name: str, moment_ms: float, run_id: str | None, **facts: Any) -> None:
        if self._file is None:
            return
        line: dict[str, Any] = {
            "schemaVersion": SCHEMA,
            "type": kind,
            "timestamp": iso_from_ms(int(moment_ms)),
            "name": name,
            **self._always,
        }
        if run_id is not None:
            line["runId"] = run_id
        line.update((key, value) for key, value in facts.items() if value is not None and value != {})
        try:
            data = msgspec.json.encode(line, enc_hook=str)
        except Exception:  # an attribute that nobody has thought of
            return
        self._file.append(data + b"\n")
        if self._delays is not None and kind != "eventLoop.sample":
            self._delays.worked(next(reversed(self._open.values())).name if self._open else None)


_NO_SPAN = Span(Diagnostics(None), "", None, None, {})


def program_of(command: str) -> str:
    """The program that a shell command begins with; `sh` where that takes more than a look."""
    for word in command.split():
        if not _ASSIGNMENT.fullmatch(word):
            return word.rpartition("/")[2] or word if _PROGRAM.fullmatch(word) else "sh"
    return "sh"


def _facts_of(span: Span) -> dict[str, Any]:
    ids = {"spanId": span.span_id, "parentSpanId": span.parent_id}
    return {"phase": span.phase, **ids, "attributes": span.attributes}
