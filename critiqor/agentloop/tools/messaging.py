"""The message tool: words to somebody, on a channel, through an outbox that remembers what was sent.

What an agent has said through this tool it need not say again as its reply; `sent_text` is how the shaping of replies
knows.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

import msgspec

from critiqor.agentloop.sessions.messages import ToolCall
from critiqor.agentloop.tools.results import answered, failed
from critiqor.agentloop.tools.tool import ToolContext, ToolOutcome

NAME = "message"
_KEPT_MESSAGES = 1_000

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "required": ["action"],
    "properties": {
        "action": {"type": "string", "enum": ["send"]},
        "channel": {"type": "string", "description": "Where; the channel that the turn came from, if left out"},
        "target": {"type": "string", "description": "To whom; the one who asked, if left out"},
        "message": {"type": "string", "description": "The words"},
    },
}


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Words on their way to somebody."""

    run_id: str
    session_key: str
    text: str
    channel: str | None = None
    """None for the channel that the turn came from."""
    target: str | None = None
    """None for whoever asked."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a message."""

    message_id: str = ""
    error: str | None = None
    """Why it was not delivered."""


class Outbox(Protocol):
    """Takes messages to where they belong."""

    async def send(self, message: OutgoingMessage) -> Delivery: ...


class MemoryOutbox:
    """Keeps the latest messages, for whoever looks; nothing leaves the process."""

    def __init__(self) -> None:
        self.sent: deque[OutgoingMessage] = deque(maxlen=_KEPT_MESSAGES)
        self._count = 0

    async def send(self, message: OutgoingMessage) -> Delivery:
        """Keep it."""
        self._count += 1
        self.sent.append(message)
        return Delivery(message_id=f"msg_{self._count}")


class MessageTool:
    """Sends a message."""

    name = NAME
    description = (
        "Send a message to a person or channel. If it is your reply to the user, answer only NO_REPLY after it."
    )
    parameters = _PARAMETERS

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolOutcome:
        """Send it, and say what became of it."""
        text = arguments.get("message", "")
        if not text.strip():
            return failed(self.name, "message required")
        channel, target = arguments.get("channel"), arguments.get("target")
        delivery = await self._outbox.send(
            OutgoingMessage(
                run_id=context.run_id, session_key=context.session_key, text=text, channel=channel, target=target
            )
        )
        if delivery.error is not None:
            return failed(self.name, delivery.error)
        told = {"status": "sent", "messageId": delivery.message_id, "channel": channel, "to": target}
        return answered({key: value for key, value in told.items() if value is not None})


def sent_text(call: ToolCall, outcome: ToolOutcome) -> str | None:
    """What a tool call has said to somebody; None for other tools, and for a message that did not go out."""
    text = call.arguments.get("message")
    return text if call.name == NAME and not outcome.is_error and isinstance(text, str) else None
