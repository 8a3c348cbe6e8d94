"""The supervised runtime: an OpenClaw that is launched with the recorder attached, and watched until it ends."""

from __future__ import annotations

import errno
import os
import shlex
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from critiqor.errors import CritiqorError, OpenClawNotFoundError, UsageError
from critiqor.model.event import is_agent_activity
from critiqor.openclaw import (
    Diagnostics,
    Installation,
    Overlay,
    command_words,
    container_of,
    find_openclaw,
    ignores_bundled_plugins_dir,
    is_detached_exec,
    locate_configuration,
    node_satisfies,
    plugin_folder,
    profiling_environment,
    timeline_diagnostics,
    write_overlay,
    writes_configuration,
)
from critiqor.recording.resources import ResourceSampler
from critiqor.recording.supervisor import ChildEnd, Supervisor
from critiqor.session import (
    abort_session,
    append_event_to_run,
    create_session,
    load_record_head,
    paths_for,
    refresh_live_evidence,
)
from critiqor.storage.paths import FOLDER_MODE

DEFAULT_ARGUMENTS = ("chat",)
ATTACH_GRACE_SECONDS = 30.0
"""How long an OpenClaw may take to load its plugins before the monitor says that it is blind."""

_CLIENT = (
    "this command is a client of a gateway that runs elsewhere, and the recorder belongs into the gateway: "
    "critiqor monitor openclaw -- gateway run"
)

_CANNOT_BE_EXECUTED = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR})

Say = Callable[[str], None]


class MonitorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to launch, and whose run it is."""

    runs_dir: str | Path = "runs"
    openclaw_command: str = "openclaw"
    arguments: tuple[str, ...] = DEFAULT_ARGUMENTS
    """Arguments for OpenClaw."""
    cwd: Path | None = None
    timeout: float | None = None
    """Seconds after which the whole process tree is ended."""
    metadata: dict[str, str] = {}
    """`agent_id`, `tenant_id`, `visibility`, `benchmark_id`, `difficulty_tier`, where given."""
    attach_grace: float = ATTACH_GRACE_SECONDS
    timeline: bool = True
    """Whether OpenClaw is asked for its diagnostics timeline."""
    deep_profile: bool = False
    """Whether every Node process writes profiles; that slows it down, and is said wherever its figures are shown."""


class MonitorResult(NamedTuple):
    """How a monitored run ended."""

    run_id: str
    exit_code: int
    attached: bool
    """Whether the recorder was there at all."""
    interrupted: bool = False
    """Whether somebody pressed Ctrl-C."""


def openclaw_environment(
    record: Mapping[str, Any],
    runs_dir: str | Path = "runs",
    *,
    environment: Mapping[str, str] | None = None,
    bundled_plugins_dir: bool = True,
) -> dict[str, str]:
    """A copy of the environment that tells the recorder which run it belongs to.

    `bundled_plugins_dir` is turned off for an OpenClaw that would replace its own plugins by ours.
    """
    enriched = dict(os.environ if environment is None else environment)
    metadata = record["metadata"]
    enriched |= {
        "CRITIQOR_RUN_ID": record["run_id"],
        "CRITIQOR_RUNS_DIR": str(paths_for(runs_dir).runs_dir),
        "CRITIQOR_AGENT_ID": metadata["agent_id"],
        "CRITIQOR_TENANT_ID": metadata["tenant_id"],
        "CRITIQOR_VISIBILITY": metadata["visibility"],
        "CRITIQOR_EVENT_SOURCE": "openclaw",
    }
    if bundled_plugins_dir:
        enriched.setdefault("OPENCLAW_BUNDLED_PLUGINS_DIR", str(plugin_folder().parent))
    return enriched


def monitor_openclaw(
    options: MonitorOptions,
    *,
    say: Say,
    environment: Mapping[str, str] | None = None,
    output: IO[bytes] | None = None,
) -> MonitorResult:
    """Create a session, launch OpenClaw with the recorder attached, and stay until it has ended.

    `say` gets one-line messages for the user. With `output`, OpenClaw writes there instead of to the terminal.
    """
    environment = dict(os.environ if environment is None else environment)
    _refuse_what_cannot_be_recorded(options.arguments, environment)
    record = create_session(runs_dir=options.runs_dir, **options.metadata)
    run = _MonitoredRun(record, options, say)
    try:
        launch = run.prepare(environment)
        run.launch(launch, output)
    except CritiqorError as error:
        run.abort(error.message)
        raise
    except KeyboardInterrupt:
        run.interrupted()
        raise
    except (OSError, ValueError) as error:
        message = f"OpenClaw could not be launched: {error}"
        run.abort(message)
        missing = isinstance(error, OSError) and error.errno in _CANNOT_BE_EXECUTED
        kind = OpenClawNotFoundError if missing else CritiqorError
        raise kind(message, fix="critiqor doctor") from error
    try:
        return run.supervise()
    except OSError as error:
        message = f"OpenClaw could not be supervised any more: {error}"
        run.give_up(message)
        raise CritiqorError(message, fix=f"critiqor diagnose {record['run_id']}") from error
    finally:
        run.release()


class _Launch(NamedTuple):
    installation: Installation
    overlay: Overlay
    environment: dict[str, str]
    notes: tuple[str, ...]


class _MonitoredRun:
    def __init__(self, record: Mapping[str, Any], options: MonitorOptions, say: Say) -> None:
        self._record = record
        self._run_id: str = record["run_id"]
        self._options = options
        self._say = say
        self._paths = paths_for(options.runs_dir)
        self._watch_ended = threading.Event()

    def prepare(self, environment: dict[str, str]) -> _Launch:
        """Find OpenClaw and write the configuration that attaches the recorder to it."""
        installation = find_openclaw(self._options.openclaw_command, environment)
        configuration = locate_configuration(self._options.arguments, environment)
        overlay = write_overlay(self._paths.openclaw_folder(self._run_id), configuration, environment)
        enriched = openclaw_environment(
            self._record,
            runs_dir=self._options.runs_dir,
            environment=environment,
            bundled_plugins_dir=ignores_bundled_plugins_dir(installation.version),
        )
        diagnostics = self._diagnostics(environment)
        notes = (*overlay.notes, *diagnostics.notes)
        return _Launch(installation, overlay, {**enriched, **overlay.environment, **diagnostics.environment}, notes)

    def _diagnostics(self, environment: Mapping[str, str]) -> Diagnostics:
        """What makes OpenClaw and Node tell about their timing, as far as it was asked for."""
        added: dict[str, str] = {}
        notes: list[str] = []
        if self._options.timeline:
            agent_id = self._record["metadata"]["agent_id"]
            path = self._paths.timeline_path(self._run_id)
            added, notes = timeline_diagnostics(environment, run_id=self._run_id, agent_id=agent_id, timeline=path)
        if self._options.deep_profile:
            folder = self._paths.profiles_folder(self._run_id)
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            added = {**added, **profiling_environment(environment, folder)}
            notes = [*notes, f"profiling deeply into {folder}: everything is slower than without."]
        return Diagnostics(added, notes)

    def launch(self, launch: _Launch, output: IO[bytes] | None) -> None:
        self._launch = launch
        folder = self._paths.run_folder(self._run_id)
        self._say(f"recording {self._run_id} in {folder}")
        for note in launch.notes:
            self._say(note)
        if launch.overlay.blocked:
            self._say(f"NOT RECORDING: {launch.overlay.blocked}")
        command = [launch.installation.command, *launch.installation.arguments, *self._options.arguments]
        mark = {name: launch.environment[name] for name in ("CRITIQOR_RUN_ID", "CRITIQOR_RUNS_DIR")}
        self._supervisor = Supervisor(command, launch.environment, mark=mark, cwd=self._options.cwd, output=output)
        pid = self._supervisor.start()
        cwd = str(self._options.cwd or Path.cwd())
        asked: dict[str, Any] = {"timeline": self._options.timeline, "deep_profile": self._options.deep_profile}
        self._note("process_start", pid=pid, command=command, cwd=cwd, **asked)
        self._pid = pid
        self._sampler = ResourceSampler(self._supervisor.descendants)
        self._sampler.start()

    def supervise(self) -> MonitorResult:
        watcher = threading.Thread(target=self._watch_for_recorder, daemon=True)
        watcher.start()
        end = self._supervisor.wait(self._options.timeout)
        self._watch_ended.set()
        watcher.join()
        usage = self._sampler.stop()
        if usage is not None:
            self._note("resource_usage", **msgspec.to_builtins(usage))
        self._record_end(end)
        attached = self._is_attached()
        self._keep(lambda: refresh_live_evidence(self._run_id, runs_dir=self._options.runs_dir))
        if not attached:
            reason = self._why_blind(end)
            self._error("recorder_not_attached", f"the recorder was never attached: {reason}")
            self._say(f"NOTHING WAS RECORDED: {reason}")
        elif not self._saw_the_agent():
            self._say(f"NOTHING OF AN AGENT WAS SEEN: {self._why_idle()}")
        self._say(f"{self._how_it_ended(end)}. {self._what_next()}")
        return MonitorResult(self._run_id, end.exit_code, attached, end.reason == "interrupted")

    def _how_it_ended(self, end: ChildEnd) -> str:
        if end.reason == "timeout":
            after = f"{self._options.timeout:g} seconds"
            return f"Critiqor ended OpenClaw after {after}, which is the timeout (exit code {end.exit_code})"
        return f"OpenClaw ended with exit code {end.exit_code}"

    def release(self) -> None:
        self._supervisor.release_signals()

    def _what_next(self) -> str:
        try:
            status = load_record_head(self._run_id, runs_dir=self._options.runs_dir)["status"]
        except (CritiqorError, OSError) as error:
            return f"Its record cannot be read any more: {error}"
        if status == "MONITORING":
            return f"Next: critiqor finalize {self._run_id}"
        return f"{self._run_id} was {status.lower()} meanwhile; what came later is not in its evidence."

    def give_up(self, reason: str) -> None:
        """End what was launched, and abort: nobody would be there to see its end."""
        self._supervisor.end_tree()
        self._error("os_error", reason)
        self._keep(lambda: abort_session(self._run_id, self._options.runs_dir, reason))

    def abort(self, reason: str) -> None:
        self._error("launch_failed", reason)
        abort_session(self._run_id, reason=reason, runs_dir=self._options.runs_dir)

    def interrupted(self) -> None:
        self._error("interrupted", "interrupted before OpenClaw was launched")

    def _record_end(self, end: ChildEnd) -> None:
        self._note("process_end", exit_code=end.exit_code, pid=self._pid, left_running=end.left_running)
        if end.reason == "timeout":
            self._error("timeout", f"ended after {self._options.timeout:g} seconds", exit_code=end.exit_code)
        elif end.reason == "interrupted":
            self._error("interrupted", "interrupted from the keyboard", exit_code=end.exit_code)
        elif end.exit_code != 0:
            what = (
                f"ended by signal {end.exit_code - 128}" if end.reason == "signalled" else f"exit code {end.exit_code}"
            )
            self._error("nonzero_exit", what, exit_code=end.exit_code)

    def _note(self, event_type: str, error: str | None = None, **payload: Any) -> None:
        event = {"event_type": event_type, "error": error, "payload": payload}
        self._keep(lambda: append_event_to_run(self._run_id, event, runs_dir=self._options.runs_dir))

    def _error(self, reason: str, error: str, **payload: Any) -> None:
        self._note("error_event", error, reason=reason, **payload)

    def _keep(self, write: Callable[[], object]) -> None:
        """Write to the run's files; that they are full or gone is no reason to leave OpenClaw alone."""
        try:
            write()
        except (CritiqorError, OSError) as error:
            self._say(f"NOT WRITTEN: {error}")

    def _is_attached(self) -> bool:
        # The recorder announces itself in its first record.
        try:
            return self._paths.journal_path(self._run_id).stat().st_size > 0
        except OSError:
            return False

    def _saw_the_agent(self) -> bool:
        try:
            with self._paths.journal_path(self._run_id).open("rb") as journal:
                return any(_is_of_an_agent(line) for line in journal)
        except OSError:
            return False

    def _is_client(self) -> bool:
        words = command_words(self._options.arguments)
        is_exec = words[:2] == ("agent", "exec")
        return words[:1] in (("agent",), ("tui",)) and not is_exec and "--local" not in self._options.arguments

    def _why_idle(self) -> str:
        return _CLIENT if self._is_client() else "the recorder was attached, and no agent did anything."

    def _watch_for_recorder(self) -> None:
        waited = 0.0
        while waited < self._options.attach_grace:
            if self._watch_ended.wait(0.5) or self._is_attached():
                return
            waited += 0.5
        reason = self._why_blind(None)
        self._say(f"NOT RECORDING after {self._options.attach_grace:g} seconds: {reason}")

    def _why_blind(self, end: ChildEnd | None) -> str:
        """Why the recorder is not there, as far as can be known, and the way out."""
        installation, overlay = self._launch.installation, self._launch.overlay
        if overlay.blocked:
            return overlay.blocked
        version, needed = installation.node_version, installation.node_requirement
        if version and needed and node_satisfies(version, needed) is False:
            return f"OpenClaw {installation.version} needs Node {needed} and found {version}: install Node 24."
        if self._is_client():
            return _CLIENT
        if end is not None and end.exit_code != 0:
            command = shlex.join((installation.command, *installation.arguments))
            said = "ended before it loaded plugins. The last lines that it printed say why"
            return f"`{command}` {said}; to see them again: critiqor doctor --probe"
        return "OpenClaw did not load the plugin: critiqor doctor --probe"


class _Kind(msgspec.Struct):
    event_type: str


def _is_of_an_agent(line: bytes) -> bool:
    try:
        return is_agent_activity(msgspec.json.decode(line, type=_Kind).event_type)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return False


def _refuse_what_cannot_be_recorded(arguments: tuple[str, ...], environment: Mapping[str, str]) -> None:
    command = " ".join(("openclaw", *arguments))
    if writes_configuration(arguments):
        raise UsageError(
            "OpenClaw cannot save its configuration while it is recorded",
            fix=f"{command}   without critiqor, then record",
        )
    if is_detached_exec(arguments):
        raise UsageError(
            "this option of `openclaw agent exec` leaves aside the configuration that loads the recorder",
            fix="leave out --isolated, --auth-env-only and --config",
        )
    if container_of(arguments, environment) is not None:
        raise UsageError(
            "an OpenClaw in a container does not see the recorder", fix="run critiqor inside the container as well"
        )


__all__ = ["MonitorOptions", "MonitorResult", "monitor_openclaw", "openclaw_environment"]
