"""Connection to a model: its client, which fails every request if a required API key is missing."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator
from typing import NamedTuple
from urllib.parse import urlsplit

from critiqor.agentloop.models.model_client import Delta, ModelClient, ModelFailureError, ModelRequest, ModelStream
from critiqor.agentloop.models.model_selection import ResolvedModel
from critiqor.agentloop.models.provider_secrets import resolve_api_key
from critiqor.agentloop.models.timeouts import idle_timeout
from critiqor.agentloop.runs import AgentParams
from critiqor.agentloop.services import Services
from critiqor.agentloop.settings import Provider


class ModelConnection(NamedTuple):
    """A model with the client that calls it."""

    resolved: ResolvedModel
    client: ModelClient
    idle_seconds: float | None
    """After how many seconds without data a call times out; None for no limit."""


def connect_model(services: Services, params: AgentParams, resolved: ResolvedModel) -> ModelConnection:
    """Return the connection to a model. If a required API key is missing, every request to its client fails."""
    provider = resolved.provider
    key = resolve_api_key(provider, services.environment)
    client: ModelClient = (
        _KeylessClient(provider.id) if key is None and not _is_local(provider) else services.clients(provider, key)
    )
    return ModelConnection(resolved, client, idle_timeout(services.configuration, params, provider))


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
