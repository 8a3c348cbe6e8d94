"""Critiqor: a flight recorder and crash investigator for OpenClaw agents.

The names listed here are the public interface. They are imported lazily to keep the command's start-up fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "CritiqorError",
    "Diagnosis",
    "Event",
    "Finding",
    "MonitorOptions",
    "MonitorResult",
    "Run",
    "Verification",
    "__version__",
    "abort_session",
    "append_event_to_run",
    "create_session",
    "diagnose",
    "diagnose_run",
    "finalize_session",
    "load_active_session",
    "load_diagnosis",
    "load_record",
    "load_session_evidence_events",
    "monitor_openclaw",
    "openclaw_environment",
    "request_finalize",
    "runs",
]

if TYPE_CHECKING:
    from critiqor.api import Diagnosis, Event, Finding, Run, Verification, diagnose, runs
    from critiqor.errors import CritiqorError
    from critiqor.runtime import MonitorOptions, MonitorResult, monitor_openclaw, openclaw_environment
    from critiqor.session import (
        abort_session,
        append_event_to_run,
        create_session,
        diagnose_run,
        finalize_session,
        load_active_session,
        load_diagnosis,
        load_record,
        load_session_evidence_events,
        request_finalize,
    )
else:
    _HOMES = {
        "CritiqorError": "errors",
        **dict.fromkeys(("Diagnosis", "Event", "Finding", "Run", "Verification", "diagnose", "runs"), "api"),
        **dict.fromkeys(("MonitorOptions", "MonitorResult", "monitor_openclaw", "openclaw_environment"), "runtime"),
    }

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'session')}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
