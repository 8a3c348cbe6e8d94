"""The documented functions of the supervised runtime: a thin facade over `critiqor.recording`."""

from critiqor.recording.monitor import (
    DEFAULT_ARGUMENTS,
    MonitorOptions,
    MonitorResult,
    Say,
    monitor_openclaw,
    openclaw_environment,
)

__all__ = [
    "DEFAULT_ARGUMENTS",
    "MonitorOptions",
    "MonitorResult",
    "Say",
    "monitor_openclaw",
    "openclaw_environment",
]
