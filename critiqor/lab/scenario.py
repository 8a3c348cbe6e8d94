"""A scenario: what users say, what the model and the world do, and what must be found. It comes from a file of TOML."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from critiqor.lab.model.model_script import Script, Step
from critiqor.model.diagnosis import OutcomeState, Severity

Place = Literal["embedded", "openclaw"]
"""What a scenario is played on: the embedded loop, or a real OpenClaw."""
PLACES: tuple[Place, ...] = ("embedded", "openclaw")
Seconds = Annotated[float, Meta(ge=0, le=3600)]
Count = Annotated[int, Meta(ge=1, le=10_000)]
Score = Annotated[int, Meta(ge=0, le=100)]
When = Literal["always", "fault", "fault_free"]


class ModelStep(Step, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A step of the model's script."""

    times: Annotated[int, Meta(ge=1, le=1000)] = 1
    """How often in a row."""
    when: When = "always"
    """`fault`: part of what goes wrong, left out where the scenario is played without its fault. `fault_free`: what
    the model does in its place then."""


class Turn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One message to the agent, and what the model does about it. Turns of one session follow each other; different
    sessions go on at the same time."""

    message: Annotated[str, Meta(min_length=1)]
    """What the user says. By it the model knows which steps to play, so every turn says something else."""
    session: Annotated[str, Meta(pattern="^[a-z0-9-]{1,40}$")] = "main"
    spawned: bool = False
    """Nobody says it: it is the task that the agent gives to a subagent, and these are the subagent's steps."""
    steps: Annotated[tuple[ModelStep, ...], Meta(min_length=1)]


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A command line that is not run but answered from here."""

    line: Annotated[str, Meta(min_length=1)]
    """The whole command line. Several of the same are answered one after the other, the last one from then on."""
    output: str = ""
    exit_code: Annotated[int, Meta(ge=0, le=255)] = 0
    delay_s: Seconds = 0.0


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a scripted tool gives back."""

    text: str = ""
    error: bool = False


class ScriptedTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A tool that the agent has and that only answers. The embedded loop offers it; an OpenClaw does not."""

    name: Annotated[str, Meta(min_length=1)]
    answers: Annotated[tuple[ToolAnswer, ...], Meta(min_length=1)]
    """One after the other, the last one from then on."""


class Kill(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The agent's processes are ended by a signal."""

    request: Count
    """The request to the model at which it happens, from 1."""
    during: Literal["model", "tool"] = "model"
    """While the model is asked, or while the first tool runs that it asked for."""
    signal: Literal["KILL", "TERM", "INT", "HUP"] = "KILL"
    after_s: Seconds = 0.0
    """How long after that."""


