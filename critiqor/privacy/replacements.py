"""Words that identify no run, and the replacements for all others."""

from __future__ import annotations

import re

from critiqor.diagnosis import FAILURE_TYPES
from critiqor.model import EventType, iso_from_ms, ms_from_iso
from critiqor.model.event import place_of
from critiqor.model.record import Metadata
from critiqor.model.timeline import line_of_id

WITHHELD = "withheld"
AGENT = "an agent"
ANOTHER_TOOL = "another tool"
ANOTHER_EVENT = "another event"
_OPENCLAW_TOOLS = """
    agents_list apply_patch bash browser canvas cron edit exec find gateway get glob grep image image_generate ls
    memory_get memory_search message nodes pdf process read session_status sessions_history sessions_list sessions_send
    sessions_spawn sessions_yield subagents todo tts update_plan web_fetch web_search write
"""
_TOOLS = frozenset(_OPENCLAW_TOOLS.split())
_RECORDER_EVENTS = """
    after_compaction after_provider_response after_tool_call agent_end agent_start before_agent_run before_compaction
    before_provider_request before_reset before_tool_call compaction_end compaction_start gateway_start gateway_stop
    input llm_input llm_output message_end message_received message_sent message_start message_update model_call_ended
    model_call_started model_change provider_retry resource_usage session_before_compact session_compact session_end
    session_start subagent_ended subagent_spawned thinking_level_change tool_execution_end tool_execution_start
    tool_execution_update tool_result turn_end turn_start user_bash
"""
_EVENTS = frozenset(_RECORDER_EVENTS.split()) | {value for name, value in vars(EventType).items() if name.isupper()}
_LAYERS = frozenset({"extension_api", "tool_hooks", "supervisor"})
_STATUSES = frozenset({"ok", "error"})
_SOURCES = frozenset({"hooks", "agent_events", "transcript"})
_DEFAULTS = {
    "framework": {Metadata().framework, "imported"},
    "benchmark_id": {Metadata().benchmark_id, "imported"},
    "difficulty_tier": {Metadata().difficulty_tier},
}
_VERSION = re.compile(r"\d{1,5}(?:\.\d{1,5}){0,3}(?:-\d{1,5})?")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_FINDING = re.compile(r"finding_\d{1,6}")


def anonymous_name(field: str, name: str) -> str:
    """Return the name in a field of an event if all runs share it, else the replacement for other names."""
    known, otherwise = {
        "event_type": (_EVENTS, ANOTHER_EVENT),
        "source_layer": (_LAYERS, WITHHELD),
        "tool_name": (_TOOLS, ANOTHER_TOOL),
        "status": (_STATUSES, WITHHELD),
    }[field]
    return name if name in known else otherwise


def tool(name: str) -> str:
    """Return the name of a tool of OpenClaw, or the replacement for other tools."""
    return anonymous_name("tool_name", name)


def source(name: str) -> str:
    """Return the name of a live source, or the replacement for other names."""
    return name if name in _SOURCES else WITHHELD


def metadata_word(field: str, word: str) -> str:
    """Return a metadata value if it is a default, else the replacement for chosen values."""
    return word if word in _DEFAULTS[field] else WITHHELD


def failure_type(kind: str) -> str:
    """Return a failure type that Critiqor defines, or the replacement for other types."""
    return kind if kind in FAILURE_TYPES else WITHHELD


def failure_meaning(kind: str) -> str:
    """Return what a failure type of Critiqor means in any run, or the replacement for other types."""
    return FAILURE_TYPES.get(kind, WITHHELD)


def timestamp(text: str) -> str:
    """Return a time in one format, so that its format identifies no run; empty if the text is not a time."""
    at = ms_from_iso(text)
    return "" if at is None else iso_from_ms(at)


def day(text: str) -> str | None:
    """Return the date that replaces a text in an anonymized run; None for a text that is no date."""
    return text if _DAY.fullmatch(text) else None


def version(text: str) -> str:
    """Return a version number, or the replacement for other texts."""
    return text if _VERSION.fullmatch(text) else WITHHELD


def digest(text: str) -> str:
    """Return a digest, or the replacement for other texts."""
    return text if _DIGEST.fullmatch(text) else WITHHELD


def cited(name: str) -> str:
    """Return the id of an event, a timeline line or a finding; other ids could contain anything."""
    known = place_of(name) is not None or line_of_id(name) is not None or _FINDING.fullmatch(name) is not None
    return name if known else WITHHELD


def failure_title(kind: str) -> str:
    """Return the replacement for the title of a failure type, which identifies no run."""
    return failure_type(kind).replace("_", " ").capitalize()


class Aliases:
    """Replaces the ids of one run with numbered names, so that events with the same id can still be recognized."""

    def __init__(self) -> None:
        self._aliases: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}

    def of(self, kind: str, name: str) -> str:
        """Return the alias that replaces an id; the same id always gets the same alias."""
        alias = self._aliases.get((kind, name))
        if alias is None:
            self._counts[kind] = number = self._counts.get(kind, 0) + 1
            alias = self._aliases[kind, name] = f"{kind}_{number}"
        return alias
