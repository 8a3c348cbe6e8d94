"""Bootstrap files: what a workspace tells an agent before anything else, such as AGENTS.md and MEMORY.md."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

MAX_FILE_CHARS = 20_000
MAX_ALL_CHARS = 60_000
REQUIRED = ("AGENTS.md", "SOUL.md", "IDENTITY.md", "TOOLS.md")
OPTIONAL = ("USER.md", "BOOTSTRAP.md", "MEMORY.md")
"""Not mentioned where they are missing."""
_MAX_FILE_BYTES = 4 * MAX_FILE_CHARS


class BootstrapFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file, as it is put into the prompt; hooks may change, add and remove them."""

    name: str
    path: str
    content: str | None
    """None where the file is missing."""
    truncated: bool = False


def load_bootstrap(workspace: Path, *, minimal: bool = False) -> list[BootstrapFile]:
    """The files of a workspace in the order of the prompt; a sub-agent only gets the instructions."""
    names = REQUIRED[:1] if minimal else (*REQUIRED, *OPTIONAL)
    files = (_load(workspace / name) for name in names)
    return [file for file in files if file.content is not None or file.name in REQUIRED]


def bounded(files: Sequence[BootstrapFile]) -> list[BootstrapFile]:
    """The files as far as there is room for them, one by one and all together."""
    kept = []
    room = MAX_ALL_CHARS
    for file in files:
        content = file.content
        if content is not None and len(content) > (most := min(MAX_FILE_CHARS, room)):
            # The end is the latest, the beginning the most important.
            head = most * 3 // 4
            tail = most - head
            cut = f"{content[:head]}\n[… {len(content) - most} characters left out: read {file.name} …]\n"
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
