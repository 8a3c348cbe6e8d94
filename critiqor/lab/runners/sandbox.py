"""The sandbox of a scenario: a temporary home, workspace and runs folder, the scripted model and the faults."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from critiqor.lab.model.scripted_model import ScriptedModel
from critiqor.lab.runners.fault_injection import FaultInjector
from critiqor.lab.runners.openclaw_home import workspace_of, write_openclaw_home
from critiqor.lab.runners.replay_shell import write_replay_shell
from critiqor.lab.scenario import Scenario, World
from critiqor.openclaw.config_patch import apply_patch

UNREACHABLE = "http://127.0.0.1:9/v1"
"""Nothing listens on the port of the discard protocol."""
_SLOW_FILE = "slow.json"
_POLL_SECONDS = 0.005
_CLOSE_SECONDS = 0.05
"""Time for a reader to close the slow file after reading it."""


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """The environment in which the agent of a scenario runs."""

    scenario: Scenario
    folder: Path
    runs: Path
    log: Path
    """The output of the agent."""
    environment: dict[str, str]
    model: ScriptedModel


@contextlib.contextmanager
def open_sandbox(
    scenario: Scenario,
    folder: Path,
    environment: Mapping[str, str],
    extra: dict[str, Any] | None = None,
    runs: Path | None = None,
) -> Iterator[Sandbox]:
    """Create the sandbox of a scenario in `folder`; its model serves until the end of the block.

    Only PATH is taken from `environment`. `extra` is configuration that the scenario overrides. Runs are recorded into
    `runs`, or into a subfolder of `folder`.
    """
    runs = (runs or folder / "runs").absolute()
    world, provider = scenario.world, scenario.provider
    faults = FaultInjector(runs, world)
    model = ScriptedModel(
        scripts=scenario.scripts(),
        summary=scenario.summary,
        on_request=faults.on_request,
        on_response=faults.on_response,
    )
    with model:
        settings = apply_patch(extra or {}, scenario.config)
        home = write_openclaw_home(
            folder / "home",
            model.base_url if provider.reachable else UNREACHABLE,
            apply_patch(settings, {"$include": _SLOW_FILE} if world.slow_config_s else {}),
            context_window=provider.context_window,
            api_key=provider.api_key,
            timeout_s=provider.timeout_s,
        )
        fill_workspace(world, workspace_of(folder / "home"))
        shell = write_replay_shell(folder / "shell", world.commands) if world.commands else {}
        sandbox = Sandbox(
            scenario=scenario,
            folder=folder,
            runs=runs,
            log=folder / "agent.log",
            environment={**home, "PATH": environment.get("PATH", os.defpath), **shell},
            model=model,
        )
        with _slow_configuration(world, folder / "home" / ".openclaw"):
            try:
                yield sandbox
            finally:
                faults.stop()


def fill_workspace(world: World, workspace: Path) -> None:
    """Create the files of a scenario in the workspace."""
    workspace.mkdir(parents=True, exist_ok=True)
    for name, content in world.files.items():
        file = workspace / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    for name in world.full:
        file = workspace / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to("/dev/full")


def _slow_configuration(world: World, state: Path) -> contextlib.AbstractContextManager[None]:
    if not world.slow_config_s:
        return contextlib.nullcontext()
    # The monitor reads it first, and must not be delayed.
    return _slow_file(state / _SLOW_FILE, b"{}", world.slow_config_s, quick_reads=1)


@contextlib.contextmanager
def _slow_file(path: Path, content: bytes, seconds: float, quick_reads: int) -> Iterator[None]:
    """Serve `content` at `path` through a pipe; after the first `quick_reads`, each read takes `seconds`."""
    stopped = threading.Event()
    os.mkfifo(path)

    def serve() -> None:
        reads = 0
        while not stopped.wait(_POLL_SECONDS):
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    continue  # no reader at the moment
                return
            reads += 1
            with os.fdopen(descriptor, "wb") as pipe, contextlib.suppress(BrokenPipeError):
                if reads > quick_reads:
                    stopped.wait(seconds)
                pipe.write(content)
            stopped.wait(_CLOSE_SECONDS)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
