"""A home folder for an OpenClaw with a scripted model: no account, no network, nothing of the user's state."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from critiqor.openclaw.config_patch import apply_patch

_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ", "SYSTEMROOT")


def write_openclaw_home(
    folder: Path,
    model_url: str,
    extra: dict[str, Any] | None = None,
    *,
    context_window: int = 128_000,
    api_key: str = "unused",
    timeout_s: float | None = None,
) -> dict[str, str]:
    """Create a home for an OpenClaw whose only model is at `model_url`, and return the environment to run it in.

    `extra` is merged into its configuration. `context_window` is in tokens; `timeout_s` is the silence after which a
    request is abandoned. An empty `api_key` is left out.
    """
    model = {
        "id": "scripted",
        "name": "scripted",
        "reasoning": False,
        "input": ["text"],
        "cost": {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": context_window,
        "maxTokens": 4096,
    }
    provider = {
        "baseUrl": model_url,
        **({"apiKey": api_key} if api_key else {}),
        "api": "openai-completions",
        **({"timeoutSeconds": timeout_s} if timeout_s is not None else {}),
        "models": [model],
    }
    defaults = {
        "model": {"primary": "lab/scripted"},
        "skipBootstrap": True,
        # A gateway asks the model at a time that depends on the clock, which would play a step of the script.
        "heartbeat": {"every": "0m"},
    }
    configuration = {
        "models": {"providers": {"lab": provider}},
        "agents": {"defaults": defaults},
        "gateway": {"mode": "local"},
    }
    state = folder / ".openclaw"
    state.mkdir(parents=True, exist_ok=True)
    configured = msgspec.json.format(msgspec.json.encode(apply_patch(configuration, extra or {})), indent=2)
    (state / "openclaw.json").write_bytes(configured)
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {
        **kept,
        "HOME": str(folder),
        "OPENCLAW_HOME": str(folder),
        "OPENCLAW_DISABLE_BONJOUR": "1",
        "OPENCLAW_NO_AUTO_UPDATE": "1",
    }


def workspace_of(folder: Path) -> Path:
    """Return the workspace of an OpenClaw with this home folder."""
    return folder / ".openclaw" / "workspace"
