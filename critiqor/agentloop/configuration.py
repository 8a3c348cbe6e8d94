"""Configuration of the loop, from a file in OpenClaw's format: models, limits, queues, hooks.

The file is located and read by OpenClaw's rules (`critiqor.openclaw`), including JSON5 and includes, so the overlay of
a monitored run works here as well. Unknown keys are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from critiqor.agentloop.settings import (
    AgentDefaults,
    ChannelSettings,
    DiagnosticsSettings,
    InternalHookSettings,
    ModelChoice,
    PluginHookSettings,
    Provider,
    QueueSettings,
    SkillSettings,
    WriteLockSettings,
)
from critiqor.errors import UsageError
from critiqor.openclaw.configuration import locate_configuration, read_document
from critiqor.openclaw.paths import home_folder

DEFAULT_RUN_TIMEOUT_SECONDS = 172_800.0
"""48 hours."""
_EXAMPLE = 'a provider in models.providers, and agents.defaults.model.primary = "PROVIDER/MODEL"'


class LoopConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that the loop uses."""

    providers: dict[str, Provider] = {}
    defaults: AgentDefaults = AgentDefaults()
    queue: QueueSettings = QueueSettings()
    diagnostics: DiagnosticsSettings = DiagnosticsSettings()
    internal_hooks: InternalHookSettings = InternalHookSettings()
    plugin_hooks: PluginHookSettings = PluginHookSettings()
    skills: SkillSettings = SkillSettings()
    write_lock: WriteLockSettings = WriteLockSettings()
    channels: dict[str, ChannelSettings] = {}
    """The chat channels that have an outbox, by name."""
    default_agent: str = "main"
    agents: tuple[str, ...] = ("main",)
    """Ids of the configured agents."""

    @property
    def choice(self) -> ModelChoice:
        """The primary model and its fallbacks."""
        model = self.defaults.model
        return ModelChoice(model) if isinstance(model, str) else model

    @property
    def run_timeout_seconds(self) -> float | None:
        """Time limit of a run in seconds; None for no limit."""
        seconds = self.defaults.timeout_seconds
        return DEFAULT_RUN_TIMEOUT_SECONDS if seconds is None else (seconds or None)


class _Models(msgspec.Struct):
    providers: dict[str, Provider] = {}


class _Agent(msgspec.Struct):
    id: str
    default: bool = False


class _Agents(msgspec.Struct):
    defaults: AgentDefaults = AgentDefaults()
    listed: list[_Agent] = msgspec.field(default_factory=list, name="list")


class _Messages(msgspec.Struct):
    queue: QueueSettings = QueueSettings()


class _Hooks(msgspec.Struct):
    internal: InternalHookSettings = InternalHookSettings()
    plugin: PluginHookSettings = PluginHookSettings()


class _Session(msgspec.Struct, rename="camel"):
    write_lock: WriteLockSettings = WriteLockSettings()


class _Document(msgspec.Struct):
    models: _Models = msgspec.field(default_factory=_Models)
    agents: _Agents = msgspec.field(default_factory=_Agents)
    messages: _Messages = msgspec.field(default_factory=_Messages)
    diagnostics: DiagnosticsSettings = DiagnosticsSettings()
    hooks: _Hooks = msgspec.field(default_factory=_Hooks)
    session: _Session = msgspec.field(default_factory=_Session)
    skills: SkillSettings = SkillSettings()
    channels: dict[str, Any] = {}


class ConfigurationLocation(NamedTuple):
    """The configuration file and the folders that belong to it."""

    path: Path
    state_folder: Path
    home: Path


def locate_loop_configuration(
    environment: Mapping[str, str], explicit: Path | None = None, arguments: Sequence[str] = ()
) -> ConfigurationLocation:
    """Return the location of `explicit`, or of the file that `openclaw ARGUMENTS` would read in this environment."""
    found = locate_configuration(arguments, environment)
    path = found.path if explicit is None else explicit.expanduser().absolute()
    return ConfigurationLocation(path, found.state_folder, home_folder(environment))


def read_loop_configuration(path: Path) -> LoopConfiguration:
    """Read the configuration file of the loop. Raises `UsageError`, which names the key of an invalid value."""
    if not path.is_file():
        raise UsageError(f"there is no configuration at {path}", fix=f"create it with {_EXAMPLE}, or use --config FILE")
    return parse_configuration(read_document(path), str(path))


def parse_configuration(document: Mapping[str, Any], name: str = "the configuration") -> LoopConfiguration:
    """Return the configuration of the loop from a decoded document; `name` is used in error messages."""
    try:
        parsed = msgspec.convert(dict(document), type=_Document)
    except msgspec.ValidationError as error:
        raise UsageError(f"{name} is invalid: {error}", fix=f"correct {name}") from error
    default = next((agent.id for agent in parsed.agents.listed if agent.default), None)
    first = next((agent.id for agent in parsed.agents.listed), "main")
    return LoopConfiguration(
        providers={
            name: msgspec.structs.replace(provider, id=name) for name, provider in parsed.models.providers.items()
        },
        defaults=parsed.agents.defaults,
        queue=parsed.messages.queue,
        diagnostics=parsed.diagnostics,
        internal_hooks=parsed.hooks.internal,
        plugin_hooks=parsed.hooks.plugin,
        skills=parsed.skills,
        write_lock=parsed.session.write_lock,
        channels=_parse_channels(parsed.channels, name),
        default_agent=default or first,
        agents=tuple(agent.id for agent in parsed.agents.listed) or (first,),
    )


def _parse_channels(channels: dict[str, Any], name: str) -> dict[str, ChannelSettings]:
    """Return the channels with an outbox. The others are OpenClaw's own, to which this loop cannot send."""
    parsed: dict[str, ChannelSettings] = {}
    for channel, settings in channels.items():
        if isinstance(settings, dict) and "outbox" in settings:
            try:
                parsed[channel] = msgspec.convert(settings, type=ChannelSettings)
            except msgspec.ValidationError as error:
                problem = f"{name} is invalid: channels.{channel}: {error}"
                raise UsageError(problem, fix=f"correct channels.{channel} in {name}") from error
    return parsed
