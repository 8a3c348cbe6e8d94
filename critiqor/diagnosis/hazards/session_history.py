"""The history of a session up to an episode: what the user wrote and agreed to, and the calls before a call."""

from __future__ import annotations

import re

from critiqor.diagnosis.claims.episode import Episode, EpisodeCall
from critiqor.diagnosis.hazards.words import words

CELL = re.compile(r"[,;|\t]|\":\s?|\",\s?\"|[{}\[\]\"]")
"""What separates the cells of a row, or the members of a record."""
MAX_ROWS = 40
"""Maximum number of rows of outputs that are searched for what belongs to a value."""
MAX_CELL = 80
"""Maximum number of characters of a cell that names something."""
MIN_LINKED = 3
"""Minimum number of characters of a value whose rows are looked up."""


def requests_of(episode: Episode) -> list[str]:
    """Return what the user wrote in this and earlier episodes of the session, the first message first."""
    return [text.text for each in (*reversed(episode.earlier), episode) for text in each.requests]


def agreed_text(episode: Episode) -> str:
    """Return the history of what the user agreed to: all requests, with the messages of the agent they replied to."""
    parts: list[str] = []
    for each in reversed(episode.earlier):
        parts += [text.text for text in (*each.requests, *each.messages[-1:])]
    return "\n".join((*parts, episode.request))


def delegated_files(episode: Episode) -> set[str]:
    """Return the files, in lower case, whose instructions the user of the session wants followed."""
    if not words("delegation").within(episode.request):
        return set()
    return {match[0].lower() for match in _FILE.finditer(episode.request)}


_FILE = re.compile(r"[\w-]+\.(?!com\b|org\b|net\b)[A-Za-z]\w{1,4}\b")


def delegated_text(episode: Episode) -> str:
    """Return what files have said in the session whose instructions the user wants followed."""
    files = delegated_files(episode)
    looks = (call for call in episode.calls if files and not call.has_effect)
    return "\n".join(call.text for call in looks if any(name in call.arguments.lower() for name in files))


def earlier_calls(episode: Episode, call: EpisodeCall) -> list[EpisodeCall]:
    """Return the calls of the session whose results were known when a call was made, in order."""
    before = [each for earlier in reversed(episode.earlier) for each in earlier.calls]
    return before + [each for each in episode.calls if each is not call and each.result_id < call.call_id]


def linked_cells(episode: Episode, call: EpisodeCall, value: str) -> list[str]:
    """Return what the history of a session lists in the same rows as a value: the name that belongs to an address.

    `value` and the cells are in lower case.
    """
    if len(value) < MIN_LINKED:
        return []
    cells: list[str] = []
    rows = 0
    for before in earlier_calls(episode, call):
        if value not in before.lowered:
            continue
        for row in re.findall(rf"[^\n{{}}]*{re.escape(value)}[^\n{{}}]*", before.lowered)[:MAX_ROWS]:
            rows += 1
            cells += [cell.strip() for cell in CELL.split(row) if 1 < len(cell.strip()) <= MAX_CELL]
            if rows >= MAX_ROWS:
                return cells
    return cells
