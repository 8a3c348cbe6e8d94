"""Where a scenario is played: a home, a workspace and a runs folder that are nobody's own, and a model."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec

from critiqor.lab.model.scripted_model import ScriptedModel
from critiqor.lab.runners.fault_injection import FaultInjection
from critiqor.lab.runners.openclaw_home import merged, workspace_of, write_openclaw_home
from critiqor.lab.runners.replay_shell import write_replay_shell
from critiqor.lab.runners.slow_file import slow_file
from critiqor.lab.scenario import Scenario, World

_SLOW = "slow.json"
UNREACHABLE = "http://127.0.0.1:9/v1"
"""Nothing listens at the port of the discard protocol."""


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that an agent finds."""

    scenario: Scenario
    folder: Path
    runs: Path
    log: Path
    """What the agent writes to its terminal."""
    environment: dict[str, str]
    model: ScriptedModel


@contextmanager
def staged(
    scenario: Scenario,
    folder: Path,
    environment: Mapping[str, str],
    extra: Mapping[str, Any] | None = None,
    runs: Path | None = None,
) -> Iterator[Sandbox]:
    """Build the stage in `folder`, and let the model play until the end of the block.

    Of `environment` only the path to programs is used. `extra` is configuration below that of the scenario. Runs are
    recorded into `runs`, or into a folder beside the others.
    """
    runs = (runs or folder / "runs").absolute()
    world, provider = scenario.world, scenario.provider
    disturbance = FaultInjection(runs, world)
    model = ScriptedModel(
        scripts=scenario.scripts(),
        summary=scenario.summary,
        on_request=disturbance.asked,
        on_answer=disturbance.answered,
    )
    with model:
        home = write_openclaw_home(
            folder / "home",
            model.base_url if provider.reachable else UNREACHABLE,
            merged(merged(extra or {}, scenario.config), {"$include": _SLOW} if world.slow_config_s else {}),
            context_window=provider.context_window,
            api_key=provider.api_key,
            timeout_s=provider.timeout_s,
        )
        furnish(world, workspace_of(folder / "home"))
        shell = write_replay_shell(folder / "shell", world.commands) if world.commands else {}
        stage = Sandbox(
            scenario=scenario,
            folder=folder,
            runs=runs,
            log=folder / "agent.log",
            environment={**home, "PATH": environment.get("PATH", os.defpath), **shell},
            model=model,
        )
        with _slow_configuration(world, folder / "home" / ".openclaw"):
            try:
                yield stage
            finally:
                disturbance.end()


def _slow_configuration(world: World, state: Path) -> AbstractContextManager[None]:
    if not world.slow_config_s:
        return nullcontext()
    # The monitor reads it first, and is not to be held up.
    return slow_file(state / _SLOW, b"{}", world.slow_config_s, quick_reads=1)


def furnish(world: World, workspace: Path) -> None:
    """Put into the workspace what the world holds."""
    workspace.mkdir(parents=True, exist_ok=True)
    for name, content in world.files.items():
        file = workspace / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content, encoding="utf-8")
    for name in world.full:
        file = workspace / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to("/dev/full")
