"""The id of this machine in a store: made once at random, kept with the user's settings, the same after a reboot.

It is neither the host name nor an id of the hardware, which could identify a machine to others. The settings may give
the machine a name that people recognize; where only structure leaves it, the random id is used nevertheless.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from critiqor.errors import UsageError
from critiqor.fleet.manifest import HOST_ID, Content
from critiqor.fleet.settings import FleetSettings
from critiqor.storage.atomic import open_regular_file, sync_folder
from critiqor.storage.paths import FOLDER_MODE, user_folder

_MAX_BYTES = 256


def host_id(settings: FleetSettings, content: Content = "full") -> str:
    """Return the id under which this machine stores runs. Raise `UsageError` if the settings have an invalid one."""
    if content == "structure" or settings.host is None:
        return random_host_id()
    return checked_host(settings.host)


def checked_host(name: str) -> str:
    """Return the name of a machine. Raise `UsageError` if it cannot be a part of the name of an object."""
    if not HOST_ID.fullmatch(name) or ".." in name:
        message = f"{name[:80]!r} is no name of a machine"
        raise UsageError(message, fix="use at most 64 letters, digits, -, _ and .")
    return name


def random_host_id() -> str:
    """Return the random id of this machine, which is made and kept when it is needed first."""
    path = host_id_path()
    with contextlib.suppress(FileNotFoundError):
        return _read(path)
    path.parent.mkdir(parents=True, exist_ok=True, mode=FOLDER_MODE)
    made = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        made.write_text(f"host-{secrets.token_hex(6)}\n", "ascii")
        # Of two processes that make one at the same time, the first counts.
        with contextlib.suppress(FileExistsError):
            path.hardlink_to(made)
    finally:
        made.unlink(missing_ok=True)
    sync_folder(path.parent)
    return _read(path)


def host_id_path() -> Path:
    """Return the path of the file with the random id."""
    return user_folder() / "host_id"


def _read(path: Path) -> str:
    with open_regular_file(path) as file:
        name = file.read(_MAX_BYTES).decode("ascii", "replace").strip()
    if not HOST_ID.fullmatch(name):
        raise UsageError(f"{path} does not contain the id of this machine", fix=f"rm {path}   (a new one is made)")
    return name
