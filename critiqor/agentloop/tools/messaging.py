"""The message tool: sends a message to a person or channel through an outbox."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from critiqor.agentloop.tools.results import answered, failed
from critiqor.agentloop.tools.tool import ToolContext, ToolOutcome

NAME = "message"

_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "required": ["action"],
    "properties": {
        "action": {"type": "string", "enum": ["send"]},
        "channel": {"type": "string", "description": "Channel; default: the channel of the request"},
        "target": {"type": "string", "description": "Recipient; default: the sender of the request"},
        "message": {"type": "string", "description": "Text of the message"},
    },
}


class OutgoingMessage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A message to send."""

    run_id: str
    session_key: str
    text: str
    channel: str | None = None
    """None for the only configured channel."""
    target: str | None = None
    """The recipient in the channel."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """Result of sending a message."""

    message_id: str = ""
    error: str | None = None
    """Why it was not delivered; None if it was."""
    is_cancelled: bool = False
    """Whether a plugin decided that it is not sent."""


class Outbox(Protocol):
    """Delivers messages."""

    async def send(self, message: OutgoingMessage) -> Delivery: ...


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
        """Send the message and return the result."""
        text = arguments.get("message", "")
        if not text.strip():
            return failed(self.name, "message required")
        channel, target = _addressee(arguments, context)
        delivery = await self._outbox.send(
            OutgoingMessage(
                run_id=context.run_id, session_key=context.session_key, text=text, channel=channel, target=target
            )
        )
        if delivery.error is not None:
            return failed(self.name, delivery.error)
        sent = {"status": "sent", "messageId": delivery.message_id, "channel": channel, "to": target}
        return answered({key: value for key, value in sent.items() if value is not None})


def _addressee(arguments: dict[str, Any], context: ToolContext) -> tuple[str | None, str | None]:
    """Return channel and recipient of a message: those of the request, unless the arguments name others."""
    channel, target = arguments.get("channel") or context.channel, arguments.get("target")
    return channel, target or (context.target if channel == context.channel else None)
