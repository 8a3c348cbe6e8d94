"""Whether the history of a session was replaced by a summary of it."""

from __future__ import annotations

import re

from critiqor.spans.calls import Moment

_SUMMARY = re.compile(
    r"\s*(?:\[[^\]\n]{0,60}\]\s*)?(?:the )?(?:(?:earlier|previous) )?(?:conversation|session|context|chat)"
    r"(?: history)?[^.\n]{0,80}?\b(?:(?:was|has been|were) (?:compacted|summarized|summarised|condensed)"
    r"|(?:is )?being continued from a previous)"
    r"|\s*\[(?:context|conversation)[^\]\n]{0,40}(?:compact|summar)[^\]\n]{0,40}\]",
    re.IGNORECASE,
)
"""How OpenClaw, Claude Code and similar programs begin the message that replaces the history."""


def is_compaction(moment: Moment) -> bool:
    """Return whether a moment is the end of a compaction that removed something."""
    payload = moment.payload
    is_end = moment.event_type == "compaction_end"
    return is_end and payload.get("completed") is not False and payload.get("compactedCount") != 0


def summarizes_history(text: str) -> bool:
    """Return whether a message that seems to come from the user is the summary that a compaction has left."""
    return _SUMMARY.match(text[:300].removeprefix("This ")) is not None
