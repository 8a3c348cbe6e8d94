"""The launch of a monitored OpenClaw: options and result of `critiqor monitor`, and what OpenClaw is launched with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from critiqor.errors import UsageError
from critiqor.live.announcements import Announcement
from critiqor.live.messages import StreamTarget
from critiqor.live.verdict import LiveLimit
from critiqor.model import Metadata
from critiqor.openclaw import (
    Diagnostics,
    Installation,
    Overlay,
    container_of,
    find_openclaw,
    ignores_bundled_plugins_dir,
    is_detached_exec,
    locate_configuration,
    plugin_folder,
    profiling_environment,
    timeline_diagnostics,
    write_overlay,
    writes_configuration,
)
from critiqor.run.store import Run
from critiqor.storage.paths import FOLDER_MODE

if TYPE_CHECKING:
    from critiqor.policy.policy_file import Policy

DEFAULT_ARGUMENTS = ("chat",)
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
    slot: str | None = None
    """The slot of the recording; None for the default one."""
    segment: str | None = None
    """When the recording is cut: `24h`, `500MB` or `idle`; None if it is not."""
    attach_grace: float = ATTACH_GRACE_SECONDS
    """Seconds that OpenClaw may take to load the recorder."""
    timeline: bool = True
    """Whether OpenClaw writes its diagnostics timeline."""
    live: bool = True
    """Whether the run is diagnosed while it is recorded, into live.json."""
    policy: Policy | None = None
    """Its limits and contracts apply while the agent works; a limit can end the process."""
    stream: StreamTarget | None = None
    """Where spans are sent while the run is recorded; needs `live`. None for nowhere."""
    policy_file: Path | None = None
    """The file of this policy, for finalizing segments."""
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


class Launch(NamedTuple):
    """Everything that is needed to launch OpenClaw with the recorder."""

    installation: Installation
    overlay: Overlay
    environment: dict[str, str]
    notes: tuple[str, ...]


def prepare_launch(run: Run, metadata: Metadata, options: MonitorOptions, environment: Mapping[str, str]) -> Launch:
    """Find OpenClaw and write the configuration with which it is launched, so that the recorder is attached to it."""
    installation = find_openclaw(options.openclaw_command, environment)
    configuration = locate_configuration(options.arguments, environment)
    overlay = write_overlay(run.paths.openclaw_folder(run.id), configuration, environment)
    bundled = ignores_bundled_plugins_dir(installation.version)
    enriched = recorder_environment(run, metadata, environment, bundled_plugins_dir=bundled, options=options)
    diagnostics = _diagnostics(run, metadata, options, environment)
    notes = (*overlay.notes, *diagnostics.notes)
    return Launch(installation, overlay, {**enriched, **overlay.environment, **diagnostics.environment}, notes)


def _diagnostics(run: Run, metadata: Metadata, options: MonitorOptions, environment: Mapping[str, str]) -> Diagnostics:
    """Return the environment variables for the timeline and the profiles that the options request."""
    added: dict[str, str] = {}
    notes: list[str] = []
    if options.timeline and options.segment is None:  # OpenClaw writes one file until it ends
        agent_id, path = metadata.agent_id, run.timeline_path
        added, notes = timeline_diagnostics(environment, run_id=run.id, agent_id=agent_id, timeline=path)
    if options.deep_profile:
        folder = run.profiles_folder
        folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        added = {**added, **profiling_environment(environment, folder)}
        notes = [*notes, f"writing profiles to {folder}: OpenClaw is slower than without --deep-profile."]
    return Diagnostics(added, notes)


def recorder_environment(
    run: Run,
    metadata: Metadata,
    environment: Mapping[str, str],
    *,
    bundled_plugins_dir: bool,
    options: MonitorOptions,
) -> dict[str, str]:
    """Return the environment with which OpenClaw is launched: a copy with the variables that name the run.

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
    for name in ("CRITIQOR_CAPTURE", "CRITIQOR_SLOT_FILE"):
        enriched.pop(name, None)
    if options.captures_prompts:
        enriched["CRITIQOR_CAPTURE"] = "prompts"
    if options.segment is not None:
        enriched["CRITIQOR_SLOT_FILE"] = str(run.paths.slot_path(options.slot))
    if bundled_plugins_dir:
        enriched.setdefault("OPENCLAW_BUNDLED_PLUGINS_DIR", str(plugin_folder().parent))
    return enriched


def check_can_be_recorded(options: MonitorOptions, environment: Mapping[str, str]) -> None:
    """Raise an error if an OpenClaw with these arguments cannot load the recorder, or not be recorded as requested."""
    arguments = options.arguments
    if options.segment is not None and options.deep_profile:
        message = "profiles are written for the whole life of a process, so such a recording cannot be cut"
        raise UsageError(message, fix="leave out --segment or --deep-profile")
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
