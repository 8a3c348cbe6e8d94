"""Agent runs: the parameters, state and outcome of one message to an agent.

The types of a run's parts come from every folder of the loop, so they are imported for type checking only.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from critiqor.agentloop.recording.run_recording import NOT_RECORDED
from critiqor.agentloop.sessions.messages import Usage
from critiqor.agentloop.settings import QueueMode
from critiqor.errors import UsageError

if TYPE_CHECKING:
    from critiqor.agentloop.event_streams import EventStreams, Stream
    from critiqor.agentloop.loop.commands import Command
    from critiqor.agentloop.loop.external_agent import ExternalAgent
    from critiqor.agentloop.replies.reply_pipeline import ReplyPipeline
    from critiqor.agentloop.sessions.sessions import Session
    from critiqor.agentloop.sessions.write_lock import WriteLock

Trigger = Literal["user", "cron", "heartbeat", "subagent"]
AbortKind = Literal["cancelled", "timeout", "interrupted", "stuck", "disconnected", "signal", "shutdown"]
MAX_MESSAGE_CHARS = 4 << 20


class AgentParams(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Parameters of the `agent` call."""

    message: str
    agent_id: str | None = None
    session_key: str | None = None
    session_id: str | None = None
    run_id: str | None = None
    """Chosen by the caller. Two calls with the same id start one run."""
    model: str | None = None
    """`provider/model` for this run instead of the configured models; disables fallbacks."""
    thinking: str | None = None
    verbose: Literal["off", "on", "full"] | None = None
    trace: Literal["off", "on"] | None = None
    timeout_seconds: float | None = None
    """Time limit of the run; 0 for no limit."""
    extra_system_prompt: str | None = None
    trigger: Trigger = "user"
    channel: str | None = None
    """The chat channel of the message."""
    to: str | None = None
    """The recipient of replies."""
    deliver: bool = False
    """Whether replies are sent through the outbox."""
    queue_mode: QueueMode | None = None
    """What to do while the session is busy. Default: the configured mode for messages of a channel, else wait."""

    def validate(self) -> None:
        """Raise `UsageError` for parameters that cannot start a run."""
        if not self.message.strip():
            raise UsageError("the message is empty", fix='critiqor agent --message "…"')
        if len(self.message) > MAX_MESSAGE_CHARS:
            raise UsageError(
                f"the message has more than {MAX_MESSAGE_CHARS} characters",
                fix="put the text into a file and name the file in the message",
            )
        seconds = self.timeout_seconds
        if seconds is not None and not (seconds >= 0 and math.isfinite(seconds)):
            raise UsageError(f"{seconds} is not a valid timeout", fix="give a number of seconds, 0 for no limit")


class Accepted(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Result of `agent`."""

    run_id: str
    accepted_at: int
    """Milliseconds since 1970."""
    status: Literal["accepted", "in_flight"] = "accepted"
    """`in_flight` if a run with this id already exists."""


class WaitResult(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Result of `agent.wait`. A timeout ends the wait, not the run."""

    status: Literal["ok", "error", "timeout"]
    started_at: int | None = None
    ended_at: int | None = None
    error: str | None = None


class Payload(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One reply to the user."""

    text: str
    is_error: bool = False
    is_reasoning: bool = False


class DeliveryStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What became of the replies of a run that were to be delivered."""

    status: Literal["sent", "suppressed", "partial_failed", "failed"]
    """`suppressed` if there was nothing to send, or a plugin cancelled it."""
    sent: int = 0
    """Number of messages that were delivered."""
    error: str | None = None
    """Why the rest was not delivered."""


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How a run ended, with its replies."""

    run_id: str
    session_key: str
    session_id: str
    status: Literal["ok", "error"]
    payloads: list[Payload] = []
    usage: Usage = Usage()
    """Sum over all model calls, also of a failed run."""
    provider: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    aborted: bool = False
    abort_kind: AbortKind | None = None
    """Why the run was aborted."""
    error: str | None = None
    started_at: int | None = None
    ended_at: int = 0
    joined: str | None = None
    """Id of the run that answered this message, if the message did not get its own run."""
    delivery: DeliveryStatus | None = None
    """What became of the replies; None if they were not to be delivered."""


class Abort(NamedTuple):
    """Why a run is ended early."""

    kind: AbortKind
    reason: str


class Run:
    """An agent run from its acceptance to its end."""

    def __init__(self, run_id: str, params: AgentParams, session: Session, accepted_at: int) -> None:
        self.id = run_id
        self.params = params
        self.session = session
        self.message = params.message
        """The prompt for the model; several collected messages are combined into one."""
        self.accepted_at = accepted_at
        self.started_at: int | None = None
        """Milliseconds since 1970; None while the run is queued."""
        self.done: asyncio.Future[RunOutcome] = asyncio.get_running_loop().create_future()
        self.abort: Abort | None = None
        self.steering: list[Run] = []
        """Messages that arrived during the run and go to the model before its next call."""
        self.accepts_steering = False
        self.answered_by: Run | None = None
        """The run that also answers this message."""
        self.command: Command | None = None
        """The chat command of the message, if it is one."""
        self.external: ExternalAgent | None = None
        """The program that answers instead of the loop, if any."""
        self.joined: list[Run] = []
        """Other messages that this run answers; they end with it."""
        self.replies: ReplyPipeline
        """What is said to the user. The dispatcher sets it."""
        self.lock: WriteLock | None = None
        """The write lock of the transcript, once acquired."""
        self.recording = NOT_RECORDED
        """Where the run reports what it does."""
        self.usage = Usage()
        """Sum over all model calls so far, including those of compactions."""
        self.activity: str | None = None
        """What the run waits for: `model_call`, `tool_call`."""
        self.progress_at = time.monotonic()
        """Monotonic time of the last event, in seconds."""
        self.has_emitted_start = False
        self.has_emitted_end = False
        """Whether the `end` or `error` of its lifecycle was emitted."""

    @property
    def context(self) -> dict[str, Any]:
        """The context that every plugin hook gets with its event."""
        return {
            "runId": self.id,
            "agentId": self.session.agent_id,
            "sessionKey": self.session.key,
            "sessionId": self.session.id,
            "trigger": self.params.trigger,
        }

    def release_message(self, other: Run) -> bool:
        """Stop answering another message that joined this run. Return False if the model may already have seen it."""
        if other in self.steering:
            self.steering.remove(other)
            return True
        if self.started_at is None and other in self.joined:
            self.joined.remove(other)
            return True
        return False

    def emit(self, streams: EventStreams, stream: Stream, **data: Any) -> None:
        """Emit an event and count it as progress. Events after the end of the run are dropped."""
        if self.has_emitted_end:
            return
        self.progress_at = time.monotonic()
        if stream == "lifecycle":
            self.has_emitted_start = self.has_emitted_start or data["phase"] == "start"
            self.has_emitted_end = self.has_emitted_end or data["phase"] in ("end", "error")
        elif stream == "assistant":
            self.recording.text_streamed(data["text"])
        streams.emit(self.id, self.session.key, self.session.agent_id, stream, **data)
