"""What the loop is told by a configuration in OpenClaw's format: models, limits, queues, hooks.

The file is found and read by OpenClaw's own rules (`critiqor.openclaw`), includes and JSON5 among them, so that the
overlay of a monitored run works here as well. Keys that the loop does not know are left alone.
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
    """A model and who serves it."""

    provider: Provider
    model: ModelEntry

    @property
    def reference(self) -> str:
        """`provider/model`."""
        return f"{self.provider.id}/{self.model.id}"


class LoopConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the loop takes from a configuration."""

    providers: dict[str, Provider] = {}
    defaults: AgentDefaults = AgentDefaults()
    queue: QueueSettings = QueueSettings()
    diagnostics: DiagnosticsSettings = DiagnosticsSettings()
    internal_hooks: InternalHookSettings = InternalHookSettings()
    skills: SkillSettings = SkillSettings()
    write_lock: WriteLockSettings = WriteLockSettings()
    default_agent: str = "main"
    agents: tuple[str, ...] = ("main",)
    """The ids of those that are there."""

    @property
    def choice(self) -> ModelChoice:
        """The primary model and its fallbacks."""
        model = self.defaults.model
        return ModelChoice(model) if isinstance(model, str) else model

    @property
    def run_timeout_seconds(self) -> float | None:
        """How long a run may take; None for as long as it likes."""
        seconds = self.defaults.timeout_seconds
        return DEFAULT_RUN_TIMEOUT_SECONDS if seconds is None else (seconds or None)

    def resolve(self, reference: str) -> ResolvedModel:
        """The model behind `provider/model`, or behind the id of a model that only one provider has."""
        name, _, model_id = reference.partition("/")
        provider = self.providers.get(name)
        if provider is not None and model_id:
            # A local server often has models that nobody wrote down: they get the defaults.
            entry = next((model for model in provider.models if model.id == model_id), ModelEntry(id=model_id))
            return ResolvedModel(provider, entry)
        found = [ResolvedModel(one, model) for one in self.providers.values() for model in one.models]
        matches = [resolved for resolved in found if resolved.model.id == reference]
        if len(matches) == 1:
            return matches[0]
        known = ", ".join(resolved.reference for resolved in found) or "none"
        raise UsageError(f"there is no model {reference!r}", fix=f"name one of these: {known}")


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


class ConfigurationPlace(NamedTuple):
    """Where a configuration stands, and the folder that belongs to it."""

    path: Path
    state_folder: Path
    home: Path


def locate(
    environment: Mapping[str, str], chosen: Path | None = None, arguments: Sequence[str] = ()
) -> ConfigurationPlace:
    """The file that is meant here: `chosen`, or the one that `openclaw ARGUMENTS` would read in this environment."""
    found = locate_configuration(arguments, environment)
    path = found.path if chosen is None else chosen.expanduser().absolute()
    return ConfigurationPlace(path, found.state_folder, home_folder(environment))


def read_loop_configuration(path: Path) -> LoopConfiguration:
    """Read a configuration file; raises `UsageError`, which names the key, where it is not right."""
    if not path.is_file():
        raise UsageError(
            f"there is no configuration at {path}", fix=f"write it with {_EXAMPLE}, or name one: --config FILE"
        )
    return configuration_from(read_document(path), str(path))


def configuration_from(document: Mapping[str, Any], name: str = "the configuration") -> LoopConfiguration:
    """The configuration of a document that has been read; `name` is for error messages."""
    try:
        read = msgspec.convert(dict(document), type=_Document)
    except msgspec.ValidationError as error:
        raise UsageError(f"{name} is not right: {error}", fix=f"correct {name}") from error
    default = next((agent.id for agent in read.agents.listed if agent.default), None)
    first = next((agent.id for agent in read.agents.listed), "main")
    return LoopConfiguration(
        providers={
            name: msgspec.structs.replace(provider, id=name) for name, provider in read.models.providers.items()
        },
        defaults=read.agents.defaults,
        queue=read.messages.queue,
        diagnostics=read.diagnostics,
        internal_hooks=read.hooks.internal,
        skills=read.skills,
        write_lock=read.session.write_lock,
        default_agent=default or first,
        agents=tuple(agent.id for agent in read.agents.listed) or (first,),
    )


def api_key_of(provider: Provider, environment: Mapping[str, str]) -> str | None:
    """The key of a provider: from the configuration, from where that points, or from `<PROVIDER>_API_KEY`."""
    key = provider.api_key
    if isinstance(key, SecretReference):
        return environment.get(key.id) or None
    if key is not None:
        return _VARIABLE.sub(lambda found: environment.get(found[1], ""), key) or None
    name = re.sub(r"[^A-Z0-9]", "_", provider.id.upper())
    return environment.get(f"{name}_API_KEY") or None


def workspace_path(configuration: LoopConfiguration, agent_id: str, state_folder: Path, home: Path) -> Path:
    """The workspace of an agent, whether it exists or not; agents beside the default one have their own."""
    chosen = configuration.defaults.workspace
    base = state_folder / "workspace" if chosen is None else expand_path(chosen, home)
    return base if agent_id == configuration.default_agent else base.with_name(f"{base.name}-{agent_id}")
