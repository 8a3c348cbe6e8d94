"""The table `[fleet]` of the user's settings: where runs are stored and indexed, and what may leave this machine."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from critiqor.fleet.manifest import Content

Push = Literal["private", "shared"]
"""Which runs leave this machine: all, private ones too, or only those whose visibility is shared or public."""


class FleetSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table `[fleet]`. A file of a folder may not contain it: it must not decide where recordings are sent."""

    store: str | None = None
    """Where sealed runs are stored: `file://`, `s3://`, `gs://` or `az://`."""
    index: str | None = None
    """Where they are indexed: `postgresql://…`. [default: a SQLite file of the user]"""
    push: Push | None = None
    """Which runs are pushed after each seal. Nothing is pushed before this is set."""
    content: Content = "full"
    """What is pushed of a run."""
    host: str | None = None
    """Id of this machine. [default: made once and kept with the user's settings]"""


def parse_fleet(table: Any) -> FleetSettings:
    """Return the settings of a table. Raise `ValueError` that says what is wrong with it."""
    return msgspec.convert(table, FleetSettings)
