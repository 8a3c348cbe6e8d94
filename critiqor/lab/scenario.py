"""The structure of a scenario: messages of users, script of the model, environment, faults and expected findings."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from critiqor.lab.model.model_script import Script, Step
from critiqor.model.diagnosis import OutcomeState, Readiness, Severity, TaskVerdict
from critiqor.policy.contract import Contract

Platform = Literal["embedded", "openclaw"]
"""What a scenario is played on: the embedded loop or a real OpenClaw."""
PLATFORMS: tuple[Platform, ...] = ("embedded", "openclaw")
Seconds = Annotated[float, Meta(ge=0, le=3600)]
Count = Annotated[int, Meta(ge=1, le=10_000)]
Score = Annotated[int, Meta(ge=0, le=100)]
SessionName = Annotated[str, Meta(pattern="^[a-z0-9-]{1,40}$")]
When = Literal["always", "fault", "fault_free"]
EVERYTHING_ELSE = "*"
"""Stands for all failure types that a scenario does not require."""


class ModelStep(Step, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A step of the model's script."""

    times: Annotated[int, Meta(ge=1, le=1000)] = 1
    """How often the step is repeated."""
    when: When = "always"
    """`fault`: part of the fault, left out when the scenario is played without its fault. `fault_free`: what the model
    does instead in that case."""


class Turn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One message to the agent, and how the model reacts to it.

    Turns of one session follow each other; sessions run in parallel.
    """

    message: Annotated[str, Meta(min_length=1)]
    """What the user says. The model selects the steps by this text, so every turn needs a different one."""
    session: SessionName = "main"
    spawned: bool = False
    """Whether it is the task that the agent gives to a subagent, instead of a user's message."""
    steps: Annotated[tuple[ModelStep, ...], Meta(min_length=1)]


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A command line that is answered from the scenario instead of being run."""

    line: Annotated[str, Meta(min_length=1)]
    """The whole command line. Equal lines are answered in order; the last answer is repeated."""
    output: str = ""
    exit_code: Annotated[int, Meta(ge=0, le=255)] = 0
    delay_s: Seconds = 0.0


class ToolAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A result of a scripted tool."""

    text: str = ""
    error: bool = False


class ScriptedTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An additional tool that returns scripted results. Only the embedded loop can offer it."""

    name: Annotated[str, Meta(min_length=1)]
    answers: Annotated[tuple[ToolAnswer, ...], Meta(min_length=1)]
    """Results in order; the last one is repeated."""


class Kill(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A signal to the agent's processes."""

    request: Count
    """The model request at which it happens, from 1."""
    during: Literal["model", "tool"] = "model"
    """During the model call, or during the first tool call of its response."""
    signal: Literal["KILL", "TERM", "INT", "HUP"] = "KILL"
    after_s: Seconds = 0.0
    """Delay of the signal."""


