"""The table `[fleet]` of the user's settings: where runs are stored and indexed, and what may leave this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec

from critiqor.errors import UsageError
from critiqor.fleet.manifest import Content
from critiqor.model.record import RunHead
from critiqor.storage import write_bytes
from critiqor.storage.paths import user_settings_path

Push = Literal["private", "shared"]
"""Which runs leave this machine: all, private ones too, or only those that are not private."""


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

    @property
    def pushes_after_seal(self) -> bool:
        """Whether runs are pushed after each seal: it is decided where to, and which."""
        return self.store is not None and self.push is not None


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


def save_fleet(settings: FleetSettings) -> Path:
    """Write the table into the user's file; everything else in it stays as it is. Return the path of the file.

    Raise `UsageError` if the file has the table in a form that cannot be replaced.
    """
    import tomllib

    path = user_settings_path()
    before = path.read_text("utf-8") if path.exists() else ""
    kept, is_ours = [], False
    for line in before.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            is_ours = line.split("#")[0].strip() == "[fleet]"
        if not is_ours:
            kept.append(line)
    text = "".join(kept).rstrip()
    values = {name: value for name, value in msgspec.to_builtins(settings).items() if value is not None}
    # A basic string of TOML has the escapes of JSON.
    table = "".join(f"{name} = {msgspec.json.encode(value).decode()}\n" for name, value in values.items())
    text = f"{text}\n\n[fleet]\n{table}" if text else f"[fleet]\n{table}"
    try:
        old, new = tomllib.loads(before), tomllib.loads(text)
        old.pop("fleet", None)
        if new.pop("fleet") != values or new != old:
            raise ValueError("the table [fleet] is written in another form")
    except ValueError as error:
        raise UsageError(
            f"{path} cannot be changed: {error}", fix=f"write the table [fleet] of {path} by hand"
        ) from error
    write_bytes(path.resolve(), text.encode())
    return path


def may_leave(head: RunHead, push: Push) -> bool:
    """Return whether the settings let a run leave this machine."""
    return push == "private" or head.metadata.visibility != "private"


def describe_leaving(push: Push, content: Content) -> str:
    """Return which runs leave this machine, and what of them, for every message about a push."""
    which = "private runs too" if push == "private" else "no private runs"
    what = "full content" if content == "full" else "structure and numbers only"
    return f"{which}, {what}"


def required_store(url: str | None = None) -> str:
    """Return the address of the store: the given one, or that of the settings. Raise `UsageError` if there is none."""
    found = url or read_fleet().store
    if found is None:
        raise UsageError("no store is configured", fix="critiqor fleet init   (or name one: --store URL)")
    return found


def masked(url: str) -> str:
    """Return the address of an index in the settings without its password and parameters."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "…"
    user = f"{parts.username}@" if parts.username else ""
    return f"{parts.scheme}://{user}{host}{port}{parts.path}"
