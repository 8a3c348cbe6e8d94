"""The documented functions of the supervised runtime: a thin facade over `critiqor.recording`."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from critiqor.model import Metadata
from critiqor.recording.monitor import (
    DEFAULT_ARGUMENTS,
    MonitorOptions,
    MonitorResult,
    Say,
    monitor_openclaw,
    recorder_environment,
)
from critiqor.run.store import RunStore

__all__ = [
    "DEFAULT_ARGUMENTS",
    "MonitorOptions",
    "MonitorResult",
    "Say",
    "monitor_openclaw",
    "openclaw_environment",
]


def openclaw_environment(
    record: Mapping[str, Any],
    runs_dir: str | Path = "runs",
    *,
    environment: Mapping[str, str] | None = None,
    bundled_plugins_dir: bool = True,
) -> dict[str, str]:
    """Return the environment for a supervised OpenClaw: a copy with the variables that name the run for the recorder.

    `bundled_plugins_dir` must be False for an OpenClaw that would replace its own plugins with ours.
    """
    named = {name: record["metadata"][name] for name in ("agent_id", "tenant_id", "visibility")}
    return recorder_environment(
        RunStore(runs_dir).run(record["run_id"]),
        Metadata(**named),
        os.environ if environment is None else environment,
        bundled_plugins_dir=bundled_plugins_dir,
        options=MonitorOptions(),
    )
