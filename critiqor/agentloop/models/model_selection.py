"""Selection of the models of a run, and of the client and API key for each."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

from critiqor.agentloop.configuration import LoopConfiguration, ResolvedModel, resolve_api_key
from critiqor.agentloop.models.completions_client import CompletionsClient
from critiqor.agentloop.models.model_call import ModelConnection
from critiqor.agentloop.models.model_client import Delta, ModelClient, ModelFailureError, ModelRequest, ModelStream
from critiqor.agentloop.models.timeouts import idle_timeout
from critiqor.agentloop.runs import AgentParams
from critiqor.agentloop.services import Services
from critiqor.agentloop.settings import Provider
from critiqor.errors import UsageError


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
    first = configuration.resolve(reference)
    is_explicit = override is not None or wanted is not None
    others = [] if is_explicit else [configuration.resolve(name) for name in choice.fallbacks]
    return [first, *(other for other in others if other.reference != first.reference)]


def connect_model(services: Services, params: AgentParams, resolved: ResolvedModel) -> ModelConnection:
    """Return a model with its client. If a required API key is missing, every request to the client fails."""
    provider = resolved.provider
    key = resolve_api_key(provider, services.environment)
    client: ModelClient = (
        _KeylessClient(provider.id) if key is None and not _is_local(provider) else services.clients(provider, key)
    )
    return ModelConnection(resolved, client, idle_timeout(services.configuration, params, provider))


def completions_client(provider: Provider, key: str | None) -> ModelClient:
    """Return the client for a provider, which is assumed to be OpenAI-compatible."""
    return CompletionsClient(provider.base_url, key, provider.timeout_seconds)


def _is_local(provider: Provider) -> bool:
    """Whether a provider is on this machine or network, where servers often require no key."""
    host = urlsplit(provider.base_url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host in ("", "localhost") or host.endswith((".local", ".internal"))


class _KeylessClient:
    """Client that fails every request because the API key is missing."""

    def __init__(self, provider: str) -> None:
        self._provider = provider

    def ask(self, request: ModelRequest) -> ModelStream:
        return _Refusal(f'No API key found for provider "{self._provider}"')


class _Refusal:
    request_bytes = 0
    response_bytes = 0

    def __init__(self, text: str) -> None:
        self._text = text

    async def __aiter__(self) -> AsyncIterator[Delta]:
        raise ModelFailureError(self._text, "auth")
        yield  # pragma: no cover - makes it a generator