class Freeze(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A pause of the agent's processes, as on an overloaded machine."""

    request: Count
    """The model request at which it begins, from 1."""
    for_s: Seconds


class FullDisk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A period, from one model request to another, in which the agent's processes cannot extend a file."""

    request: Count
    until_request: Count | None = None


class DiskError(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """At a model request, the last records of the recorder are overwritten with zeros, as after a power cut."""

    request: Count
    records: Annotated[int, Meta(ge=1, le=1000)] = 1


class Tampering(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """At a model request, the last record of a successful tool call is rewritten as that of a failed one."""

    request: Count


class Clock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A time of day that runs faster, for the agent and the monitor."""

    speed: Annotated[float, Meta(gt=1, le=100_000)]


class World(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The environment of the agent and the faults in it."""

    files: dict[str, str] = {}
    """Contents of the workspace by path."""
    full: tuple[str, ...] = ()
    """Files of the workspace that cannot be written, as on a full disk."""
    commands: tuple[Command, ...] = ()
    tools: tuple[ScriptedTool, ...] = ()
    helpers: tuple[str, ...] = ()
    """Command lines of programs that the agent's process starts by itself; only the embedded loop reports them."""
    timeout_s: Seconds | None = None
    """Time limit of the monitor."""
    kill: Kill | None = None
    freeze: Freeze | None = None
    full_disk: FullDisk | None = None
    disk_error: DiskError | None = None
    tampering: Tampering | None = None
    clock: Clock | None = None
    slow_config_s: Seconds | None = None
    """Time that the agent needs to read a file of its configuration."""


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How the agent reaches its model."""

    api_key: str = "unused"
    """Key of the model's API; empty for none."""
    context_window: Annotated[int, Meta(ge=1000, le=10_000_000)] = 128_000
    timeout_s: Seconds | None = None
    """Silence after which the agent gives up on a request."""
    reachable: bool = True
    """Whether anything listens at its address."""


class FaultFree(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Differences of the scenario when it is played without its fault.

    Helpers, kills, freezes, disk faults, a faster clock and time limits are removed in any case.
    """

    files: dict[str, str] = {}
    """Contents that replace those of the same path."""
    commands: tuple[Command, ...] | None = None
    tools: tuple[ScriptedTool, ...] | None = None
    provider: Provider | None = None
    config: dict[str, Any] | None = None


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The findings that are required and those that are forbidden."""

    primary: str | None = None
    """Failure type of the primary diagnosis; if left out, nothing may be found."""
    severity: tuple[Severity, ...] = ()
    """Allowed severities of the primary diagnosis."""
    findings: tuple[str, ...] = ()
    """Further required failure types."""
    absent: tuple[str, ...] = ()
    """Forbidden failure types; `*` stands for all that are not required."""
    trust: tuple[Score, Score] | None = None
    """Lowest and highest allowed trust score."""
    outcome: OutcomeState | None = None
    readiness: Readiness | None = None
    sessions: dict[SessionName, Readiness] = {}
    """Readiness by session, for some or all of the sessions."""
    task: TaskVerdict | None = None
    """Whether the task was done, as far as the recording shows."""
    coverage: dict[str, int | bool] = {}
    """Required values of fields of the coverage block."""

    @property
    def types(self) -> frozenset[str]:
        """All required failure types."""
        return frozenset((*self.findings, *([self.primary] if self.primary else [])))


class EmbeddedTask(msgspec.Struct, frozen=True, kw_only=True):
    """The messages to an agent on the embedded loop, and its additional tools."""

    turns: tuple[Turn, ...]
    tools: tuple[ScriptedTool, ...] = ()
    helpers: tuple[str, ...] = ()
    shell: str = ""
    """The shell that runs its commands; empty for the default one."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A scripted interaction with an agent, and what its diagnosis must find."""

    name: str = ""
    """The name of its file, without extension."""
    description: Annotated[str, Meta(min_length=1)]
    """What happens, in one sentence: the injected fault, or what looks like a failure but is not one."""
    on: Annotated[tuple[Platform, ...], Meta(min_length=1)] = PLATFORMS
    because: str = ""
    """Why it cannot be played on every platform."""
    turns: Annotated[tuple[Turn, ...], Meta(min_length=1)]
    summary: str | None = None
    """What the model responds when it is asked for the summary of a compaction."""
    world: World = World()
    provider: Provider = Provider()
    config: dict[str, Any] = {}
    """Settings of the agent, merged over those of the lab."""
    fault_free: FaultFree = FaultFree()
    contracts: tuple[Contract, ...] = ()
    """Contracts of a policy, which are checked when the run is finalized."""
    expect: Expectation

    @property
    def has_fault(self) -> bool:
        """Whether a finding is expected."""
        return bool(self.expect.types)

    @property
    def sent_turns(self) -> tuple[Turn, ...]:
        """The turns that users send."""
        return tuple(turn for turn in self.turns if not turn.spawned)

    def scripts(self) -> tuple[Script, ...]:
        """Return the scripts of the model, with the fault."""
        return tuple(Script(turn.message, _steps(turn, "fault")) for turn in self.turns)

    def without_fault(self) -> Scenario:
        """Return the same scenario without its fault."""
        free, world = self.fault_free, self.world
        turns = tuple(msgspec.structs.replace(turn, steps=_select_steps(turn, "fault_free")) for turn in self.turns)
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


def session_key_of(session: str) -> str:
    """Return the name that a session of a scenario has in the recording."""
    return f"agent:main:{session}"


def _select_steps(turn: Turn, when: When) -> tuple[ModelStep, ...]:
    """Return the steps that apply, marked as always applicable."""
    selected = (step for step in turn.steps if step.when in ("always", when))
    return tuple(msgspec.structs.replace(step, when="always") for step in selected)


def _steps(turn: Turn, when: When) -> tuple[Step, ...]:
    return tuple(step for step in _select_steps(turn, when) for _ in range(step.times))
