"""Bootstrap files: instructions in the workspace that become part of the system prompt, such as AGENTS.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

MAX_FILE_CHARS = 20_000
MAX_ALL_CHARS = 60_000
REQUIRED = ("AGENTS.md", "SOUL.md", "IDENTITY.md", "TOOLS.md")
OPTIONAL = ("USER.md", "BOOTSTRAP.md", "MEMORY.md")
"""Left out of the prompt if they are missing."""
_MAX_FILE_BYTES = 4 * MAX_FILE_CHARS


class BootstrapFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file for the prompt. Hooks may change, add and remove files."""

    name: str
    path: str
    content: str | None
    """None if the file is missing."""
    truncated: bool = False


def load_bootstrap(workspace: Path, *, minimal: bool = False) -> list[BootstrapFile]:
    """Read the bootstrap files in the order of the prompt; `minimal` reads only AGENTS.md, for subagents."""
    names = REQUIRED[:1] if minimal else (*REQUIRED, *OPTIONAL)
    files = (_load(workspace / name) for name in names)
    return [file for file in files if file.content is not None or file.name in REQUIRED]


def truncate_files(files: Sequence[BootstrapFile]) -> list[BootstrapFile]:
    """Truncate the bootstrap files to the limit of a file and to the limit of all files together."""
    kept = []
    room = MAX_ALL_CHARS
    for file in files:
        content = file.content
        if content is not None and len(content) > (limit := min(MAX_FILE_CHARS, room)):
            # The beginning is the most important part, the end the most recent one.
            head = limit * 3 // 4
            tail = limit - head
            cut = f"{content[:head]}\n[… {len(content) - limit} characters left out: read {file.name} …]\n"
            file = msgspec.structs.replace(file, content=cut + (content[-tail:] if tail else ""), truncated=True)
        room -= min(len(content or ""), room)
        kept.append(file)
    return kept


def _load(path: Path) -> BootstrapFile:
    try:
        if not path.is_file():
            raise FileNotFoundError
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError:
        return BootstrapFile(name=path.name, path=str(path), content=None)
    content = data[:_MAX_FILE_BYTES].decode("utf-8", "replace").strip()
    return BootstrapFile(name=path.name, path=str(path), content=content, truncated=len(data) > _MAX_FILE_BYTES)
