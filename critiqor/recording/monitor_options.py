"""What to monitor, and how it ended: options and result of `critiqor monitor`, and the environment of OpenClaw."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import msgspec

from critiqor.errors import UsageError
from critiqor.live.announcements import Announcement
from critiqor.live.verdict import LiveLimit
from critiqor.model import Metadata
from critiqor.openclaw import command_words, container_of, is_detached_exec, plugin_folder, writes_configuration
from critiqor.recording.stop import describe_left
from critiqor.recording.supervisor import ChildEnd
from critiqor.run.store import Run

if TYPE_CHECKING:
    from critiqor.policy.policy_file import Policy

DEFAULT_ARGUMENTS = ("chat",)
PLAIN_COMMANDS = frozenset({"agent", "gateway"})
"""Commands of OpenClaw that run agents without a full-screen UI."""
ATTACH_GRACE_SECONDS = 30.0
"""How long OpenClaw may take to load its plugins before the monitor reports that nothing is recorded."""

Announce = Callable[[Run, Announcement | LiveLimit], None]
"""Called with news about a finding of a run, or with a limit that was exceeded."""


class MonitorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to launch, and the metadata of the run."""

    runs_dir: str | Path = "runs"
    openclaw_command: str = "openclaw"
    arguments: tuple[str, ...] = DEFAULT_ARGUMENTS
    """Arguments of the OpenClaw command."""
    cwd: Path | None = None
    timeout: float | None = None
    """Seconds after which the whole process tree is ended; None for no limit."""
    metadata: dict[str, str] = {}
    """`agent_id`, `tenant_id`, `visibility`, `benchmark_id`, `difficulty_tier`; missing ones get their defaults."""
    attach_grace: float = ATTACH_GRACE_SECONDS
    """Seconds that OpenClaw may take to load the recorder."""
    timeline: bool = True
    """Whether OpenClaw writes its diagnostics timeline."""
    live: bool = True
    """Whether the run is diagnosed while it is recorded, into live.json."""
    policy: Policy | None = None
    """Its limits and contracts apply while the agent works; a limit can end the process."""
    captures_prompts: bool = False
    """Whether what the model is sent is recorded."""
    deep_profile: bool = False
    """Whether every Node process writes profiles. They slow it down, which is noted wherever its timings are shown."""


class MonitorResult(NamedTuple):
    """How a monitored run ended."""

    run_id: str
    exit_code: int
    attached: bool
    """Whether the recorder was attached."""
    interrupted: bool = False
    """Whether the user pressed Ctrl-C."""
    stopped_by: LiveLimit | None = None
    """The limit because of which the process was ended."""


def recorder_environment(
    run: Run,
    metadata: Metadata,
    environment: Mapping[str, str],
    *,
    bundled_plugins_dir: bool,
    captures_prompts: bool = False,
) -> dict[str, str]:
    """Return a copy of the environment of OpenClaw with the variables that name the run for the recorder.

    `bundled_plugins_dir` must be False for an OpenClaw that would replace its own plugins with ours.
    """
    enriched = {
        **environment,
        "CRITIQOR_RUN_ID": run.id,
        "CRITIQOR_RUNS_DIR": str(run.paths.runs_dir),
        "CRITIQOR_AGENT_ID": metadata.agent_id,
        "CRITIQOR_TENANT_ID": metadata.tenant_id,
        "CRITIQOR_VISIBILITY": metadata.visibility,
        "CRITIQOR_EVENT_SOURCE": "openclaw",
    }
    enriched.pop("CRITIQOR_CAPTURE", None)
    if captures_prompts:
        enriched["CRITIQOR_CAPTURE"] = "prompts"
    if bundled_plugins_dir:
        enriched.setdefault("OPENCLAW_BUNDLED_PLUGINS_DIR", str(plugin_folder().parent))
    return enriched


def check_can_be_recorded(arguments: tuple[str, ...], environment: Mapping[str, str]) -> None:
    """Raise an error if an OpenClaw with these arguments cannot load the recorder."""
    command = " ".join(("openclaw", *arguments))
    if writes_configuration(arguments):
        raise UsageError(
            "OpenClaw cannot save its configuration while it is recorded",
            fix=f"{command}   without critiqor, then record",
        )
    if is_detached_exec(arguments):
        raise UsageError(
            "this option of `openclaw agent exec` ignores the configuration that loads the recorder",
            fix="leave out --isolated, --auth-env-only and --config",
        )
    if container_of(arguments, environment) is not None:
        raise UsageError("an OpenClaw in a container cannot load the recorder", fix="run critiqor inside the container")


def prints_plainly(arguments: tuple[str, ...], output: IO[bytes] | None) -> bool:
    """Return whether OpenClaw with these arguments draws no full-screen UI, so that what it prints can be kept.

    A command that is not known may ask questions on a terminal, which is then left alone.
    """
    if output is not None or not (os.isatty(1) or os.isatty(2)):
        return True
    return bool(PLAIN_COMMANDS.intersection(command_words(arguments)[:1]))


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
