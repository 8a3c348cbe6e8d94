"""Configuration of the loop, from a file in OpenClaw's format: models, limits, queues, hooks.

The file is located and read by OpenClaw's rules (`critiqor.openclaw`), including JSON5 and includes, so the overlay of
a monitored run works here as well. Unknown keys are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from critiqor.agentloop.settings import (
    AgentDefaults,
    DiagnosticsSettings,
    InternalHookSettings,
    ModelChoice,
    ModelEntry,
    Provider,
    QueueSettings,
    SecretReference,
    SkillSettings,
    WriteLockSettings,
)
from critiqor.errors import UsageError
from critiqor.openclaw.configuration import expand_path, home_folder, locate_configuration, read_document

DEFAULT_RUN_TIMEOUT_SECONDS = 172_800.0
"""48 hours."""
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_EXAMPLE = 'a provider in models.providers, and agents.defaults.model.primary = "PROVIDER/MODEL"'


class ResolvedModel(NamedTuple):
    """A model and its provider."""

    provider: Provider
    model: ModelEntry

    @property
    def reference(self) -> str:
        """`provider/model`."""
        return f"{self.provider.id}/{self.model.id}"


class LoopConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that the loop uses."""

    providers: dict[str, Provider] = {}
    defaults: AgentDefaults = AgentDefaults()
    queue: QueueSettings = QueueSettings()
    diagnostics: DiagnosticsSettings = DiagnosticsSettings()
    internal_hooks: InternalHookSettings = InternalHookSettings()
    skills: SkillSettings = SkillSettings()
    write_lock: WriteLockSettings = WriteLockSettings()
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

    def resolve(self, reference: str) -> ResolvedModel:
        """Return the model for `provider/model`, or for a model id that only one provider has."""
        name, _, model_id = reference.partition("/")
        provider = self.providers.get(name)
        if provider is not None and model_id:
            # Local servers often have models that are not listed in the configuration: they get default limits.
            entry = next((model for model in provider.models if model.id == model_id), ModelEntry(id=model_id))
            return ResolvedModel(provider, entry)
        found = [ResolvedModel(one, model) for one in self.providers.values() for model in one.models]
        matches = [resolved for resolved in found if resolved.model.id == reference]
        if len(matches) == 1:
            return matches[0]
        known = ", ".join(resolved.reference for resolved in found) or "none"
        raise UsageError(f"there is no model {reference!r}", fix=f"use one of these: {known}")


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
    """Read a configuration file. Raises `UsageError`, which names the key of an invalid value."""
    if not path.is_file():
        raise UsageError(f"there is no configuration at {path}", fix=f"create it with {_EXAMPLE}, or use --config FILE")
    return parse_configuration(read_document(path), str(path))


def parse_configuration(document: Mapping[str, Any], name: str = "the configuration") -> LoopConfiguration:
    """Return the configuration of a decoded document; `name` is used in error messages."""
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
        skills=parsed.skills,
        write_lock=parsed.session.write_lock,
        default_agent=default or first,
        agents=tuple(agent.id for agent in parsed.agents.listed) or (first,),
    )


def resolve_api_key(provider: Provider, environment: Mapping[str, str]) -> str | None:
    """Return the key of a provider: from the configuration, its secret reference, or `<PROVIDER>_API_KEY`."""
    key = provider.api_key
    if isinstance(key, SecretReference):
        return environment.get(key.id) or None
    if key is not None:
        return _VARIABLE.sub(lambda found: environment.get(found[1], ""), key) or None
    name = re.sub(r"[^A-Z0-9]", "_", provider.id.upper())
    return environment.get(f"{name}_API_KEY") or None


def workspace_path(configuration: LoopConfiguration, agent_id: str, state_folder: Path, home: Path) -> Path:
    """Return the workspace of an agent, which may not exist yet. Each agent has its own."""
    configured = configuration.defaults.workspace
    base = state_folder / "workspace" if configured is None else expand_path(configured, home)
    return base if agent_id == configuration.default_agent else base.with_name(f"{base.name}-{agent_id}")
