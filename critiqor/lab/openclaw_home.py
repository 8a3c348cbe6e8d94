"""A home folder for a real OpenClaw with a scripted model: no account, no network, none of the user's state."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

_KEPT = ("PATH", "LANG", "LC_ALL", "TERM", "TMPDIR", "TZ", "SYSTEMROOT")


def write_openclaw_home(
    folder: Path, model_url: str, extra: Mapping[str, Any] | None = None, *, context_window: int = 128_000
) -> dict[str, str]:
    """Make `folder` the home of an OpenClaw whose only model is at `model_url`; returns the environment to run it in.

    `extra` is merged over the top level of its configuration; `context_window` is how many tokens the model takes.
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
    provider = {"baseUrl": model_url, "apiKey": "unused", "api": "openai-completions", "models": [model]}
    configuration = {
        "models": {"providers": {"lab": provider}},
        "agents": {"defaults": {"model": {"primary": "lab/scripted"}, "skipBootstrap": True}},
        "gateway": {"mode": "local"},
        **(extra or {}),
    }
    state = folder / ".openclaw"
    state.mkdir(parents=True, exist_ok=True)
    configured = msgspec.json.format(msgspec.json.encode(configuration), indent=2)
    (state / "openclaw.json").write_bytes(configured)
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {
        **kept,
        "HOME": str(folder),
        "OPENCLAW_HOME": str(folder),
        "OPENCLAW_DISABLE_BONJOUR": "1",
        "OPENCLAW_NO_AUTO_UPDATE": "1",
    }
