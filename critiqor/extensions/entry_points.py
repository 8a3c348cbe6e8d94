"""Entry points of installed packages. They are listed here, and loaded where they are used."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from critiqor.errors import CritiqorError
from critiqor.model.sanitize import sanitize_line

Group = Literal["critiqor.detectors", "critiqor.exporters", "critiqor.importers", "critiqor.agentloop.hooks"]


class Extension(NamedTuple):
    """One entry point of an installed package."""

    package: str
    version: str
    name: str
    value: str
    """The module, or the module and the object in it, separated by a colon."""

    def load(self) -> Any:
        """Import the object that the entry point names. The import can raise anything."""
        from importlib.metadata import EntryPoint

        return EntryPoint(self.name, self.value, "").load()

    def __str__(self) -> str:
        return f"{self.name} of {self.package} {self.version}"


def installed(group: Group) -> list[Extension]:
    """Return the entry points of a group, by package and name. Nothing is imported from the packages."""
    if not _is_mentioned(group):
        return []
    from importlib.metadata import entry_points

    found = [
        Extension(_word(point.dist.name), _word(point.dist.version), _word(point.name), point.value)
        for point in entry_points(group=group)
        if point.dist is not None
    ]
    return sorted(set(found))


def _word(text: str) -> str:
    return sanitize_line(text, 100)


def describe_error(error: BaseException) -> str:
    """Return the exception of an entry point that cannot be used, in one short line."""
    text = error.message if isinstance(error, CritiqorError) else f"{type(error).__name__}: {error}"
    return sanitize_line(text, 300)


def _is_mentioned(group: Group) -> bool:
    """Return whether an installed package may have entry points of a group.

    `importlib.metadata` takes longer to import than a short run takes to diagnose, and most machines have no extension.
    """
    section = f"[{group}]".encode()
    return any(section in content for folder in sys.path for content in _entry_point_files(folder))


def _entry_point_files(folder: str) -> Iterator[bytes]:
    try:
        with os.scandir(folder or ".") as entries:
            names = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return
    for name in names:
        try:
            yield Path(name, "entry_points.txt").read_bytes()
        except OSError:
            continue
