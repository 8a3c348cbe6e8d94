"""What a run needs of the runtime around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from critiqor.agentloop.configuration import LoopConfiguration
from critiqor.agentloop.context.skills import SkillsCache
from critiqor.agentloop.event_streams import EventStreams
from critiqor.agentloop.hooks.internal_hooks import InternalHooks
from critiqor.agentloop.hooks.plugin_hooks import PluginHooks
from critiqor.agentloop.models.model_client import ModelClient
from critiqor.agentloop.queue.lanes import Lanes
from critiqor.agentloop.recording.diagnostics import Diagnostics
from critiqor.agentloop.recording.recorder import Recorder
from critiqor.agentloop.sessions.sessions import Sessions
from critiqor.agentloop.sessions.transcript import TranscriptUpdates
from critiqor.agentloop.settings import Provider
from critiqor.agentloop.tools.messaging import Outbox
from critiqor.agentloop.tools.subagent import Spawn
from critiqor.agentloop.tools.tool import Tool

OWN_FOLDER = "critiqor"
"""In OpenClaw's state folder. Sessions are kept there and not among OpenClaw's own, which another program writes to."""
ClientMaker = Callable[[Provider, str | None], ModelClient]
"""Makes the client of a provider from its settings and its key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Shared by all runs of a runtime."""

    configuration: LoopConfiguration
    state_folder: Path
    """OpenClaw's: workspace, skills and hooks are looked for there."""
    home: Path
    """What `~` means in the configuration."""
    environment: Mapping[str, str]
    sessions: Sessions
    lanes: Lanes
    hooks: PluginHooks
    streams: EventStreams
    updates: TranscriptUpdates
    diagnostics: Diagnostics
    recorder: Recorder
    clients: ClientMaker
    internal_hooks: InternalHooks
    skills: SkillsCache
    outbox: Outbox
    """Where messages to people go."""
    spawn: Spawn
    """Starts a child session."""
    tools: Sequence[Tool] = ()
    """Beside the ones that every run has."""
