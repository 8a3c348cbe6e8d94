"""Identify and restore the originals of OpenClaw's configuration files by their digests.

The files hold secrets, so they are not copied: OpenClaw keeps backups of what it writes, and those are restored. The
original is kept beside the file only if OpenClaw has dropped the last backup of a file that cannot be restored.
"""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from critiqor.openclaw.config_patch import Keys, setting_at
from critiqor.openclaw.configuration import MAX_INCLUDE_DEPTH
from critiqor.openclaw.json5 import Json5Error, parse_json5
from critiqor.storage import write_bytes


class SavedFile(msgspec.Struct, frozen=True):
    """The digest and mode of a configuration file before attaching, without its content."""

    path: str
    before: str | None
    """Digest of the original."""
    mode: int
    """Permission bits of the original."""
    link: str | None = None
    """Target of the original if it was a symbolic link: OpenClaw may replace it with a file."""
    after: str | None = None
    """Digest after attaching; null if unknown."""

    @property
    def is_original(self) -> bool:
        """Whether the file is the original."""
        return digest_of(self.path) == self.before and _link(Path(self.path)) == self.link


def saved_files(path: Path) -> list[SavedFile]:
    """Return the digests of a configuration file and of all files that it includes."""
    files = _configuration_files(path)
    return [SavedFile(str(file), digest_of(file), file.stat().st_mode & 0o777, _link(file)) for file in files]


def find_original(saved: SavedFile) -> Path | None:
    """Return the path of the original configuration: the file itself or a backup by OpenClaw; None if there is none."""
    named = Path(saved.path)
    files = dict.fromkeys((named, named.resolve()))
    backups = [path for file in files for path in sorted(file.parent.glob(f"{glob.escape(file.name)}.bak*"))]
    return next((path for path in (named, *backups) if path.is_file() and digest_of(path) == saved.before), None)


def keep_original(saved: SavedFile, before: bytes) -> Path:
    """Write the original next to the configuration file, with its permissions."""
    path = Path(saved.path)
    beside = path.with_name(f"{path.name}.before-critiqor")
    write_bytes(beside, before)
    beside.chmod(saved.mode)
    return beside


def restore_file(saved: SavedFile, before: bytes) -> bool:
    """Restore a configuration file or symbolic link. Return whether it worked."""
    path = Path(saved.path)
    if saved.link is not None and _link(path) is None:
        return _restore_link(path, saved)
    write_bytes(path.resolve(), before)
    path.chmod(saved.mode)
    return True


def looks_damaged(before: bytes, now: bytes) -> bool:
    """Return whether OpenClaw, having read `now`, would treat `before` as damaged and restore a backup instead."""
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
    """Yield the file and all files that it includes, in order."""
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


def _restore_link(path: Path, saved: SavedFile) -> bool:
    """Replace the file that OpenClaw has written with the original link, if its target is unchanged."""
    linked = path.parent / str(saved.link)
    if digest_of(linked) != saved.before:
        return False
    beside = path.with_name(f".{path.name}.link")
    beside.unlink(missing_ok=True)
    beside.symlink_to(str(saved.link))
    beside.replace(path)
    return True


def digest_of(path: str | Path) -> str | None:
    """Return the digest of a configuration file, which identifies its original; None if it cannot be read."""
    try:
        return f"sha256:{hashlib.sha256(Path(path).read_bytes()).hexdigest()}"
    except OSError:
        return None
