"""Defaults of options from files: `critiqor.toml` or `[tool.critiqor]` of `pyproject.toml`, and the user's config file.

Precedence: flag, environment variable, file of the current folder, file of the user, built-in default.

A mistake in `critiqor.toml` or in the user's file is an error. A `pyproject.toml` often belongs to another project, so
settings in it that cannot be used are ignored with a warning.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from critiqor.errors import UsageError
from critiqor.storage.paths import user_settings_path

if TYPE_CHECKING:
    from critiqor.notifications.settings import Channel
    from critiqor.policy.retention import Retention

KEYS = frozenset(
    {
        "runs_dir",
        "openclaw_command",
        "agent_id",
        "tenant_id",
        "visibility",
        "benchmark_id",
        "difficulty_tier",
        "timeout",
        "otlp_endpoint",
        "otlp_content",
        "redaction",
        "notify",
        "retention",
        "fleet",
    }
)
"""Settings that the user's file may contain."""
POLICY_TABLES = frozenset({"limits", "contracts", "notify"})
"""Tables of `critiqor.toml` that are a part of a policy, and no defaults of options."""
FOLDER_FILE = Path("critiqor.toml")
"""The file with the settings of the current folder."""
USER_ONLY = frozenset({"openclaw_command", "otlp_endpoint", "otlp_content", "redaction", "fleet"})
"""Settings that the file of a folder may not contain: its author could launch any program, have secrets recorded, or
have recordings sent elsewhere."""
_FOLDER_KEYS = KEYS - USER_ONLY
_SUBCOMMANDS = {
    **dict.fromkeys(("monitor", "attach", "detach"), ("openclaw",)),
    "lab": ("run", "from-run"),
    "policy": ("test",),
    "notify": ("test", "flush"),
    "fleet": ("init", "status", "reindex"),
}


def has_user_settings() -> bool:
    """Return whether the user has a file of settings."""
    return user_settings_path().is_file()


def default_map(verbs: Iterable[str]) -> dict[str, Any]:
    """Return the settings as click's default map: the same for every verb and its subcommands."""
    settings = _read_user_file() | _read_folder(Path.cwd())
    if not settings:
        return {}
    return {verb: {**settings, **dict.fromkeys(_SUBCOMMANDS.get(verb, ()), settings)} for verb in verbs}


def _read_user_file() -> dict[str, Any]:
    path = user_settings_path()
    settings = _read_strict(path, KEYS) if path.is_file() else {}
    # The table is no option of a verb: a new run gets a copy of it.
    if (redaction := settings.pop("redaction", None)) is not None:
        # Imported here, because few users have such rules, and every verb reads the settings.
        from critiqor.storage.redaction.user_rules import check_user_rules

        check_user_rules(redaction)
    _take_channels(settings, path)
    _take_retention(settings, path)
    # No option of a verb either: verbs that use a store read the table themselves.
    if (fleet := settings.pop("fleet", None)) is not None:
        _check_fleet(fleet, path)
    return settings


def _check_fleet(table: Any, path: Path) -> None:
    """Raise `UsageError` if the table `fleet` is invalid."""
    from critiqor.fleet.settings import parse_fleet

    try:
        parse_fleet(table)
    except ValueError as error:
        raise UsageError(f"fleet in {path.name}: {error}", fix=f"correct the table [fleet] of {path}") from error


def _read_folder(folder: Path) -> dict[str, Any]:
    own, shared = folder / FOLDER_FILE, folder / "pyproject.toml"
    if own.is_file():
        settings = _read_strict(own, _FOLDER_KEYS | POLICY_TABLES)
        _take_channels(settings, own)
        _take_retention(settings, own)
        return {name: value for name, value in settings.items() if name not in POLICY_TABLES}
    return _read_lenient(shared) if shared.is_file() else {}


