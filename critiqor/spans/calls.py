"""Parts of an agent run: tool calls, model calls, messages, memory lookups, moments. Small, because many are kept."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

import msgspec

from critiqor.model.sanitize import excerpt


class Kind(Enum):
    """The purpose of a tool call."""

    LOOKUP = "lookup"
    """Reads and changes nothing."""
    WAIT = "wait"
    """Waits, or polls something that makes progress by itself."""
    CHANGE = "change"
    """Writes something that can safely be written again, such as a file."""
    ACTION = "action"
    """Has an effect that must not simply be repeated: sends, books, pays."""
    COMMAND = "command"
    """Runs a program with unknown effects."""
    THOUGHT = "thought"
    """Only takes a note for the agent itself."""
    OTHER = "other"

    # Members are compared by identity. The hash of an enumeration is computed in Python, and kinds are looked up often.
    __hash__ = object.__hash__


class SecretMark(msgspec.Struct, frozen=True, gc=False):
    """One redacted secret in a recording."""

    kind: str
    tag: str
    """The same for the same secret within a run; its value cannot be derived from it."""
    place: str
    """`arguments`, `output` or `reply`."""
    event_id: str
    tool: str | None


class ModelCall(msgspec.Struct, kw_only=True, gc=False):
    """One model call: a request and its response."""

    order: int
    event_id: str
    failed: bool = False
    error: str | None = None
    category: str = ""
    duration_ms: int = 0
    tokens: int | None = None
    """All tokens of the call; None if no usage was recorded."""
    input_tokens: int | None = None
    cost_usd: float | None = None
    cost_is_estimated: bool = False
    """Whether the cost was computed from a list price."""
    request_bytes: int | None = None
    budget_tokens: int | None = None
    first_byte_ms: int | None = None


class Listing:
    """An output with hits, rows or entries."""

    __slots__ = ("__weakref__", "hits", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        """The output; empty once its hits were read."""
        self.hits: tuple[int, ...] = ()
        """The hits as hashes, once they were read."""


class ToolCall(msgspec.Struct, kw_only=True, gc=False):
    """One tool call and its result."""

    order: int
    """Position of its first event in the recording."""
    call: str
    """Event id of the call, or of the result if the call was not recorded."""
    result: str | None = None
    """Event id of the result; None if there is none."""
    tool: str
    kind: Kind
    arguments: str
    """Start of the arguments as canonical JSON."""
    same_call: bytes
    """Fingerprint of tool and arguments."""
    output: str = ""
    """Start of the output, for tests the end; empty unless it failed, ran tests, found nothing or was an echo.

    A short output of a lookup after a failed action is kept as a whole.
    """
    output_size: int = 0
    same_output: bytes = b""
    """Fingerprint of the whole output, ignoring times of day."""
    failed: bool = False
    """Whether it was reported as failed."""
    says_failure: bool = False
    """Whether only its output says that it failed: an answer with an error, or a program behind a pipe."""
    error: str | None = None
    error_kind: str = ""
    cause: str = ""
    """The cause that other tools can have run into too, such as a full disk; empty if none is named."""
    nothing_found: bool = False
    missed: tuple[str, ...] = ()
    """Names from the arguments that were not found, according to the output."""
    echo: bool = False
    """Whether the output only repeats the arguments."""
    settled: str = ""
    """A state in the output that does not change by itself: failed, or waiting for a person; empty if none is named."""
    is_pending: bool = False
    """Whether the output names a state that will change by itself."""
    handles: tuple[str, ...] = ()
    """Names in a short output that later calls may use, such as a process id."""
    bare_output: bytes = b""
    """Fingerprint of the output without these names; empty if it has none."""
    listing: Listing | None = None
    """The output of a search, which lists something."""
    spent_tokens: int = 0
    """Tokens that another agent spent on it, according to the output."""
    is_test: bool = False
    """Whether it shows the result of tests."""
    duration_ms: int = 0
    model_call: ModelCall | None = None
    """The model call that requested it; None if none was recorded."""
    wraps: bool = False
    """Whether it only made another tool call, which is recorded too."""

    @property
    def name(self) -> str:
        """Its name in a sentence: the command line if there is one, else the tool."""
        line = command_line(self.arguments)
        return f"`{excerpt(line, 60)}`" if line else f"`{self.tool}`"

    @property
    def has_failed(self) -> bool:
        """Whether it failed, as reported or as its output says."""
        return self.failed or self.says_failure

    @property
    def evidence(self) -> str:
        """Event id of its result, or of the call if there is no result."""
        return self.result or self.call


class Message(msgspec.Struct, kw_only=True, gc=False):
    """A message of the user or the agent."""

    order: int
    event_id: str
    is_user: bool
    text: str
    """Start of the text."""
    size: int = 0
    admits_failure: bool = False
    tells_repetition: bool = False
    """Whether the agent says that something happened twice."""
    orders_repetition: bool = False
    """Whether the user orders that something is done repeatedly."""
    asks_user: bool = False
    asks_tools: bool = False
    stop_reason: str | None = None


class MemoryLookup(msgspec.Struct, kw_only=True, gc=False):
    """One memory lookup."""

    order: int
    event_id: str
    what: str
    """Query or key; empty if not recorded."""
    outcome: str
    """`found`, `empty`, `error`."""
    tool_call: ToolCall | None = None
    """The tool call that made it; None if it was not recorded."""
    unread: bool = False
    """Whether it returned something new that the agent has not used in any message or tool call since."""


class Plan(NamedTuple):
    """The agent's own to-do list, as last written."""

    order: int
    event_id: str
    pending: int
    """Number of items that are not done."""


class Moment(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Another event of an agent run, reduced to a few facts: a gateway has many, with large payloads."""

    order: int
    event_id: str
    event_type: str
    status: str
    error: str | None
    payload: dict[str, object]
    """Selected members of the payload."""


RunSpan = ToolCall | ModelCall | Message | MemoryLookup | Moment | Plan | SecretMark
"""Anything that an agent run is made of."""

OWN_TOOLS = (
    "list_runs",
    "get_diagnosis",
    "explain_finding",
    "get_conversation",
    "search_events",
    "compare_runs",
    "verify_run",
    "check_claim",
)
"""The tools of Critiqor's MCP server."""
_OWN_TOOL = re.compile(rf"(?:.*[^a-z0-9])?critiqor[^a-z0-9]+(?:{'|'.join(OWN_TOOLS)})", re.IGNORECASE | re.DOTALL)


def is_own_call(tool: str | None, arguments: object = None) -> bool:
    """Return whether a tool call is one to Critiqor's MCP server, directly or through OpenClaw's `tool_call`.

    Such a call says nothing about the work of the agent. It is recognized by its name, which begins with that of the
    server in OpenClaw's configuration: what a tool answers cannot hide a call.
    """
    if tool == "tool_call" and isinstance(arguments, dict):
        tool = arguments.get("id") if isinstance(arguments.get("id"), str) else None
    return tool is not None and _OWN_TOOL.fullmatch(tool) is not None


_COMMAND_LINE = re.compile(r'"(?:command|cmd|script)":"((?:[^"\\]|\\.)*)"')


def command_line(arguments: str) -> str:
    """Return the command line in the arguments of a tool call, JSON-escaped; empty if there is none."""
    found = _COMMAND_LINE.search(arguments) if ':"' in arguments else None
    return found[1] if found else ""
