"""Selection of the models of a run, and of the client for each."""

from __future__ import annotations

from typing import Any, NamedTuple

from critiqor.agentloop.configuration import LoopConfiguration
from critiqor.agentloop.settings import ModelEntry, Provider
from critiqor.errors import UsageError


class ResolvedModel(NamedTuple):
    """A model and its provider."""

    provider: Provider
    model: ModelEntry

    @property
    def reference(self) -> str:
        """Name of the model: `provider/model`."""
        return f"{self.provider.id}/{self.model.id}"


def resolve_model(configuration: LoopConfiguration, reference: str) -> ResolvedModel:
    """Return the model for `provider/model`, or for a model id that only one provider has."""
    name, _, model_id = reference.partition("/")
    provider = configuration.providers.get(name)
    if provider is not None and model_id:
        # Local servers often have models that are not listed in the configuration: they get default limits.
        entry = next((model for model in provider.models if model.id == model_id), ModelEntry(id=model_id))
        return ResolvedModel(provider, entry)
    found = [ResolvedModel(one, model) for one in configuration.providers.values() for model in one.models]
    matches = [resolved for resolved in found if resolved.model.id == reference]
    if len(matches) == 1:
        return matches[0]
    known = ", ".join(resolved.reference for resolved in found) or "none"
    raise UsageError(f"there is no model {reference!r}", fix=f"use one of these: {known}")


def models_of_run(configuration: LoopConfiguration, wanted: str | None, decided: dict[str, Any]) -> list[ResolvedModel]:
    """Return the models of a run, preferred one first.

    A plugin's choice overrides the caller's, which overrides the configuration's. Only the configured model has
    fallbacks: an explicitly chosen model is not replaced.
    """
    choice = configuration.choice
    override, provider = decided.get("modelOverride"), decided.get("providerOverride")
    reference = override or wanted or choice.primary
    if not reference:
        raise UsageError("no model is configured", fix='set agents.defaults.model.primary to "PROVIDER/MODEL"')
    if provider is not None:
        prefix, _, model = reference.partition("/")
        reference = f"{provider}/{model if prefix in configuration.providers and model else reference}"
    first = resolve_model(configuration, reference)
    is_explicit = override is not None or wanted is not None
    others = [] if is_explicit else [resolve_model(configuration, name) for name in choice.fallbacks]
    return [first, *(other for other in others if other.reference != first.reference)]
