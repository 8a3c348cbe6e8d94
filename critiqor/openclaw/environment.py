"""Environment variables that make OpenClaw write its diagnostics timeline and Node its profiles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

TIMELINE = "timeline"
_ALL_FLAGS = frozenset(("1", "true", "all", "*"))
_OFF_FLAGS = frozenset(("0", "false", "off", "none"))
PROFILING = (
    "--cpu-prof",
    "--heap-prof",
    "--trace-events-enabled",
    "--heapsnapshot-signal=SIGUSR2",
    "--report-on-signal",
    "--report-signal=SIGUSR1",
)
"""Options of Node that write profiles, trace events, reports and heap snapshots."""


class Diagnostics(NamedTuple):
    """Environment variables to set, and notes for the user."""

    environment: dict[str, str]
    notes: list[str]


def timeline_diagnostics(environment: Mapping[str, str], *, run_id: str, agent_id: str, timeline: Path) -> Diagnostics:
    """Return environment variables that make OpenClaw write a timeline besides the diagnostics that the user enabled.

    If the user has turned all diagnostics off, nothing is added.
    """
    flags = [flag for flag in re.split(r"[\s,]+", environment.get("OPENCLAW_DIAGNOSTICS", "")) if flag]
    known = {flag.lower() for flag in flags}
    if known & _OFF_FLAGS:
        return Diagnostics({}, ["OPENCLAW_DIAGNOSTICS turns diagnostics off: there will be no timeline."])
    if not known & (_ALL_FLAGS | {TIMELINE, f"diagnostics.{TIMELINE}"}):
        flags.append(TIMELINE)
    notes = []
    other = environment.get("OPENCLAW_DIAGNOSTICS_TIMELINE_PATH")
    if other:
        notes.append(f"the timeline is written to {timeline} instead of {other}.")
    return Diagnostics(
        {
            "OPENCLAW_DIAGNOSTICS": ",".join(flags),
            "OPENCLAW_DIAGNOSTICS_RUN_ID": run_id,
            "OPENCLAW_DIAGNOSTICS_ENV": agent_id,
            "OPENCLAW_DIAGNOSTICS_TIMELINE_PATH": str(timeline),
            "OPENCLAW_DIAGNOSTICS_EVENT_LOOP": "1",
        },
        notes,
    )


def profiling_environment(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the environment variables of OpenClaw that make every Node process write its profiles into a folder.

    The user's NODE_OPTIONS are kept; if two options conflict, Node uses the last one.
    """
    folder_options = (f"--cpu-prof-dir={folder}", f"--heap-prof-dir={folder}", f"--report-dir={folder}")
    trace_option = f"--trace-event-file-pattern={folder}/node-trace-${{pid}}-${{rotation}}.json"
    added = (*PROFILING, *folder_options, f"--diagnostic-dir={folder}", trace_option)
    options = [environment.get("NODE_OPTIONS", ""), *(_quoted(option) for option in added)]
    return {"NODE_OPTIONS": " ".join(option for option in options if option)}


def _quoted(option: str) -> str:
    # Node splits its options at spaces, except within double quotes.
    if " " not in option:
        return option
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
