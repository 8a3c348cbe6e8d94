"""The table `[fleet]` of the user's settings: where runs are stored and indexed, and what may leave this machine."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from critiqor.errors import UsageError
from critiqor.fleet.manifest import Content
from critiqor.storage.paths import user_settings_path

Push = Literal["private", "shared"]
"""Which runs leave this machine: all, private ones too, or only those whose visibility is shared, public or anonymous."""


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


def read_fleet() -> FleetSettings:
    """Return the table of the user's file; the defaults if there is none. Raise `UsageError` if it is invalid."""
    import tomllib

    path = user_settings_path()
    try:
        table = tomllib.loads(path.read_text("utf-8")).get("fleet", {})
        return parse_fleet(table)
    except FileNotFoundError:
        return FleetSettings()
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"fleet in {path.name}: {error}", fix=f"correct the table [fleet] of {path}") from error


def required_store(url: str | None = None) -> str:
    """Return the address of the store: the given one, or that of the settings. Raise `UsageError` if there is none."""
    found = url or read_fleet().store
    if found is None:
        raise UsageError("no store is configured", fix="critiqor fleet init   (or name one: --store URL)")
    return found
