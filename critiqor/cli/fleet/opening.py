"""The index of the user's settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from critiqor.cli.output import say
from critiqor.fleet.index.fleet_index import FleetIndex
from critiqor.fleet.index.opening import open_index
from critiqor.fleet.settings import read_fleet


@contextmanager
def opened_index(url: str | None = None) -> Iterator[FleetIndex]:
    """Open the index at an address, or that of the settings, and print what the user should know about it."""
    with open_index(url or read_fleet().index) as index:
        for note in index.notes:
            say(note)
        yield index
