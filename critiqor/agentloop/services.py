"""Services: the objects that an agent runtime shares with all of its runs.

The types that it names come from every folder of the loop, so they are imported for type checking only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
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

LOOP_FOLDER = "critiqor"
"""Subfolder of OpenClaw's state folder. Sessions are kept there because OpenClaw writes to its own session folder."""
ClientFactory: TypeAlias = "Callable[[Provider, str | None], ModelClient]"
"""Create the client of a provider from its settings and its API key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The objects that all runs of a runtime share."""

    configuration: LoopConfiguration
    state_folder: Path
    """OpenClaw's state folder, where the workspace, skills and hooks are looked up."""
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
    clients: ClientFactory
    internal_hooks: InternalHooks
    skills: SkillsCache
    outbox: Outbox
    """Sends messages to chat channels."""
    spawn: Spawn
    """Starts a child session."""
    tools: Sequence[Tool] = ()
    """Tools in addition to the built-in ones."""
