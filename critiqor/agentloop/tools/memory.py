"""The memory tools: search and read MEMORY.md and memory/*.md of the workspace.

The search compares words, without an index or embeddings: the score of a passage depends on how many words of the
query it contains and how rare they are.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from critiqor.agentloop.tools.file_access import ToolError, open_file, resolve_path
from critiqor.agentloop.tools.results import answered
from critiqor.agentloop.tools.tool import ToolContext, ToolOutcome

MAX_FILES = 500
MAX_FILE_BYTES = 512 * 1024
MAX_ALL_BYTES = 16 * 1024 * 1024
PASSAGE_LINES = 12
SNIPPET_CHARS = 700
DEFAULT_RESULTS = 6
MAX_RESULTS = 50
DEFAULT_LINES = 200
MAX_EXCERPT_CHARS = 12_000
_WORD = re.compile(r"\w+")

_SEARCH_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "required": ["query"],
    "properties": {
        "query": {"type": "string"},
        "maxResults": {"type": "integer", "minimum": 1},
        "minScore": {"type": "number"},
    },
    "additionalProperties": False,
}
_GET_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "required": ["path"],
    "properties": {
        "path": {"type": "string"},
        "from": {"type": "integer", "minimum": 1},
        "lines": {"type": "integer", "minimum": 1},
    },
    "additionalProperties": False,
}


class MemorySearchTool:
    """Finds passages of the memory files."""

    name = "memory_search"
    description = (
        "Search MEMORY.md and memory/*.md by words. Use it before answering about earlier work, decisions, dates, "
        "people or preferences."
    )
    parameters = _SEARCH_PARAMETERS

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Return the matching passages, the best first."""
        limit = min(arguments.get("maxResults", DEFAULT_RESULTS), MAX_RESULTS)
        found = await asyncio.to_thread(_search, arguments["query"], context)
        results = [hit for hit in found if hit["score"] >= arguments.get("minScore", 0)][:limit]
        return answered({"results": results, "provider": "words", "citations": "auto"})


class MemoryGetTool:
    """Reads lines of one memory file."""

    name = "memory_get"
    description = "Read lines of MEMORY.md or of a file in memory/, for example those that memory_search returned."
    parameters = _GET_PARAMETERS

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Return the lines, and where to continue."""
        path = arguments["path"]
        if not _is_memory(path):
            return answered({"path": path, "text": "", "disabled": True, "error": "only MEMORY.md and memory/*.md"})
        text = await asyncio.to_thread(_read_text, path, context)
        if text is None:
            return answered({"text": "", "path": path})
        return answered(_excerpt(path, text, arguments.get("from", 1), arguments.get("lines", DEFAULT_LINES)))


class _Passage(NamedTuple):
    path: str
    first: int
    lines: list[str]
    words: Counter[str]


def _search(query: str, context: ToolContext) -> list[dict[str, Any]]:
    wanted = set(_split_words(query))
    passages = [passage for path in _memory_files(context) for passage in _passages(path, _read_text(path, context))]
    frequencies = Counter(word for passage in passages for word in wanted if word in passage.words)
    weights = {word: math.log(1 + len(passages) / frequencies[word]) for word in wanted if frequencies[word]}
    best = sum(weights.values()) + sum(math.log(1 + len(passages)) for word in wanted if not frequencies[word])
    hits = []
    for passage in passages:
        score = sum(weight for word, weight in weights.items() if word in passage.words) / (best or 1)
        if score > 0:
            hits.append((-score, passage.path, passage.first, passage))
    return [_hit(-score, passage) for score, _, _, passage in sorted(hits)]


def _hit(score: float, passage: _Passage) -> dict[str, Any]:
    return {
        "path": passage.path,
        "startLine": passage.first,
        "endLine": passage.first + len(passage.lines) - 1,
        "score": round(score, 4),
        "snippet": "\n".join(passage.lines)[:SNIPPET_CHARS],
        "source": "memory",
    }


def _split_words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _passages(path: str, text: str | None) -> Iterator[_Passage]:
    lines = (text or "").splitlines()
    for start in range(0, len(lines), PASSAGE_LINES):
        part = lines[start : start + PASSAGE_LINES]
        yield _Passage(path, start + 1, part, Counter(_split_words("\n".join(part))))


def _memory_files(context: ToolContext) -> Iterator[str]:
    """Yield paths relative to the workspace, in order, up to the size limit."""
    root = context.workspace
    room = MAX_ALL_BYTES
    for file in islice(_candidates(root), MAX_FILES):
        try:
            room -= min(file.stat().st_size, MAX_FILE_BYTES)
        except OSError:
            continue
        if room >= 0:
            yield file.relative_to(root).as_posix()


def _candidates(root: Path) -> Iterator[Path]:
    yield root / "MEMORY.md"
    for folder, folders, files in os.walk(root / "memory"):
        folders.sort()
        yield from (Path(folder, file) for file in sorted(files) if file.endswith(".md"))


def _is_memory(path: str) -> bool:
    parts = Path(path).parts
    return path.endswith(".md") and ".." not in parts and (parts == ("MEMORY.md",) or parts[:1] == ("memory",))


def _read_text(path: str, context: ToolContext) -> str | None:
    """Return the text of a memory file; None if it cannot be read."""
    try:
        file_path = resolve_path(path, context)
        if not file_path.is_file():
            return None
        with os.fdopen(open_file(file_path, os.O_RDONLY, context), "rb") as file:
            return file.read(MAX_FILE_BYTES).decode("utf-8", "replace")
    except (OSError, ToolError):
        return None


def _excerpt(path: str, text: str, first: int, count: int) -> dict[str, Any]:
    lines = text.split("\n")
    taken = lines[first - 1 : first - 1 + count]
    while len(taken) > 1 and sum(map(len, taken)) > MAX_EXCERPT_CHARS:
        taken = taken[: len(taken) // 2]
    shown = "\n".join(taken)[:MAX_EXCERPT_CHARS]
    following = first + len(taken)
    excerpt: dict[str, Any] = {"text": shown, "path": path, "from": first, "lines": len(taken)}
    if following > len(lines) or not taken:
        return excerpt
    note = f"\n\n[More content available. Use from={following} to continue.]"
    return excerpt | {"text": shown + note, "truncated": True, "nextFrom": following}
