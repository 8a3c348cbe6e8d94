"""Monitor OpenClaw: launch it with the recorder attached, supervise it until it ends, and record how it ended."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import IO, Any

import msgspec

from critiqor.errors import CritiqorError, OpenClawNotFoundError
from critiqor.live.stop_request import is_stop_of_all
from critiqor.live.verdict import LiveLimit, limit_facts, stop_result
from critiqor.model import EventType, Metadata
from critiqor.openclaw import (
    GatewayCalls,
    Installation,
    SettingsLock,
    client_environment,
    command_words,
    runs_gateway,
)
from critiqor.recording.backend_transcripts import complete_recording
from critiqor.recording.launch import (
    DEFAULT_ARGUMENTS,
    Announce,
    Launch,
    MonitorOptions,
    MonitorResult,
    check_can_be_recorded,
    prepare_launch,
    prints_plainly,
    recorder_environment,
)
from critiqor.recording.live_worker import LiveWorker
from critiqor.recording.output import OutputCapture, kept_text
from critiqor.recording.recorder_watch import RecorderWatch
from critiqor.recording.resources import ResourceSampler
from critiqor.recording.run_witness import RunWitness
from critiqor.recording.segments.monitored import MonitoredSegments, SegmentParts
from critiqor.recording.stop import describe_left
from critiqor.recording.supervisor import ChildEnd, Supervisor
from critiqor.recording.user_commands import TERMINAL_COMMANDS, UserCommand, UserCommandWatch
from critiqor.run.lifecycle import abort, append_lifecycle_event, start_session
from critiqor.run.recovery import refresh_live_document
from critiqor.run.segments.cutter import SegmentCutter
from critiqor.run.store import Run, RunStore

_CANNOT_BE_EXECUTED = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR})

ABORT_SECONDS = 10.0
"""How long the end of a gateway waits for the result of an abort that is under way."""

Say = Callable[[str], None]


def monitor_openclaw(
    options: MonitorOptions,
    *,
    say: Say,
    environment: Mapping[str, str] | None = None,
    output: IO[bytes] | None = None,
    announce: Announce | None = None,
) -> MonitorResult:
    """Create a session, launch OpenClaw with the recorder attached, and wait until it has ended.

    `say` is called with one-line messages for the user. With `output`, OpenClaw writes there instead of to the
    terminal. `announce` is called in a thread with news about findings and with limits that were exceeded.
    """
    environment = dict(os.environ if environment is None else environment)
    check_can_be_recorded(options, environment)
    store = RunStore(options.runs_dir)
    metadata = Metadata.parse(**options.metadata)
    record = start_session(store, metadata, slot=options.slot, segment=options.segment)
    run = _MonitoredRun(store.run(record.run_id), options, say, announce or (lambda _run, _news: None))
    try:
        launch = prepare_launch(run.run, record.metadata, options, environment)
        run.launch(launch, output)
    except CritiqorError as error:
        run.abort(error.message)
        raise
    except KeyboardInterrupt:
        run.record_interrupt()
        raise
    except (OSError, ValueError) as error:
        message = f"OpenClaw could not be launched: {error}"
        run.abort(message)
        is_missing = isinstance(error, OSError) and error.errno in _CANNOT_BE_EXECUTED
        kind = OpenClawNotFoundError if is_missing else CritiqorError
        raise kind(message, fix="critiqor doctor") from error
    try:
        return run.supervise()
    except OSError as error:
        message = f"Critiqor lost control of the OpenClaw process: {error}"
        run.give_up(message)
        raise CritiqorError(message, fix=f"critiqor diagnose {run.run.id}") from error
    finally:
        run.release()


class _MonitoredRun:
    """One run from its launch to its end."""

    def __init__(self, run: Run, options: MonitorOptions, say: Say, announce: Announce) -> None:
        self._run = run
        self._announce = announce
        self._live: LiveWorker | None = None
        self._exceeded: LiveLimit | None = None
        """The limit because of which the process is ended."""
        self._options = options
        self._say = say
        self._paths = run.paths
        self._witness = RunWitness(run)
        self._capture: OutputCapture | None = None
        self._aborts: list[threading.Thread] = []
        self._gateway: GatewayCalls | None = None
        """Calls of the launched gateway; None for anything else."""
        self._user_commands: UserCommandWatch | None = None
        self._settings_lock = SettingsLock()
        self._segments: MonitoredSegments | None = None

    @property
    def run(self) -> Run:
        """The run that is recorded now: of a recording that is cut, the current segment."""
        return self._run

    def launch(self, launch: Launch, output: IO[bytes] | None) -> None:
        """Start OpenClaw and the sampling of its resources."""
        folder = self._run.folder
        self._say(f"recording {self._run.id} in {folder}")
        for note in launch.notes:
            self._say(note)
        if launch.overlay.blocked:
            self._say(f"NOT RECORDING: {launch.overlay.blocked}")
        command = [launch.installation.command, *launch.installation.arguments, *self._options.arguments]
        mark = {name: launch.environment[name] for name in ("CRITIQOR_RUN_ID", "CRITIQOR_RUNS_DIR")}
        problem = self._witness.start(lambda pid: self._supervisor.is_of_tree(pid), launch.overlay.path)
        if problem is not None:
            self._say(f"records that are lost or altered will not be noticed: {problem}")
        self._environment = {**launch.environment, **self._witness.environment}
        self._prepare_gateway(launch.installation)
        if prints_plainly(self._options.arguments, output):
            self._capture = OutputCapture(output)
        self._supervisor = Supervisor(
            command, self._environment, mark=mark, cwd=self._options.cwd, output=output, capture=self._capture
        )
        self._hold_settings(launch.overlay.state_folder)
        try:
            pid = self._supervisor.start()
        except BaseException:
            self._settings_lock.release()
            raise
        cwd = str(self._options.cwd or Path.cwd())
        has_timeline = self._options.timeline and self._options.segment is None
        requested: dict[str, Any] = {"timeline": has_timeline, "deep_profile": self._options.deep_profile}
        if self._options.captures_prompts:
            requested["capture"] = ["prompts"]
        if TERMINAL_COMMANDS.intersection(command_words(self._options.arguments)[:1]):
            self._user_commands = UserCommandWatch(self._supervisor.descendants, self._record_user_command)
            requested["user_commands"] = "process tree"
        requested |= self._witness.facts
        self._record_event("process_start", pid=pid, command=command, cwd=cwd, **requested)
        self._pid = pid
        journal = self._paths.journal_path(self._run.id)
        arguments = self._options.arguments
        self._watch = RecorderWatch(journal, launch.installation, launch.overlay, arguments, self._witness.listener)
        self._sampler = ResourceSampler(self._supervisor.descendants)
        self._sampler.start()
        self._live = self._start_live(SegmentParts(self._run, self._witness))
        if self._options.segment is not None:
            policy = self._options.policy_file
            cutter = SegmentCutter(self._run, self._say, () if policy is None else ("--policy", str(policy)))
            is_of_tree, overlay = self._supervisor.is_of_tree, launch.overlay.path
            self._segments = MonitoredSegments(cutter, is_of_tree, self._go_on, self._say, overlay)
        if self._user_commands is not None:
            self._user_commands.start()

    def _start_live(self, parts: SegmentParts) -> LiveWorker | None:
        if not self._options.live:
            return None
        announce, stop = partial(self._announce, parts.run), partial(self._stop, parts)
        live = LiveWorker(parts.run, self._options.policy, announce, stop, self._options.stream)
        live.start()
        return live

    def _go_on(self, parts: SegmentParts) -> SegmentParts:
        """Go on in another segment. Return the parts of the one before."""
        left = SegmentParts(self._run, self._witness)
        left.live = self._live
        self._run, self._witness, self._live = parts.run, parts.witness, self._start_live(parts)
        self._watch.leave_segment()
        return left

    def _prepare_gateway(self, installation: Installation) -> None:
        """Prepare for calls of the gateway that is about to be launched: a limit or the user may need them."""
        arguments, policy = self._options.arguments, self._options.policy
        if not self._options.live or not runs_gateway(arguments):
            return
        self._gateway = GatewayCalls(installation, client_environment(arguments, self._environment))
        if policy is not None and any(limit.action == "stop" for limit in policy.limits.given.values()):
            self._gateway.prepare()

    def _stop(self, parts: SegmentParts, limit: LiveLimit) -> None:
        """End the process because of a limit; of a gateway, only the agent run that has exceeded it.

        A user can stop a gateway as a whole.
        """
        if self._gateway is not None and not is_stop_of_all(limit):
            self._aborts.append(threading.Thread(target=self._abort_agent_run, args=(parts, limit), daemon=True))
            self._aborts[-1].start()
        elif self._exceeded is None:
            self._exceeded = limit
            self._supervisor.stop()

    def _abort_agent_run(self, parts: SegmentParts, limit: LiveLimit) -> None:
        assert self._gateway is not None
        done = stop_result(self._gateway.abort(limit.session_key, limit.agent_run_id))
        event = {"event_type": "limit_exceeded", "error": limit.text, "payload": {"result": done, **limit_facts(limit)}}
        self._try_write(lambda: self._append(event, parts))
        self._say(f"{limit.text}: {done}")

    def supervise(self) -> MonitorResult:
        """Wait until OpenClaw has ended, and record how it ended."""
        self._watch.start(self._options.attach_grace, self._say)
        end = self._supervisor.wait(self._options.timeout)
        self._watch.stop()
        if self._segments is not None:
            self._segments.stop()
        if self._user_commands is not None:
            self._user_commands.stop()
        for thread in self._aborts:
            thread.join(ABORT_SECONDS)  # what became of the agent run belongs into the evidence
        usage = self._sampler.stop()
        if usage is not None:
            self._record_event("resource_usage", **msgspec.to_builtins(usage))
        self._try_write(self._record_output)
        self._record_end(end)
        attached = self._watch.is_attached()
        self._try_write(self._complete_from_transcripts)
        self._report_gaps(end, attached=attached)
        self._try_write(lambda: self._witness.write_statement(is_open=bool(self._supervisor.tree())))
        self._try_write(lambda: refresh_live_document(self._run))
        if self._live is not None:
            self._live.conclude()
            if self._options.stream is not None:
                self._say(self._live.stream.describe(self._run.id, self._options.stream.url))
        if self._segments is not None:
            self._segments.conclude()
        self._say(f"{describe_end(end, self._options, self._exceeded)}. {self._describe_next()}")
        stopped_by = self._exceeded if end.reason == "limit" else None
        return MonitorResult(self._run.id, end.exit_code, attached, end.reason == "interrupted", stopped_by)

    def _record_output(self) -> None:
        """Record the last that OpenClaw printed."""
        printed = self._capture.finish() if self._capture is not None else None
        if printed is not None and printed.total:
            text = kept_text(printed, self._run.redactor().text)
            self._record_event(EventType.PROCESS_OUTPUT, text=text, bytes=printed.total)

    def _report_gaps(self, end: ChildEnd, *, attached: bool) -> None:
        """Say and record why nothing was recorded, or nothing about an agent."""
        watch = self._watch
        if not attached:
            reason = watch.explain_not_attached(end)
            self._record_error("recorder_not_attached", f"OpenClaw did not load the recorder: {reason}")
            self._say(f"NOTHING WAS RECORDED: {reason}")
        elif not watch.has_records():
            reason = watch.explain_not_written()
            self._record_error("records_not_written", reason)
            self._say(f"NOTHING WAS RECORDED: {reason}")
        elif not watch.has_seen_agent():
            reason = watch.explain_no_activity(end)
            if watch.runs_elsewhere():
                self._record_error("recorder_not_attached", f"the agent was not in the launched process: {reason}")
            self._say(f"NO AGENT ACTIVITY WAS RECORDED: {reason}")

    def _complete_from_transcripts(self) -> None:
        """Add what a backend kept to itself, if its own transcripts can be found."""
        # Imported here, because the embedded loop is not needed for any other recording.
        from critiqor.agentloop.recording.journal_writer import JournalWriter

        listener = self._witness.listener
        writer = JournalWriter(self._paths, self._run.id, witness=listener.recorder if listener is not None else None)
        try:
            done = complete_recording(self._paths.journal_path(self._run.id), self._environment, writer)
        finally:
            writer.close()
        if any(done):
            self._record_event("backend_transcript", **done._asdict())

    def _hold_settings(self, state_folder: Path) -> None:
        """Keep `attach` and `detach` from changing settings: OpenClaw does not start while they are changed."""
        try:
            if not self._settings_lock.share(state_folder, wait=False):
                self._say("waiting until `critiqor attach` or `detach` has changed OpenClaw's settings")
                self._settings_lock.share(state_folder, wait=True)
        except OSError:
            pass  # there is no state folder yet, or its file system has no locks

    def release(self) -> None:
        """Restore the signal handlers, and let others change OpenClaw's settings."""
        self._supervisor.release()
        self._settings_lock.release()
        self._witness.close()
        if self._segments is not None:
            self._paths.guard_path(self._run.id).unlink(missing_ok=True)
        if self._gateway is not None:
            self._gateway.close()
        if self._capture is not None:
            self._capture.finish()

    def _describe_next(self) -> str:
        try:
            head = self._run.head()
        except (CritiqorError, OSError) as error:
            return f"Its record cannot be read: {error}"
        if head.status == "MONITORING" or head.has_forged_status:
            return f"Next: critiqor finalize {self._run.id}"
        return (
            f"{self._run.id} was {head.status.lower()} while OpenClaw was running; events after that were not recorded."
        )

    def give_up(self, reason: str) -> None:
        """End the process tree and abort the session, because nothing would record its end."""
        self._supervisor.end_tree()
        self._record_error("os_error", reason)
        self._try_write(lambda: abort(self._run, self._run.store, reason))

    def abort(self, reason: str) -> None:
        """Abort the session of an OpenClaw that could not be launched."""
        self._record_error("launch_failed", reason)
        self._witness.discard()
        abort(self._run, self._run.store, reason)

    def record_interrupt(self) -> None:
        """Record that the user pressed Ctrl-C before OpenClaw was launched."""
        self._record_error("interrupted", "interrupted before OpenClaw was launched")

    def _record_end(self, end: ChildEnd) -> None:
        self._record_event("process_end", exit_code=end.exit_code, pid=self._pid, left_running=len(end.left_running))
        if end.reason == "timeout":
            self._record_error("timeout", f"ended after {self._options.timeout:g} seconds", exit_code=end.exit_code)
        elif end.reason == "limit" and self._exceeded is not None:
            facts = limit_facts(self._exceeded)
            self._record_error("limit", self._exceeded.text, exit_code=end.exit_code, **facts)
        elif end.reason == "interrupted":
            self._record_error("interrupted", "interrupted from the keyboard", exit_code=end.exit_code)
        elif end.exit_code != 0:
            cause = (
                f"ended by signal {end.exit_code - 128}" if end.reason == "signalled" else f"exit code {end.exit_code}"
            )
            self._record_error("nonzero_exit", cause, exit_code=end.exit_code)

    def _record_user_command(self, found: UserCommand) -> None:
        self._record_event("user_bash", surface="terminal UI", observed_as="process", **found._asdict())

    def _record_event(self, event_type: str, error: str | None = None, **payload: Any) -> None:
        event = {"event_type": event_type, "error": error, "payload": payload}
        self._try_write(lambda: self._append(event))

    def _append(self, event: dict[str, Any], parts: SegmentParts | None = None) -> None:
        """Write an event into the run record of a segment; without `parts`, of the current one."""
        # An event belongs to the segment before a cut, or to the one after it.
        with self._segments.lock if self._segments is not None else nullcontext():
            parts = parts or SegmentParts(self._run, self._witness)
            written = append_lifecycle_event(parts.run, event)
            if written is not None:
                parts.witness.add_lifecycle_event(written)

    def _record_error(self, reason: str, error: str, **payload: Any) -> None:
        self._record_event("error_event", error, reason=reason, **payload)

    def _try_write(self, write: Callable[[], object]) -> None:
        """Write to the run's files; a full disk or a removed folder must not end the supervision."""
        try:
            write()
        except (CritiqorError, OSError) as error:
            self._say(f"a record could not be written: {error}")


__all__ = ["DEFAULT_ARGUMENTS", "MonitorOptions", "MonitorResult", "monitor_openclaw", "recorder_environment"]


def describe_end(end: ChildEnd, options: MonitorOptions, exceeded: LiveLimit | None) -> str:
    """Return how a monitored OpenClaw ended, as a sentence without a full stop."""
    if end.reason == "timeout":
        limit = f"{options.timeout:g} seconds"
        return f"Critiqor ended OpenClaw after the timeout of {limit} (exit code {end.exit_code})"
    if end.reason == "limit" and exceeded is not None:
        return f"Critiqor ended OpenClaw because of {exceeded.text} (exit code {end.exit_code})"
    ended = f"OpenClaw ended with exit code {end.exit_code}"
    if not end.left_running:
        return ended
    pids = " ".join(str(process.pid) for process in end.left_running)
    return f"{ended}, but {describe_left(end.left_running)}; to stop them: kill {pids}"
