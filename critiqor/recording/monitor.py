"""Monitor OpenClaw: launch it with the recorder attached, supervise it until it ends, and record how it ended."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from critiqor.errors import CritiqorError, OpenClawNotFoundError
from critiqor.live.verdict import LiveLimit, limit_facts, stop_result
from critiqor.model import EventType, Metadata
from critiqor.openclaw import (
    Diagnostics,
    GatewayCalls,
    Installation,
    Overlay,
    SettingsLock,
    client_environment,
    command_words,
    find_openclaw,
    ignores_bundled_plugins_dir,
    locate_configuration,
    profiling_environment,
    runs_gateway,
    timeline_diagnostics,
    write_overlay,
)
from critiqor.recording.backend_transcripts import complete_recording
from critiqor.recording.live_worker import LiveWorker
from critiqor.recording.monitor_options import (
    DEFAULT_ARGUMENTS,
    Announce,
    MonitorOptions,
    MonitorResult,
    check_can_be_recorded,
    describe_end,
    prints_plainly,
    recorder_environment,
)
from critiqor.recording.output import OutputCapture, kept_text
from critiqor.recording.recorder_watch import RecorderWatch
from critiqor.recording.resources import ResourceSampler
from critiqor.recording.run_witness import RunWitness
from critiqor.recording.supervisor import ChildEnd, Supervisor
from critiqor.recording.user_commands import TERMINAL_COMMANDS, UserCommand, UserCommandWatch
from critiqor.run.lifecycle import abort, append_lifecycle_event, refresh_live_document, start_session
from critiqor.run.store import Run, RunStore
from critiqor.storage.paths import FOLDER_MODE

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
    check_can_be_recorded(options.arguments, environment)
    store = RunStore(options.runs_dir)
    record = start_session(store, Metadata.parse(**options.metadata))
    run = _MonitoredRun(store.run(record.run_id), record.metadata, options, say, announce or (lambda _run, _news: None))
    try:
        launch = run.prepare(environment)
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
        raise CritiqorError(message, fix=f"critiqor diagnose {record.run_id}") from error
    finally:
        run.release()


class _Launch(NamedTuple):
    """Everything that is needed to launch OpenClaw with the recorder."""

    installation: Installation
    overlay: Overlay
    environment: dict[str, str]
    notes: tuple[str, ...]


class _MonitoredRun:
    """One run from its launch to its end."""

    def __init__(self, run: Run, metadata: Metadata, options: MonitorOptions, say: Say, announce: Announce) -> None:
        self._run = run
        self._announce = announce
        self._live: LiveWorker | None = None
        self._exceeded: LiveLimit | None = None
        """The limit because of which the process is ended."""
        self._metadata = metadata
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

    def prepare(self, environment: dict[str, str]) -> _Launch:
        """Find OpenClaw and write the configuration that attaches the recorder to it."""
        installation = find_openclaw(self._options.openclaw_command, environment)
        configuration = locate_configuration(self._options.arguments, environment)
        overlay = write_overlay(self._paths.openclaw_folder(self._run.id), configuration, environment)
        bundled = ignores_bundled_plugins_dir(installation.version)
        enriched = recorder_environment(
            self._run,
            self._metadata,
            environment,
            bundled_plugins_dir=bundled,
            captures_prompts=self._options.captures_prompts,
        )
        diagnostics = self._diagnostics(environment)
        notes = (*overlay.notes, *diagnostics.notes)
        return _Launch(installation, overlay, {**enriched, **overlay.environment, **diagnostics.environment}, notes)

    def _diagnostics(self, environment: Mapping[str, str]) -> Diagnostics:
        """Return the environment variables for the timeline and the profiles that the options request."""
        added: dict[str, str] = {}
        notes: list[str] = []
        if self._options.timeline:
            agent_id, path = self._metadata.agent_id, self._run.timeline_path
            added, notes = timeline_diagnostics(environment, run_id=self._run.id, agent_id=agent_id, timeline=path)
        if self._options.deep_profile:
            folder = self._run.profiles_folder
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            added = {**added, **profiling_environment(environment, folder)}
            notes = [*notes, f"writing profiles to {folder}: OpenClaw is slower than without --deep-profile."]
        return Diagnostics(added, notes)

    def launch(self, launch: _Launch, output: IO[bytes] | None) -> None:
        """Start OpenClaw and the sampling of its resources."""
        folder = self._run.folder
        self._say(f"recording {self._run.id} in {folder}")
        for note in launch.notes:
            self._say(note)
        if launch.overlay.blocked:
            self._say(f"NOT RECORDING: {launch.overlay.blocked}")
        command = [launch.installation.command, *launch.installation.arguments, *self._options.arguments]
        mark = {name: launch.environment[name] for name in ("CRITIQOR_RUN_ID", "CRITIQOR_RUNS_DIR")}
        problem = self._witness.start(lambda pid: self._supervisor.is_of_tree(pid))
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
        requested: dict[str, Any] = {"timeline": self._options.timeline, "deep_profile": self._options.deep_profile}
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
        if self._options.live:
            announce = partial(self._announce, self._run)
            self._live = LiveWorker(self._run, self._options.policy, announce, self._stop)
            self._live.start()
        if self._user_commands is not None:
            self._user_commands.start()

    def _prepare_gateway(self, installation: Installation) -> None:
        """Prepare for calls of the gateway that is about to be launched, if a limit may need them."""
        arguments, policy = self._options.arguments, self._options.policy
        if not self._options.live or policy is None or not runs_gateway(arguments):
            return
        self._gateway = GatewayCalls(installation, client_environment(arguments, self._environment))
        if any(limit.action == "stop" for limit in policy.limits.given.values()):
            self._gateway.prepare()

    def _stop(self, limit: LiveLimit) -> None:
        """End the process because of a limit; of a gateway, only the agent run that has exceeded it."""
        if self._gateway is not None:
            self._aborts.append(threading.Thread(target=self._abort_agent_run, args=(limit,), daemon=True))
            self._aborts[-1].start()
        elif self._exceeded is None:
            self._exceeded = limit
            self._supervisor.stop()

    def _abort_agent_run(self, limit: LiveLimit) -> None:
        assert self._gateway is not None
        done = stop_result(self._gateway.abort(limit.session_key, limit.agent_run_id))
        self._record_event("limit_exceeded", limit.text, result=done, **limit_facts(limit))
        self._say(f"{limit.text}: {done}")

    def supervise(self) -> MonitorResult:
        """Wait until OpenClaw has ended, and record how it ended."""
        self._watch.start(self._options.attach_grace, self._say)
        end = self._supervisor.wait(self._options.timeout)
        self._watch.stop()
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
        if self._gateway is not None:
            self._gateway.close()
        if self._capture is not None:
            self._capture.finish()

    def _describe_next(self) -> str:
        try:
            status = self._run.head().status
        except (CritiqorError, OSError) as error:
            return f"Its record cannot be read: {error}"
        if status == "MONITORING":
            return f"Next: critiqor finalize {self._run.id}"
        return f"{self._run.id} was {status.lower()} while OpenClaw was running; events after that were not recorded."

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

    def _append(self, event: dict[str, Any]) -> None:
        written = append_lifecycle_event(self._run, event)
        if written is not None:
            self._witness.add_lifecycle_event(written)

    def _record_error(self, reason: str, error: str, **payload: Any) -> None:
        self._record_event("error_event", error, reason=reason, **payload)

    def _try_write(self, write: Callable[[], object]) -> None:
        """Write to the run's files; a full disk or a removed folder must not end the supervision."""
        try:
            write()
        except (CritiqorError, OSError) as error:
            self._say(f"a record could not be written: {error}")


__all__ = ["DEFAULT_ARGUMENTS", "MonitorOptions", "MonitorResult", "monitor_openclaw", "recorder_environment"]