def read_channels(policy: Path | None = None) -> list[Channel]:
    """Return the channels for alerts from the same settings files as the defaults of options, and from a policy.

    A name that is used twice means the first of them.
    """
    named: dict[str, Channel] = {}
    for path in (user_settings_path(), Path.cwd() / "critiqor.toml", policy):
        if path is not None and path.is_file():
            for channel in _take_channels(_read_document(path), path):
                named.setdefault(channel.name, channel)
    return list(named.values())


def _take_channels(settings: dict[str, Any], path: Path) -> list[Channel]:
    """Remove the table `notify` from settings, and return its channels. Raise `UsageError` if it is invalid."""
    if (table := settings.pop("notify", None)) is None:
        return []
    from critiqor.notifications.settings import parse_notify

    return parse_notify(table, path, is_users=path == user_settings_path())


def read_retention() -> Retention:
    """Return the rules for keeping runs: those of the user's file. The project file can only keep more.

    An agent can write the project file, and must not have its own recording removed by it.
    """
    import msgspec

    from critiqor.policy.retention import Retention

    found = [
        _take_retention(_read_toml(path), path) or Retention()
        for path in (user_settings_path(), Path.cwd() / FOLDER_FILE)
        if path.is_file()
    ]
    keep_journal = any(rules.keep_journal for rules in found)
    removing = next((rules for rules in found if rules.removes_runs), Retention())
    return msgspec.structs.replace(removing, keep_journal=keep_journal)


def _take_retention(settings: dict[str, Any], path: Path) -> Retention | None:
    """Remove the table `retention` from settings, and return its rules. Raise `UsageError` if it is invalid."""
    if (table := settings.pop("retention", None)) is None:
        return None
    from critiqor.policy.retention import parse_retention

    try:
        rules = parse_retention(table)
    except ValueError as error:
        message = f"retention in {path.name}: {error}"
        raise UsageError(message, fix=f"correct the table [retention] of {path}") from error
    if rules.removes_runs and path != user_settings_path():
        message = (
            f"retention in {path.name} may contain keep_journal only: a folder must not decide which runs are removed"
        )
        raise UsageError(message, fix=f"move the other rules to {user_settings_path()}")
    return rules


def _read_strict(path: Path, allowed: frozenset[str]) -> dict[str, Any]:
    settings = _read_toml(path)
    unknown = sorted(settings.keys() - allowed)
    if unknown:
        message = f"unknown settings in {path.name}: {', '.join(unknown)}"
        raise UsageError(message, fix=f"remove them; {path.name} accepts {', '.join(sorted(allowed))}")
    return settings


def _read_lenient(path: Path) -> dict[str, Any]:
    from critiqor.cli.output import say

    section: Any = {}
    try:
        section = _read_toml(path)
        for name in ("tool", "critiqor"):
            section = section.get(name, {})
    except (UsageError, OSError) as error:
        say(f"{path.name} is ignored: {error.message if isinstance(error, UsageError) else error.strerror}")
        return {}
    except AttributeError:
        section = None
    if not isinstance(section, dict):
        say(f"{path.name} is ignored: tool.critiqor is not a table")
        return {}
    options = _FOLDER_KEYS - {"notify", "retention"}
    usable = {name for name, value in section.items() if name in options and isinstance(value, str | int | float)}
    if ignored := sorted(section.keys() - usable):
        say(f"{path.name}: these settings are ignored: {', '.join(ignored)}")
    return {name: section[name] for name in usable}


def _read_document(path: Path) -> dict[str, Any]:
    """Read a file of settings, or a policy, which may also be JSON."""
    if path.suffix.lower() != ".json":
        return _read_toml(path)
    import msgspec

    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path.name} cannot be read: {error}", fix=f"correct {path.name}") from error


def _read_toml(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(path.read_text("utf-8"))
    # ValueError: not TOML, not UTF-8, or a number with thousands of digits.
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path.name} cannot be read: {error}", fix=f"correct {path.name}") from error
