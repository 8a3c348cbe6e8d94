"""Internal hooks: scripts that run on `agent:bootstrap`, `command:new`, `command:reset` and `command:stop`.

A hook is a folder with a HOOK.md, whose front matter names its events, and a handler: `handler.py`, `handler.sh` or an
executable `handler`. It gets the event as JSON on its standard input. What it prints may be a JSON object with
`messages`, texts for the user, and for `agent:bootstrap` with `bootstrapFiles`, which replace the ones that it got.

Folders are looked for, chosen and overridden as OpenClaw does it. A script that fails, takes too long or prints
something else is left out; the others run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from critiqor.agentloop.context.front_matter import read_front_matter
from critiqor.agentloop.settings import HookEntry, InternalHookSettings
from critiqor.model import iso_from_ms, now_ms
from critiqor.openclaw.configuration import expand_path

TIMEOUT_SECONDS = 10.0
LONGEST_OUTPUT = 1 << 20
LARGEST_DESCRIPTION = 64 * 1024
_END_SECONDS = 1.0
Exited = Callable[[str, float, int | None, str | None], None]
"""Told of every script that has ended: program, milliseconds, exit code, signal."""
_HANDLERS = ("handler.py", "handler.sh", "handler")


class HookScript(NamedTuple):
    """One script and what it runs on."""

    name: str
    handler: Path
    events: tuple[str, ...]
    environment: dict[str, str]


class HookAnswer(NamedTuple):
    """What the scripts of an event said together."""

    messages: list[str]
    context: dict[str, Any]
    """The context of the event, as they left it."""


class InternalHooks:
    """The scripts that were found."""

    def __init__(
        self,
        scripts: Sequence[HookScript],
        environment: Mapping[str, str],
        timeout: float = TIMEOUT_SECONDS,
        exited: Exited | None = None,
    ) -> None:
        self.scripts = tuple(scripts)
        self._environment = dict(environment)
        self._timeout = timeout
        self._exited = exited
        self.failures: list[str] = []
        """What went wrong, for whoever wants to know why a hook has no effect; the last hundred."""

    async def emit(self, kind: str, action: str, session_key: str, context: dict[str, Any]) -> HookAnswer:
        """Run the scripts of an event one after the other, those of its family first, then those of this very event."""
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
                said = await self._run(script, msgspec.json.encode(event, enc_hook=str))
                texts = said.get("messages")
                messages += [text for text in texts if isinstance(text, str)] if isinstance(texts, list) else []
                if (kind, action) == ("agent", "bootstrap") and isinstance(said.get("bootstrapFiles"), list):
                    context = context | {"bootstrapFiles": said["bootstrapFiles"]}
        return HookAnswer(messages, context)

    async def _run(self, script: HookScript, event: bytes) -> dict[str, Any]:
        # Into a file and not through a pipe, which somebody whom the script leaves behind could keep open.
        with tempfile.TemporaryFile() as printed:
            try:
                process = await asyncio.create_subprocess_exec(
                    *_command(script.handler),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=printed,
                    stderr=asyncio.subprocess.DEVNULL,
                    cwd=script.handler.parent,
                    env=self._environment | script.environment,
                    start_new_session=True,
                )
            except OSError as error:
                return self._failed(script, str(error))
            began = time.perf_counter()
            try:
                async with asyncio.timeout(self._timeout):
                    code = await _told(process, event)
            except TimeoutError:
                return self._failed(script, f"it took longer than {self._timeout:g} seconds")
            finally:
                await _end(process)
                self._tell_exit(script, (time.perf_counter() - began) * 1000, process.returncode)
            printed.seek(0)
            output = printed.read(LONGEST_OUTPUT + 1)
        if code != 0:
            return self._failed(script, f"it ended with exit code {code}")
        return self._understood(script, output)

    def _tell_exit(self, script: HookScript, duration_ms: float, code: int | None) -> None:
        if self._exited is not None and code is not None:
            name = signal.Signals(-code).name if code < 0 else None
            self._exited(str(script.handler), duration_ms, code if code >= 0 else None, name)

    def _understood(self, script: HookScript, output: bytes) -> dict[str, Any]:
        if not output.strip():
            return {}
        if len(output) > LONGEST_OUTPUT:
            return self._failed(script, f"it printed more than {LONGEST_OUTPUT} bytes")
        try:
            said = msgspec.json.decode(output)
        except (msgspec.DecodeError, RecursionError, ValueError):
            return self._failed(script, "what it printed is not JSON")
        return said if isinstance(said, dict) else self._failed(script, "what it printed is not an object")

    def _failed(self, script: HookScript, reason: str) -> dict[str, Any]:
        self.failures.append(f"{script.name}: {reason}")
        del self.failures[:-100]
        return {}


async def _told(process: asyncio.subprocess.Process, event: bytes) -> int:
    """Give it the event, and wait for its exit code."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(event)
        await process.stdin.drain()
    process.stdin.close()
    return await process.wait()


async def _end(process: asyncio.subprocess.Process) -> None:
    """End it with everything that it left behind, but for what made itself a session of its own."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            await process.wait()


def find_hooks(settings: InternalHookSettings, state_folder: Path, workspace: Path, home: Path) -> list[HookScript]:
    """The scripts that the configuration selects, of the folders that OpenClaw looks into as well."""
    if settings.enabled is False:
        return []
    chosen = {name for name, entry in settings.entries.items() if entry.enabled}
    extra = [expand_path(path, home) for path in settings.load.extra_dirs]
    if settings.enabled is None and not chosen and not extra:
        return []
    is_open = not chosen or bool(extra)
    found: dict[str, HookScript] = {}
    # Of two hooks with one name the later one counts, but a workspace only adds.
    managed = [folder for root in (*extra, state_folder / "hooks") for folder in _hook_folders(root)]
    for folder, is_own in [
        *((folder, False) for folder in managed),
        *((one, True) for one in _hook_folders(workspace / "hooks")),
    ]:
        read = _read(folder)
        if read is None:
            continue
        name, key, script = read
        entry = settings.entries.get(key, settings.entries.get(name))
        named = entry is not None and entry.enabled
        if (entry is not None and not entry.enabled) or not (named or (is_open and not is_own)):
            continue
        if is_own and name in found:
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


def _read(folder: Path) -> tuple[str, str, HookScript] | None:
    try:
        head = read_front_matter(folder / "HOOK.md", LARGEST_DESCRIPTION)
    except ValueError:
        return None
    metadata = head.get("metadata")
    rules = metadata.get("openclaw") if isinstance(metadata, dict) else None
    events = rules.get("events") if isinstance(rules, dict) else None
    handler = next((folder / name for name in _HANDLERS if (folder / name).is_file()), None)
    if not isinstance(events, list) or not isinstance(rules, dict) or handler is None:
        return None
    name = str(head.get("name") or folder.name)
    wanted = tuple(event for event in events if isinstance(event, str))
    return name, str(rules.get("hookKey") or name), HookScript(name, handler, wanted, {})


def _command(handler: Path) -> list[str]:
    if handler.suffix == ".py":
        return [sys.executable, str(handler)]
    return ["/bin/sh", str(handler)] if handler.suffix == ".sh" else [str(handler)]
