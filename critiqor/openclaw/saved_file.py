"""Configuration files of OpenClaw as they were before somebody changed them, known by their digests alone.

They hold secrets, so nothing of them is copied: OpenClaw keeps backups of what it writes, and those are put back. Only
where it has pushed out the last one of a file that cannot be put back, that one is kept beside the file.
"""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from critiqor.openclaw.configuration import MAX_INCLUDE_DEPTH
from critiqor.openclaw.json5 import Json5Error, parse_json5
from critiqor.openclaw.settings import Keys, setting_at
from critiqor.storage import write_bytes


class SavedFile(msgspec.Struct, frozen=True):
    """What a configuration file was before, without a word of it."""

    path: str
    before: str | None
    """The digest of what it was."""
    mode: int
    """Who might read and write it."""
    link: str | None = None
    """Where it led to, if it was a symbolic link: OpenClaw may put a file in its place."""
    after: str | None = None
    """The digest of what attaching made of it; null where that is not known."""

    @property
    def is_back(self) -> bool:
        """Whether it is what it was."""
        return digest_of(self.path) == self.before and _link(Path(self.path)) == self.link


def saved(path: Path) -> list[SavedFile]:
    """The file and all that it includes, as they are now."""
    files = _configuration_files(path)
    return [SavedFile(str(file), digest_of(file), file.stat().st_mode & 0o777, _link(file)) for file in files]


def backup_of(saved: SavedFile) -> Path | None:
    """Where a configuration file is as it was: itself, or a backup of OpenClaw's; None where it is no more."""
    named = Path(saved.path)
    files = dict.fromkeys((named, named.resolve()))
    backups = [path for file in files for path in sorted(file.parent.glob(f"{glob.escape(file.name)}.bak*"))]
    return next((path for path in (named, *backups) if path.is_file() and digest_of(path) == saved.before), None)


def keep(saved: SavedFile, before: bytes) -> Path:
    """Write what a file was beside it, for those alone who might read it."""
    path = Path(saved.path)
    beside = path.with_name(f"{path.name}.before-critiqor")
    write_bytes(beside, before)
    beside.chmod(saved.mode)
    return beside


def put_back(saved: SavedFile, before: bytes) -> bool:
    """Make a file what it was, a link included; says whether it is."""
    path = Path(saved.path)
    if saved.link is not None and _link(path) is None:
        return _link_again(path, saved)
    write_bytes(path.resolve(), before)
    path.chmod(saved.mode)
    return True


def looks_damaged(before: bytes, now: bytes) -> bool:
    """Whether OpenClaw, having seen `now`, would take `before` for a damaged file and put back a backup instead."""
    try:
        earlier, later = (parse_json5(text.decode("utf-8-sig")) for text in (before, now))
    except (Json5Error, UnicodeDecodeError):
        return True
    if next(_includes(earlier), None) is not None:
        return False
    marks: tuple[Keys, ...] = (("meta",), ("gateway", "mode"))
    lost = any(setting_at(later, keys) and not setting_at(earlier, keys) for keys in marks)
    return lost or (len(now) >= 512 and len(before) < len(now) // 2)


def _configuration_files(path: Path, depth: int = 0) -> Iterator[Path]:
    """The file and all that it includes, in the order in which they are named."""
    yield path
    if depth >= MAX_INCLUDE_DEPTH:
        return
    for target in _includes(parse_json5(path.read_text("utf-8-sig"))):
        yield from _configuration_files(path.parent / target, depth + 1)


def _includes(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _includes(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key == "$include":
                yield from [item] if isinstance(item, str) else item
            else:
                yield from _includes(item)


def _link(path: Path) -> str | None:
    return str(path.readlink()) if path.is_symlink() else None


def _link_again(path: Path, saved: SavedFile) -> bool:
    """Put the link back in the place of the file that OpenClaw has made, if it still leads to what it was."""
    linked = path.parent / str(saved.link)
    if digest_of(linked) != saved.before:
        return False
    beside = path.with_name(f".{path.name}.link")
    beside.unlink(missing_ok=True)
    beside.symlink_to(str(saved.link))
    beside.replace(path)
    return True


def digest_of(path: str | Path) -> str | None:
    """The digest of a file; None where it cannot be read."""
    try:
        return f"sha256:{hashlib.sha256(Path(path).read_bytes()).hexdigest()}"
    except OSError:
        return None
