"""Internal hooks: scripts that run on `agent:bootstrap`, `command:new`, `command:reset` and `command:stop`.

A hook is a folder with a HOOK.md, whose front matter names its events, and a handler: `handler.py`, `handler.sh` or an
executable `handler`. The script gets the event as JSON on standard input. It may print a JSON object with `messages`
(texts for the user) and, for `agent:bootstrap`, `bootstrapFiles`, which replace those of the event.

Folders are searched, selected and overridden as in OpenClaw. A script that fails, times out or prints anything else is
ignored; the others run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from critiqor.agentloop.context.front_matter import read_front_matter
from critiqor.agentloop.hooks.script_process import ExitListener, ScriptCommand, ScriptError, run_script
from critiqor.agentloop.settings import HookEntry, InternalHookSettings
from critiqor.model import iso_from_ms, now_ms
from critiqor.openclaw.paths import expand_path

TIMEOUT_SECONDS = 10.0
MAX_DESCRIPTION_BYTES = 64 * 1024
_HANDLERS = ("handler.py", "handler.sh", "handler")


class HookScript(NamedTuple):
    """A script and the events that it handles."""

    name: str
    handler: Path
    events: tuple[str, ...]
    environment: dict[str, str]


class HookResult(NamedTuple):
    """Combined result of the scripts of an event."""

    messages: list[str]
    context: dict[str, Any]
    """The context of the event, with the changes of the scripts."""


class InternalHooks:
    """Runs the scripts of the configured hooks."""

    def __init__(
        self,
        scripts: Sequence[HookScript],
        environment: Mapping[str, str],
        timeout: float = TIMEOUT_SECONDS,
        on_exit: ExitListener | None = None,
    ) -> None:
        self.scripts = tuple(scripts)
        self._environment = dict(environment)
        self._timeout = timeout
        self._on_exit = on_exit
        self.failures: list[str] = []
        """The latest hundred failures, to find out why a hook has no effect."""

    async def emit(self, kind: str, action: str, session_key: str, context: dict[str, Any]) -> HookResult:
        """Run the scripts of an event in sequence: first those of its kind (`command`), then those of `kind:action`."""
        messages: list[str] = []
        for name in (kind, f"{kind}:{action}"):
            for script in self.scripts:
                if name not in script.events:
                    continue
                event = {
                    "type": kind,
                    "action": action,
                    "sessionKey": session_key,
                    "timestamp": iso_from_ms(now_ms()),
                    "context": context,
                    "messages": [],
                }
                output = await self._run(script, event)
                texts = output.get("messages")
                messages += [text for text in texts if isinstance(text, str)] if isinstance(texts, list) else []
                if (kind, action) == ("agent", "bootstrap") and isinstance(output.get("bootstrapFiles"), list):
                    context = context | {"bootstrapFiles": output["bootstrapFiles"]}
        return HookResult(messages, context)

    async def _run(self, script: HookScript, event: object) -> dict[str, Any]:
        environment = self._environment | script.environment
        handler = script.handler
        command = ScriptCommand(str(handler), _command(handler), handler.parent, environment, self._timeout)
        try:
            return await run_script(command, event, self._on_exit)
        except ScriptError as error:
            return self._failed(script, str(error))

    def _failed(self, script: HookScript, reason: str) -> dict[str, Any]:
        self.failures.append(f"{script.name}: {reason}")
        del self.failures[:-100]
        return {}


def find_hooks(settings: InternalHookSettings, state_folder: Path, workspace: Path, home: Path) -> list[HookScript]:
    """Return the scripts that the configuration selects, from the folders that OpenClaw searches."""
    if settings.enabled is False:
        return []
    selected = {name for name, entry in settings.entries.items() if entry.enabled}
    extra = [expand_path(path, home) for path in settings.load.extra_dirs]
    if settings.enabled is None and not selected and not extra:
        return []
    allows_all = not selected or bool(extra)
    found: dict[str, HookScript] = {}
    # The later of two hooks with the same name wins, except that workspace hooks never replace others.
    managed = [folder for root in (*extra, state_folder / "hooks") for folder in _hook_folders(root)]
    for folder, in_workspace in [
        *((folder, False) for folder in managed),
        *((folder, True) for folder in _hook_folders(workspace / "hooks")),
    ]:
        hook = _read_hook(folder)
        if hook is None:
            continue
        name, key, script = hook
        entry = settings.entries.get(key, settings.entries.get(name))
        is_selected = entry is not None and entry.enabled
        if (entry is not None and not entry.enabled) or not (is_selected or (allows_all and not in_workspace)):
            continue
        if in_workspace and name in found:
            continue
        found[name] = script._replace(environment=(entry or HookEntry()).env)
    return list(found.values())


def _hook_folders(root: Path) -> list[Path]:
    if (root / "HOOK.md").is_file():
        return [root]
    try:
        return sorted(folder for folder in root.iterdir() if (folder / "HOOK.md").is_file())
    except OSError:
        return []


def _read_hook(folder: Path) -> tuple[str, str, HookScript] | None:
    try:
        head = read_front_matter(folder / "HOOK.md", MAX_DESCRIPTION_BYTES)
    except ValueError:
        return None
    metadata = head.get("metadata")
    rules = metadata.get("openclaw") if isinstance(metadata, dict) else None
    events = rules.get("events") if isinstance(rules, dict) else None
    handler = next((folder / name for name in _HANDLERS if (folder / name).is_file()), None)
    if not isinstance(events, list) or not isinstance(rules, dict) or handler is None:
        return None
    name = str(head.get("name") or folder.name)
    names = tuple(event for event in events if isinstance(event, str))
    return name, str(rules.get("hookKey") or name), HookScript(name, handler, names, {})


def _command(handler: Path) -> list[str]:
    if handler.suffix == ".py":
        return [sys.executable, str(handler)]
    return ["/bin/sh", str(handler)] if handler.suffix == ".sh" else [str(handler)]
