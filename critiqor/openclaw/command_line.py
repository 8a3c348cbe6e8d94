"""Parse an OpenClaw command line as far as needed before OpenClaw is launched.

OpenClaw accepts its global options anywhere before `--`, also after the subcommand, so `openclaw chat --profile work`
and `openclaw --profile work chat` are the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_GLOBAL_WITH_VALUE = frozenset({"--profile", "--log-level", "--container"})
# Options of a parent command that may precede the subcommand, with their value.
_PARENT_WITH_VALUE = frozenset({"--agent", "--section"})
# Options of `openclaw agent` itself that may precede its subcommand.
_AGENT_WITH_VALUE = frozenset(
    {
        *("-m", "--message", "--message-file", "-t", "--to", "--session-id", "--session-key", "--model", "--thinking"),
        *("--timeout", "--verbose", "--channel", "--reply-account", "--reply-channel", "--reply-to"),
    }
)
_NEGATIVE_NUMBER = re.compile(r"-\d+(?:\.\d+)?")

_ANY_SUBCOMMAND = frozenset({"*"})
_LISTS = frozenset({"add", "remove", "clear"})
_WRITING_COMMANDS: dict[str, frozenset[str]] = {
    # An empty string means the command without a subcommand.
    "agents": frozenset({"add", "bind", "delete", "set-identity", "team", "unbind"}),
    "browser": frozenset({"create-profile", "delete-profile"}),
    "channels": frozenset({"add", "login", "logout", "remove"}),
    "config": frozenset({"", "patch", "set", "unset"}),
    "configure": _ANY_SUBCOMMAND,
    "crestodian": _ANY_SUBCOMMAND,
    # Installing a service copies the current environment, so the service would keep the temporary settings of a
    # recording.
    "daemon": frozenset({"install"}),
    "exec-policy": frozenset({"preset", "set"}),
    "gateway": frozenset({"install"}),
    "hooks": frozenset({"disable", "enable", "install", "update"}),
    "mcp": frozenset({"add", "configure", "login", "logout", "set", "tools", "unset"}),
    "migrate": frozenset({"", "apply"}),
    "models": frozenset({"scan", "set", "set-image"}),
    "models aliases": _LISTS,
    "models auth": frozenset(
        {"activate", "add", "login", "login-github-copilot", "logout", "paste-api-key", "paste-token", "setup-token"}
    ),
    "models fallbacks": _LISTS,
    "models image-fallbacks": _LISTS,
    "node": frozenset({"install"}),
    "onboard": _ANY_SUBCOMMAND,
    "plugins": frozenset({"disable", "enable", "install", "uninstall", "update"}),
    "promos": frozenset({"claim"}),
    "reset": _ANY_SUBCOMMAND,
    "secrets": frozenset({"apply", "configure"}),
    "setup": _ANY_SUBCOMMAND,
    "telemetry": frozenset({"off", "on"}),
    "uninstall": _ANY_SUBCOMMAND,
    "update": frozenset({"", "repair", "wizard"}),
    "webhooks gmail": frozenset({"setup"}),
}
_WRITING_OPTIONS: dict[str, frozenset[str]] = {
    "doctor": frozenset({"--fix", "--force", "--generate-gateway-token", "--repair"}),
    "gateway": frozenset({"--reset"}),
    "security": frozenset({"--fix"}),
}
_DETACHING_OPTIONS = frozenset({"--auth-env-only", "--config", "--isolated"})
_READ_ONLY_OPTIONS = frozenset({"-h", "--help", "-V", "--version", "--dry-run"})


def profile_of(arguments: Sequence[str]) -> str | None:
    """Return the profile that `--profile NAME` or `--dev` selects, or None.

    `--dev` after `gateway` is an option of the gateway and selects nothing. An invalid name is returned unchanged:
    OpenClaw reports the error.
    """
    profile: str | None = None
    for index, argument in enumerate(options := _before_terminator(arguments)):
        if argument == "--dev" and command_words(options[:index])[:1] != ("gateway",):
            profile = "dev"
        # `qa matrix` has another `--profile` option.
        elif command_words(options[:index])[:2] != ("qa", "matrix"):
            profile = _option_value(options, index, "--profile") or profile
    return profile


def container_of(arguments: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Return the container in which OpenClaw will run (`--container NAME` or `OPENCLAW_CONTAINER`), or None.

    Files and environment variables prepared on this machine do not reach an OpenClaw in a container.
    """
    container = environment.get("OPENCLAW_CONTAINER", "").strip()
    options = _before_terminator(arguments)
    for index in range(len(options)):
        container = _option_value(options, index, "--container") or container
    return container or None


