"""From a model's name to somebody who can be asked: which models a run may use, and with what key."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

from critiqor.agentloop.configuration import LoopConfiguration, ResolvedModel, api_key_of
from critiqor.agentloop.models.completions import CompletionsClient
from critiqor.agentloop.models.model_call import Dialled
from critiqor.agentloop.models.model_client import Delta, ModelClient, ModelFailureError, ModelRequest, ModelStream
from critiqor.agentloop.models.watchdogs import idle_limit
from critiqor.agentloop.runs import AgentParams
from critiqor.agentloop.services import Services
from critiqor.agentloop.settings import Provider
from critiqor.errors import UsageError


def models_for(configuration: LoopConfiguration, wanted: str | None, decided: dict[str, Any]) -> list[ResolvedModel]:
    """The models of a run in the order in which they are asked.

    What a plugin decides comes before what the caller wants, and that before the configuration. Only the configured
    model has fallbacks: whoever names one means that one.
    """
    choice = configuration.choice
    override, provider = decided.get("modelOverride"), decided.get("providerOverride")
    reference = override or wanted or choice.primary
    if not reference:
        raise UsageError("no model is configured", fix='set agents.defaults.model.primary to "PROVIDER/MODEL"')
    if provider is not None:
        known = reference.partition("/")
        reference = f"{provider}/{known[2] if known[0] in configuration.providers and known[2] else reference}"
    first = configuration.resolve(reference)
    named = override is not None or wanted is not None
    others = [] if named else [configuration.resolve(name) for name in choice.fallbacks]
    return [first, *(one for one in others if one.reference != first.reference)]


def dial(services: Services, params: AgentParams, resolved: ResolvedModel) -> Dialled:
    """Somebody who can be asked; without a key where one is needed, somebody who says so."""
    provider = resolved.provider
    key = api_key_of(provider, services.environment)
    client: ModelClient = (
        _NobodyThere(provider.id) if key is None and not _is_local(provider) else services.clients(provider, key)
    )
    return Dialled(resolved, client, idle_limit(services.configuration, params, provider))


def completions_client(provider: Provider, key: str | None) -> ModelClient:
    """The client of an OpenAI-compatible server, which is what every provider is taken for."""
    return CompletionsClient(provider.base_url, key, provider.timeout_seconds)


def _is_local(provider: Provider) -> bool:
    """Whether a provider is in this house, where servers often want no key."""
    host = urlsplit(provider.base_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host in ("", "localhost") or host.endswith((".local", ".internal"))


class _NobodyThere:
    """Answers every request with the fact that there is no key."""

    def __init__(self, provider: str) -> None:
        self._provider = provider

    def ask(self, request: ModelRequest) -> ModelStream:
        return _Refusal(f'No API key found for provider "{self._provider}"')


class _Refusal:
    request_bytes = 0
    response_bytes = 0

    def __init__(self, words: str) -> None:
        self._words = words

    async def __aiter__(self) -> AsyncIterator[Delta]:
        raise ModelFailureError(self._words, "auth")
        yield  # pragma: no cover - makes it an iterator
