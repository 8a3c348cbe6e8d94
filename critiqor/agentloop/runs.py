"""Runs: what is asked of an agent, and what became of it."""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from critiqor.agentloop.event_streams import EventStreams, Stream
from critiqor.agentloop.loop.commands import Command
from critiqor.agentloop.recording.run_recording import NOT_RECORDED
from critiqor.agentloop.replies.block_streaming import BlockReplies
from critiqor.agentloop.sessions.messages import Usage
from critiqor.agentloop.sessions.sessions import Session
from critiqor.agentloop.sessions.write_lock import WriteLock
from critiqor.agentloop.settings import QueueMode
from critiqor.errors import UsageError

if TYPE_CHECKING:
    from critiqor.agentloop.loop.external_turn import ExternalTurn

Trigger = Literal["user", "cron", "heartbeat", "subagent"]
AbortKind = Literal["cancelled", "timeout", "interrupted", "stuck", "disconnected", "signal", "shutdown"]
LONGEST_MESSAGE = 4 << 20
"""Characters."""


class AgentParams(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What `agent` is called with."""

    message: str
    agent_id: str | None = None
    session_key: str | None = None
    session_id: str | None = None
    run_id: str | None = None
    """Chosen by the caller; asking twice under one id starts one run."""
    model: str | None = None
    """`provider/model` for this run, instead of the configured ones; there are no fallbacks then."""
    thinking: str | None = None
    verbose: Literal["off", "on", "full"] | None = None
    trace: Literal["off", "on"] | None = None
    timeout_seconds: float | None = None
    """How long the run may take; 0 for as long as it likes."""
    extra_system_prompt: str | None = None
    trigger: Trigger = "user"
    channel: str | None = None
    """The chat channel that the message came from."""
    to: str | None = None
    """Whom a reply goes to."""
    deliver: bool = False
    """Whether replies are sent through the outbox."""
    queue_mode: QueueMode | None = None
    """What happens while the session is busy. Messages of a channel do what the configuration says; others wait."""

    def check(self) -> None:
        """Raise `UsageError` for what no run can be made of."""
        if not self.message.strip():
            raise UsageError("there is no message", fix='critiqor agent --message "…"')
        if len(self.message) > LONGEST_MESSAGE:
            raise UsageError(f"the message has more than {LONGEST_MESSAGE} characters", fix="put it into a file")
        seconds = self.timeout_seconds
        if seconds is not None and not (seconds >= 0 and math.isfinite(seconds)):
            raise UsageError(f"{seconds} is not a time", fix="give a number of seconds, 0 for no limit")


class Accepted(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of `agent`."""

    run_id: str
    accepted_at: int
    """Milliseconds since 1970."""
    status: Literal["accepted", "in_flight"] = "accepted"
    """`in_flight` where a run of this id was there already."""


class WaitResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The answer of `agent.wait`. A timeout is one of the wait; the run goes on."""

    status: Literal["ok", "error", "timeout"]
    started_at: int | None = None
    ended_at: int | None = None
    error: str | None = None


class Payload(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One reply to whoever asked."""

    text: str
    is_error: bool = False
    is_reasoning: bool = False


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a run ended, and what it has to say."""

    run_id: str
    session_key: str
    session_id: str
    status: Literal["ok", "error"]
    payloads: list[Payload] = []
    usage: Usage = Usage()
    """Of all its model calls, however it ended."""
    provider: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    aborted: bool = False
    abort_kind: AbortKind | None = None
    """Why it was aborted."""
    error: str | None = None
    started_at: int | None = None
    ended_at: int = 0
    joined: str | None = None
    """The run that this message went into, where it started none of its own."""


class Abort(NamedTuple):
    """Why a run is ended before its time."""

    kind: AbortKind
    reason: str


class Run:
    """A run from its acceptance to its end."""

    def __init__(self, run_id: str, params: AgentParams, session: Session, accepted_at: int) -> None:
        self.id = run_id
        self.params = params
        self.session = session
        self.message = params.message
        """What the model is asked; several messages that were collected are one."""
        self.accepted_at = accepted_at
        self.started_at: int | None = None
        """Milliseconds since 1970; None while it waits for its turn."""
        self.done: asyncio.Future[RunOutcome] = asyncio.get_running_loop().create_future()
        self.abort: Abort | None = None
        self.steering: list[Run] = []
        """Messages that came meanwhile and are to be told to the model at the next opportunity."""
        self.takes_steering = False
        self.host: Run | None = None
        """The run that answers this message beside its own."""
        self.command: Command | None = None
        """What the message is, if it is not for the model."""
        self.external: ExternalTurn | None = None
        """Who makes the turn, if it is not the loop."""
        self.joined: list[Run] = []
        """Messages that this run answers beside its own: they end when it does."""
        self.blocks: BlockReplies | None = None
        """Where a reply goes out in pieces while it is being written."""
        self.lock: WriteLock | None = None
        """Of the transcript, while it writes to it."""
        self.recording = NOT_RECORDED
        """Where the run reports what it does."""
        self.usage = Usage()
        """Of all its model calls so far, those that summarise among them."""
        self.activity: str | None = None
        """What it waits for: `model_call`, `tool_call`."""
        self.progress_at = time.monotonic()
        self.has_told_start = False
        self.has_told_end = False
        """Whether the end or error of its lifecycle was emitted."""

    @property
    def context(self) -> dict[str, Any]:
        """What every plugin hook is told beside its event."""
        return {
            "runId": self.id,
            "agentId": self.session.agent_id,
            "sessionKey": self.session.key,
            "sessionId": self.session.id,
            "trigger": self.params.trigger,
        }

    def gives_back(self, other: Run) -> bool:
        """Let a message go that was to be answered by this run; False where the model may have heard of it."""
        if other in self.steering:
            self.steering.remove(other)
            return True
        if self.started_at is None and other in self.joined:
            self.joined.remove(other)
            return True
        return False

    def emit(self, streams: EventStreams, stream: Stream, **data: Any) -> None:
        """Tell of something on a stream, which counts as progress. After its end a run has nothing more to tell."""
        if self.has_told_end:
            return
        self.progress_at = time.monotonic()
        if stream == "lifecycle":
            self.has_told_start = self.has_told_start or data["phase"] == "start"
            self.has_told_end = self.has_told_end or data["phase"] in ("end", "error")
        elif stream == "assistant":
            self.recording.text_streamed(data["text"])
        streams.emit(self.id, self.session.key, self.session.agent_id, stream, **data)
