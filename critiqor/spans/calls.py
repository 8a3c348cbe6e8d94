"""What an agent run is made of: steps, model calls, messages, lookups, moments; small, because many are kept."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

import msgspec

from critiqor.model.sanitize import excerpt


class Kind(Enum):
    """What a call is for."""

    LOOKUP = "lookup"
    """Reads, and changes nothing."""
    WAIT = "wait"
    """Lets time pass, or asks how something is that moves by itself."""
    CHANGE = "change"
    """Writes something that can be written again without harm, such as a file."""
    ACTION = "action"
    """Does something in the world that cannot simply be done twice: sends, books, pays."""
    COMMAND = "command"
    """Runs a program, whose effect is unknown."""
    THOUGHT = "thought"
    """Only notes something down for the agent itself."""
    OTHER = "other"


class Claim(Enum):
    """Something that an agent says it has achieved."""

    TESTS = "that tests pass"
    SAVED = "that something was saved"
    SENT = "that something was sent or published"
    CHANGED = "that something was changed"
    WORKS = "that something works now"
    DONE = "that the work is done"


class SecretMark(msgspec.Struct, frozen=True, gc=False):
    """One secret that was there."""

    kind: str
    tag: str
    """The same for the same secret of one run, and nothing that its value could be told from."""
    place: str
    """`arguments`, `output` or `reply`."""
    event_id: str
    tool: str | None


class ModelCall(msgspec.Struct, kw_only=True, gc=False):
    """One request to a model with what came of it."""

    order: int
    event_id: str
    failed: bool = False
    error: str | None = None
    category: str = ""
    duration_ms: int = 0
    tokens: int | None = None
    """All tokens of the call; None where no usage was told."""
    input_tokens: int | None = None
    cost_usd: float | None = None
    request_bytes: int | None = None
    budget_tokens: int | None = None
    first_byte_ms: int | None = None


class ToolCall(msgspec.Struct, kw_only=True, gc=False):
    """One tool call with what came of it."""

    order: int
    """Its place among everything in the recording."""
    call: str
    """Event id of the call, or of the result where no call was seen."""
    result: str | None = None
    """Event id of the result; None while there is none."""
    tool: str
    kind: Kind
    arguments: str
    """The beginning of the arguments as canonical JSON."""
    same_call: bytes
    """Fingerprint of tool and arguments."""
    output: str = ""
    """The beginning of what it answered, for tests the end, where that was a failure, a test or nothing much."""
    output_size: int = 0
    same_output: bytes = b""
    """Fingerprint of all that it answered, but for the time of day."""
    failed: bool = False
    error: str | None = None
    error_kind: str = ""
    nothing_found: bool = False
    missed: tuple[str, ...] = ()
    """Names from the arguments that the answer says are not there."""
    echo: bool = False
    """The answer holds nothing but what the arguments said."""
    is_test: bool = False
    """It tells how tests ended."""
    duration_ms: int = 0
    model_call: ModelCall | None = None
    """The model call that asked for it; None where none was seen."""
    wraps: bool = False
    """It only passed another call on, which is a step of its own."""

    @property
    def name(self) -> str:
        """What to call it in a sentence: a command line says more than the name of the tool that runs it."""
        line = command_line(self.arguments)
        return f"`{excerpt(line, 60)}`" if line else f"`{self.tool}`"

    @property
    def evidence(self) -> str:
        """The event that shows how it ended, or that it began."""
        return self.result or self.call


class Message(msgspec.Struct, kw_only=True, gc=False):
    """What the user or the agent said."""

    order: int
    event_id: str
    is_user: bool
    text: str
    """The beginning of it."""
    size: int = 0
    claims: tuple[Claim, ...] = ()
    deeds: tuple[Claim, ...] = ()
    """Claims that only a tool can have made true."""
    admits_failure: bool = False
    plans_work: bool = False
    ending: str = ""
    """The end of it, where it announces work."""
    asks_user: bool = False
    asks_tools: bool = False
    stop_reason: str | None = None


class MemoryLookup(msgspec.Struct, kw_only=True, gc=False):
    """One lookup in memory."""

    order: int
    event_id: str
    what: str
    """Empty where the record does not tell."""
    outcome: str
    """`found`, `empty`, `error`."""
    step: ToolCall | None = None
    """The same as a tool call, where that was seen."""
    unread: bool = False
    """It told something new, and nothing that the agent said or did since has a word of it."""


class Plan(NamedTuple):
    """A list of steps that the agent keeps for itself, as it was last written."""

    order: int
    event_id: str
    pending: int
    """Steps on it that are not done."""


class Moment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something else that happened in an agent run: a gateway has many, and what they carry along is large."""

    order: int
    event_id: str
    event_type: str
    status: str
    error: str | None
    payload: dict[str, object]
    """A few facts of it."""


_COMMAND_LINE = re.compile(r'"(?:command|cmd|script)":"((?:[^"\\]|\\.)*)"')


def command_line(arguments: str) -> str:
    """The command line in the arguments of a call, as it stands in JSON, or nothing."""
    found = _COMMAND_LINE.search(arguments) if ':"' in arguments else None
    return found[1] if found else ""
