"""The table `[notify]` of the settings: channels, what each of them receives, and when.

Addresses and keys are secrets. They may be in the user's own file, in an environment variable or in a file. The file
of a folder, and a policy, may name variables only: their author must decide neither where alerts are sent, nor which
program is started, nor which file is read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from critiqor.errors import UsageError
from critiqor.model import SEVERITIES, Severity
from critiqor.notifications.alert import LIMIT_EXCEEDED
from critiqor.storage import open_regular_file
from critiqor.storage.paths import user_folder

ChannelKind = Literal["webhook", "slack", "discord", "command", "terminal", "apprise"]
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_HOURS = r"^([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d$"
_MAX_SECRET = 4096
_REQUIRED: dict[str, tuple[str, ...]] = {"command": ("command",), "terminal": ()}
_ACCEPTED: dict[str, tuple[str, ...]] = {"webhook": ("url", "secret"), "command": ("command",), "terminal": ()}
_ADDRESS = ("url",)


class MissingSecretError(Exception):
    """An address or a key cannot be read from where the settings say it is. The message does not contain it."""


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where an address or a key is: in an environment variable, or in a file."""

    env: str | None = None
    file: str | None = None
    """A path; relative to the user's folder of settings, `~` is the home folder."""


class Audience(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is sent, and when. In `[notify]` for all channels; a channel can differ."""

    min_severity: Severity = "medium"
    """Lowest severity of a finding that is reported."""
    types: tuple[str, ...] = ()
    """Failure types that are reported; all if empty."""
    agents: tuple[str, ...] = ()
    """Patterns of the names under which agents are recorded, such as `release-*`; all if empty."""
    sessions: tuple[str, ...] = ()
    """Patterns of session keys, such as `agent:main:*`; all if empty."""
    quiet_hours: Annotated[str, Meta(pattern=_HOURS)] | None = None
    """Local time during which alerts wait, such as `22:00-07:00`."""
    max_per_hour: Annotated[int, Meta(ge=1, le=3600)] = 60
    """Messages an hour; further alerts wait, and are summed up in one message."""
    texts: bool = False
    """Whether titles and explanations are sent, which may quote what the agent wrote."""


class Channel(Audience, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One receiver of alerts."""

    name: str
    kind: ChannelKind
    url: str | Source | None = None
    """Address of a webhook, of Slack or Discord, or one for Apprise."""
    secret: str | Source | None = None
    """Key with which the requests of a webhook are signed."""
    command: tuple[str, ...] = ()
    """Program and its arguments; it gets the message as JSON on its standard input."""

    def __repr__(self) -> str:
        """Return a description without the address and the key."""
        return f"Channel({self.name!r}, {self.kind!r})"


def parse_notify(table: Any, file: Path, *, is_users: bool) -> list[Channel]:
    """Return the channels of a table `[notify]`. Raise `UsageError` with the place of a mistake.

    `is_users` says whether the file belongs to the user, who alone may name addresses, programs and files.
    """
    try:
        if not isinstance(table, dict):
            raise ValueError("it must be a table")
        common = {name: value for name, value in table.items() if name != "channels"}
        msgspec.convert(common, Audience)
        channels = table.get("channels", {})
        if not isinstance(channels, dict):
            raise ValueError("channels must be tables, such as [notify.channels.ops]")
        return [_parse_channel(name, each, common, is_users=is_users) for name, each in channels.items()]
    except ValueError as error:
        message = f"notify in {file.name}: {_describe(str(error))}"
        raise UsageError(message, fix=f"correct the table [notify] of {file}") from error


def _parse_channel(name: str, table: Any, common: Mapping[str, Any], *, is_users: bool) -> Channel:
    if not _NAME.fullmatch(name):
        raise ValueError(f"the name {name[:40]!r} of a channel is not up to 32 small letters, digits, - and _")
    if not isinstance(table, dict):
        raise ValueError(f"channels.{name} must be a table")
    if "name" in table:
        raise ValueError(f"channels.{name}: its name is that of the table; remove the key name")
    try:
        channel = msgspec.convert({**common, **table, "name": name}, Channel)
        _check_parts(channel)
        if not is_users:
            _check_author(channel)
    except ValueError as error:
        raise ValueError(f"channels.{name}: {_describe(str(error))}") from error
    return channel


def _check_parts(channel: Channel) -> None:
    given = {key for key in ("url", "secret", "command") if getattr(channel, key)}
    if missing := [key for key in _REQUIRED.get(channel.kind, _ADDRESS) if key not in given]:
        raise ValueError(f"a channel of kind {channel.kind} needs {missing[0]}")
    if unused := sorted(given.difference(_ACCEPTED.get(channel.kind, _ADDRESS))):
        raise ValueError(f"a channel of kind {channel.kind} has no {unused[0]}")
    for key in ("url", "secret"):
        value = getattr(channel, key)
        if isinstance(value, Source) and (value.env is None) == (value.file is None):
            raise ValueError(f'{key} must be a text, {{ env = "NAME" }} or {{ file = "PATH" }}')


def _check_author(channel: Channel) -> None:
    where = "only your own config.toml may say that"
    if channel.kind == "command":
        raise ValueError(f"a file of this folder must not start programs; {where}")
    if channel.texts:
        raise ValueError(f"a file of this folder must not have texts of agents sent; {where}")
    for key in ("url", "secret"):
        value = getattr(channel, key)
        if value is not None and not (isinstance(value, Source) and value.env is not None):
            raise ValueError(f'in a file of this folder, write {key} = {{ env = "NAME" }}; {where} otherwise')


def _describe(message: str) -> str:
    what, _, where = message.replace("`", "").replace(" | null", "").partition(" - at $.")
    choice = f"; it must be one of {', '.join(SEVERITIES)}" if where == "min_severity" else ""
    choice = '; it must be local time, such as "22:00-07:00"' if where == "quiet_hours" else choice
    return f"{where}: {what[:1].lower()}{what[1:]}{choice}" if where else what


def unknown_types(channels: Collection[Channel], known: Collection[str]) -> list[str]:
    """Return a sentence for every failure type in the settings that does not exist."""
    wanted = {(type_, channel.name) for channel in channels for type_ in channel.types}
    named = sorted(each for each in wanted if each[0] not in known and each[0] != LIMIT_EXCEEDED)
    return [f"notify: there is no failure type {type_!r}, which the channel {name} names" for type_, name in named]


def read_secret(value: str | Source | None, what: str) -> str:
    """Return an address or key of a channel. Raise `MissingSecretError` without it if it cannot be read."""
    if isinstance(value, str):
        return value
    if value is None or (value.env is None and value.file is None):
        raise MissingSecretError(f"there is no {what}")
    if value.env is not None:
        found = os.environ.get(value.env, "")
        place = f"the variable {value.env}"
    else:
        path = user_folder() / Path(value.file or "").expanduser()
        place = f"the file {path}"
        try:
            with open_regular_file(path) as file:
                found = file.read(_MAX_SECRET).decode()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise MissingSecretError(f"the {what} cannot be read from {place}: {reason}") from error
    if not found.strip():
        raise MissingSecretError(f"{place}, which holds the {what}, is {'not set' if value.env else 'empty'}")
    return found.strip()
