"""Where a pulled run comes from: a file in its folder. A run of this machine has none."""

from __future__ import annotations

from pathlib import Path

import msgspec

from critiqor.fleet.errors import FleetError
from critiqor.fleet.manifest import Manifest
from critiqor.fleet.store.object_store import checked_url
from critiqor.run.store import Run
from critiqor.storage.atomic import open_regular_file, write_bytes

_MAX_BYTES = 1 << 16


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The store that a run was pulled from, and its machine."""

    store: str
    """Address of the store. It is compared with that of the settings, and never opened."""
    host: str
    """Id of the machine that recorded it."""
    rule_set: str
    """The rule set of the diagnosis that it was pulled with."""


def write_origin(folder: Path, store: str, manifest: Manifest) -> None:
    """Write into the folder of a run where it comes from."""
    origin = Origin(store=store, host=manifest.host_id, rule_set=manifest.rule_set)
    write_bytes(folder / "origin.json", msgspec.json.encode(origin), synced=False)


def read_origin(run: Run) -> Origin | None:
    """Return where a run comes from; None if it is one of this machine. Raise `FleetError` if that cannot be read."""
    path = run.folder / "origin.json"
    try:
        with open_regular_file(path, follow_links=False) as file:
            return msgspec.json.decode(file.read(_MAX_BYTES), type=Origin)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        message = f"it is not known which machine recorded {run.id}: {path} cannot be read"
        raise FleetError(
            message, fix=f"pull it again into another folder, or rm {path} if it is of this one"
        ) from error


def is_from_elsewhere(run: Run, store: str | None) -> bool:
    """Return whether a run was pulled from another store than this one. Such a run is pushed only if it is named."""
    origin = read_origin(run)
    return origin is not None and (store is None or origin.store != checked_url(store))
