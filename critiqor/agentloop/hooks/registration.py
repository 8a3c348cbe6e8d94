"""Plugin hooks that users add: functions of installed packages, of configured modules, and configured scripts.

A package declares an entry point of the group `critiqor.agentloop.hooks`; it and a configured module have a function
`register(hooks)`, which calls `hooks.on(NAME, handler)`. A script gets `{"hook", "event", "context"}` as JSON on
standard input and may print the decision of the hook as a JSON object.

What cannot be loaded is an error: a guard that is silently missing would let everything pass.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from critiqor.agentloop.hooks.hook_rules import HOOKS, SYNCHRONOUS_HOOKS
from critiqor.agentloop.hooks.plugin_hooks import Event, Handler, PluginHooks
from critiqor.agentloop.hooks.script_process import ExitListener, ScriptCommand, ScriptError, run_script
from critiqor.agentloop.settings import HookScriptSettings, PluginHookSettings
from critiqor.errors import CritiqorError, UsageError
from critiqor.extensions.entry_points import Extension, Group, describe_error, installed

GROUP: Group = "critiqor.agentloop.hooks"


def register_installed_hooks(hooks: PluginHooks) -> None:
    """Register the plugin hooks of installed packages. Raises `CritiqorError`, which names a package that fails."""
    for extension, problem in check_installed_hooks(hooks):
        if problem is not None:
            fix = f"report it to the authors of {extension.package}, or: pip uninstall {extension.package}"
            raise CritiqorError(f"the hooks {extension} cannot be used: {problem}", fix=fix)


def check_installed_hooks(hooks: PluginHooks) -> Iterator[tuple[Extension, str | None]]:
    """Register the plugin hooks of installed packages; yield each entry point with what is wrong with it."""
    for extension in installed(GROUP):
        try:
            _register(hooks, extension.load())
        except (Exception, SystemExit) as error:
            yield extension, describe_error(error)
        else:
            yield extension, None


def register_configured_hooks(
    hooks: PluginHooks,
    settings: PluginHookSettings,
    folder: Path,
    environment: Mapping[str, str],
    on_exit: ExitListener | None = None,
) -> None:
    """Register the plugin hooks of the configuration, whose folder relative paths start from. Raises `UsageError`."""
    for name in settings.modules:
        try:
            _register(hooks, _import(name, folder))
        except (Exception, SystemExit) as error:
            message = f"the hooks of {name} cannot be used: {describe_error(error)}"
            raise UsageError(message, fix="correct hooks.plugin.modules, or the module") from error
    for script in settings.scripts:
        _check(script)
        handler = _handler(script, folder, environment, on_exit)
        # The process has a time limit of its own, and is killed when the hook's limit is shorter.
        hooks.on(script.hook, handler, script.priority, script.timeout_seconds + 1)


def _register(hooks: PluginHooks, part: Any) -> None:
    register = part if callable(part) else getattr(part, "register", None)
    if not callable(register):
        raise UsageError("it has no function register(hooks)")
    register(hooks)


def _import(name: str, folder: Path) -> Any:
    """Import a module by its dotted name, or from a file."""
    if not name.endswith(".py") and "/" not in name:
        return importlib.import_module(name)
    path = folder / Path(name).expanduser()
    spec = importlib.util.spec_from_file_location(f"critiqor_hooks_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up the module of a class there
    spec.loader.exec_module(module)
    return module


def _check(script: HookScriptSettings) -> None:
    if script.hook not in HOOKS:
        message = f"hooks.plugin.scripts names a hook that does not exist: {script.hook}"
        raise UsageError(message, fix=f"use one of {', '.join(sorted(HOOKS - SYNCHRONOUS_HOOKS))}")
    if script.hook in SYNCHRONOUS_HOOKS:
        message = f"{script.hook} is synchronous, so a script cannot handle it"
        raise UsageError(message, fix="handle it in a module: hooks.plugin.modules")


def _handler(
    script: HookScriptSettings, folder: Path, environment: Mapping[str, str], on_exit: ExitListener | None
) -> Handler:
    variables = {**environment, **script.env}
    command = ScriptCommand(script.command[0], script.command, folder, variables, script.timeout_seconds)

    async def handle(event: Event, context: Event) -> dict[str, Any]:
        try:
            return await run_script(command, {"hook": script.hook, "event": event, "context": context}, on_exit)
        except ScriptError as error:
            raise ScriptError(f"{' '.join(script.command)} {error}") from error

    return handle