class Freeze(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The agent's processes stand still for a while, as on a machine that has no time for them."""

    request: Count
    """The request to the model at which it begins."""
    for_s: Seconds


class FullDisk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """From one request to the model on the agent's processes cannot make a file longer, until another."""

    request: Count
    until_request: Count | None = None


class DiskError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """At one request to the model the last records of the recorder turn into zeros, as after a power cut."""

    request: Count
    records: Annotated[int, Meta(ge=1, le=1000)] = 1


class Clock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The time of day runs faster, for the agent and for the monitor."""

    speed: Annotated[float, Meta(gt=1, le=100_000)]


class World(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is around the agent."""

    files: dict[str, str] = {}
    """What the workspace holds, by path."""
    full: tuple[str, ...] = ()
    """Files of the workspace that take no byte, as on a disk without room."""
    commands: tuple[Command, ...] = ()
    tools: tuple[ScriptedTool, ...] = ()
    helpers: tuple[str, ...] = ()
    """Command lines of programs that the agent's process starts for itself; the embedded loop alone tells of them."""
    timeout_s: Seconds | None = None
    """Seconds after which the monitor ends the run."""
    kill: Kill | None = None
    freeze: Freeze | None = None
    full_disk: FullDisk | None = None
    disk_error: DiskError | None = None
    clock: Clock | None = None
    slow_config_s: Seconds | None = None
    """Seconds that it takes the agent to read a file of its configuration."""


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How the agent knows its model."""

    api_key: str = "unused"
    """Left empty, there is none."""
    context_window: Annotated[int, Meta(ge=1000, le=10_000_000)] = 128_000
    timeout_s: Seconds | None = None
    """Seconds of silence after which the agent gives up a request."""
    reachable: bool = True
    """Whether anything answers at its address."""


class FaultFree(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is different where the scenario is played without its fault.

    Helpers, kills, freezes, troubles with the disk, another clock and time limits are gone then anyway.
    """

    files: dict[str, str] = {}
    """Contents in place of those of the same path."""
    commands: tuple[Command, ...] | None = None
    tools: tuple[ScriptedTool, ...] | None = None
    provider: Provider | None = None
    config: dict[str, Any] | None = None


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What must be found, and what must not."""

    primary: str | None = None
    """The type of the primary diagnosis; left out, nothing at all may be found."""
    severity: tuple[Severity, ...] = ()
    """What the primary diagnosis may weigh."""
    findings: tuple[str, ...] = ()
    """Types that must be found as well."""
    absent: tuple[str, ...] = ()
    """Types that must not be found; `*` stands for all that are not named above."""
    trust: tuple[Score, Score] | None = None
    """The least and the greatest trust score."""
    outcome: OutcomeState | None = None
    coverage: dict[str, int | bool] = {}
    """Fields of the coverage block with their values."""

    @property
    def types(self) -> frozenset[str]:
        """Everything that must be found."""
        return frozenset((*self.findings, *([self.primary] if self.primary else [])))


class Talk(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is said to an agent, and the tools that it has beside its own."""

    turns: tuple[Turn, ...]
    tools: tuple[ScriptedTool, ...] = ()
    helpers: tuple[str, ...] = ()
    shell: str = ""
    """The shell that runs its commands, where that is not the loop's own."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One story of an agent."""

    name: str = ""
    """The name of its file."""
    description: Annotated[str, Meta(min_length=1)]
    """What happens, in one sentence: what is injected, or what looks like a failure and is none."""
    on: Annotated[tuple[Place, ...], Meta(min_length=1)] = PLACES
    because: str = ""
    """Why it cannot be played everywhere."""
    turns: Annotated[tuple[Turn, ...], Meta(min_length=1)]
    summary: str | None = None
    """What the model answers when it is asked to sum up for a compaction."""
    world: World = World()
    provider: Provider = Provider()
    config: dict[str, Any] = {}
    """Settings of the agent, merged over those of the lab."""
    fault_free: FaultFree = FaultFree()
    expect: Expectation

    @property
    def has_fault(self) -> bool:
        """Whether anything is to be found."""
        return bool(self.expect.types)

    @property
    def told(self) -> tuple[Turn, ...]:
        """The turns that somebody sends."""
        return tuple(turn for turn in self.turns if not turn.spawned)

    def scripts(self) -> tuple[Script, ...]:
        """What the model plays."""
        return tuple(Script(turn.message, _steps(turn, "fault")) for turn in self.turns)

    def without_fault(self) -> Scenario:
        """The same story, in which nothing goes wrong."""
        free, world = self.fault_free, self.world
        turns = tuple(msgspec.structs.replace(turn, steps=_of(turn, "fault_free")) for turn in self.turns)
        return msgspec.structs.replace(
            self,
            turns=turns,
            world=World(
                files=world.files | free.files,
                commands=world.commands if free.commands is None else free.commands,
                tools=world.tools if free.tools is None else free.tools,
            ),
            provider=free.provider or self.provider,
            config=self.config if free.config is None else free.config,
        )


def _of(turn: Turn, when: When) -> tuple[ModelStep, ...]:
    """The steps that are played; from then on they are so whenever it is played."""
    played = (step for step in turn.steps if step.when in ("always", when))
    return tuple(msgspec.structs.replace(step, when="always") for step in played)


def _steps(turn: Turn, when: When) -> tuple[Step, ...]:
    return tuple(step for step in _of(turn, when) for _ in range(step.times))