def command_words(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command line without options: `--profile work models auth login` gives `models auth login`.

    Only options that may precede a subcommand are known, so words after the subcommand may be option values.
    """
    return _words(arguments, _GLOBAL_WITH_VALUE | _PARENT_WITH_VALUE)


def is_detached_exec(arguments: Sequence[str]) -> bool:
    """Return whether this is an `openclaw agent exec` that ignores the configuration that loads the recorder.

    It does so with `--isolated`, `--auth-env-only` and `--config FILE`; any other `agent exec` is recorded. A message
    "exec" is not the subcommand, and `--help` runs nothing.
    """
    options = frozenset(argument.split("=", 1)[0] for argument in _before_terminator(arguments))
    if options & _READ_ONLY_OPTIONS or not options & _DETACHING_OPTIONS:
        return False
    words = _words(arguments, _GLOBAL_WITH_VALUE | _PARENT_WITH_VALUE | _AGENT_WITH_VALUE)
    return words[:2] == ("agent", "exec")


def writes_configuration(arguments: Sequence[str]) -> bool:
    """Return whether this command line of OpenClaw changes its settings or installs something.

    Such a command fails while recording, because OpenClaw then has a read-only configuration; it must be run without
    Critiqor. `--help` and `--dry-run` change nothing.
    """
    options = frozenset(_before_terminator(arguments))
    if options & _READ_ONLY_OPTIONS:
        return False
    command, sub, third = (*command_words(arguments), "", "", "")[:3]
    if not command:
        return "--update" in options
    if options & _WRITING_OPTIONS.get(command, frozenset()):
        return True
    writing = _WRITING_COMMANDS.get(command, frozenset())
    return bool(writing & {"*", sub}) or third in _WRITING_COMMANDS.get(f"{command} {sub}", frozenset())


def _words(arguments: Sequence[str], with_value: frozenset[str]) -> tuple[str, ...]:
    """Return the arguments that are neither options nor values of known options."""
    words: list[str] = []
    skip = False
    for index, argument in enumerate(options := _before_terminator(arguments)):
        if skip:
            skip = False
        elif argument in with_value:
            skip = _is_value(options[index + 1 : index + 2])
        elif not argument.startswith("-"):
            words.append(argument)
    return tuple(words)


def _before_terminator(arguments: Sequence[str]) -> list[str]:
    """Return the arguments before `--`; what follows is text, never an option."""
    options = list(arguments)
    return options[: options.index("--")] if "--" in options else options


def _option_value(arguments: Sequence[str], index: int, option: str) -> str | None:
    argument = arguments[index]
    if argument.startswith(f"{option}="):
        return argument.removeprefix(f"{option}=").strip() or None
    following = arguments[index + 1 : index + 2]
    return following[0].strip() or None if argument == option and _is_value(following) else None


def _is_value(following: Sequence[str]) -> bool:
    """Return whether OpenClaw would take the next argument as the value of a global option."""
    if not following or not following[0]:
        return False
    return not following[0].startswith("-") or bool(_NEGATIVE_NUMBER.fullmatch(following[0]))


def runs_gateway(arguments: Sequence[str]) -> bool:
    """Return whether OpenClaw with these arguments is a gateway, which serves several sessions."""
    return command_words(arguments)[:1] == ("gateway",)
