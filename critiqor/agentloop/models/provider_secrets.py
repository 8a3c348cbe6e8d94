"""Secrets of model providers: API keys and other secrets, from the configuration or the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping

from critiqor.agentloop.settings import Provider, Secret, SecretReference

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def resolve_secret(secret: Secret, environment: Mapping[str, str]) -> str | None:
    """Return a secret of a model provider from its configuration or the environment; None if it is not there."""
    if isinstance(secret, SecretReference):
        return environment.get(secret.id) or None
    return substitute_variables(secret, environment) or None


def resolve_api_key(provider: Provider, environment: Mapping[str, str]) -> str | None:
    """Return the API key of a model provider: from the configuration, its secret reference, or `<PROVIDER>_API_KEY`."""
    if provider.api_key is not None:
        return resolve_secret(provider.api_key, environment)
    name = re.sub(r"[^A-Z0-9]", "_", provider.id.upper())
    return environment.get(f"{name}_API_KEY") or None


def substitute_variables(text: str, environment: Mapping[str, str]) -> str:
    """Return a secret of the configuration with each `${VARIABLE}` replaced by its value in the environment."""
    return _VARIABLE.sub(lambda found: environment.get(found[1], ""), text)
