"""Delivery of replies to a chat channel through outboxes, with the hooks `message_sending` and `message_sent`."""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

from critiqor.agentloop.hooks.plugin_hooks import PluginHooks
from critiqor.agentloop.runs import Run
from critiqor.agentloop.services import Services
from critiqor.agentloop.tools.messaging import Delivery, Outbox, OutgoingMessage

CANCELLED = "cancelled_by_message_sending_hook"
_MAX_KEPT = 1_000


class MemoryOutbox:
    """Keeps the latest messages in memory instead of delivering them."""

    def __init__(self) -> None:
        self.sent: deque[OutgoingMessage] = deque(maxlen=_MAX_KEPT)
        self._count = 0

    async def send(self, message: OutgoingMessage) -> Delivery:
        """Keep the message in memory and report it as delivered."""
        self._count += 1
        self.sent.append(message)
        return Delivery(message_id=f"msg_{self._count}")


class HookedOutbox:
    """An outbox that runs the hooks `message_sending` and `message_sent` around each message."""

    def __init__(self, outbox: Outbox, hooks: PluginHooks) -> None:
        self._outbox = outbox
        self._hooks = hooks

    async def send(self, message: OutgoingMessage) -> Delivery:
        """Send a message unless a plugin cancels it. An exception of the outbox becomes a failed delivery."""
        context = {"runId": message.run_id, "sessionKey": message.session_key, "channelId": message.channel}
        event: dict[str, Any] = {"to": message.target, "content": message.text, "channelId": message.channel}
        decision = await self._hooks.run("message_sending", event, context)
        if decision.get("cancel") is True:
            return Delivery(error=str(decision.get("cancelReason") or CANCELLED))
        text = decision.get("content", message.text)
        try:
            delivery = await self._outbox.send(msgspec.structs.replace(message, text=text))
        except Exception as error:
            delivery = Delivery(error=f"{type(error).__name__}: {error}")
        sent: dict[str, Any] = event | {"content": text, "success": delivery.error is None}
        if delivery.error is not None:
            sent["error"] = delivery.error
        await self._hooks.run("message_sent", sent | {"messageId": delivery.message_id}, context)
        return delivery


async def send_reply(run: Run, services: Services, text: str) -> None:
    """Send a reply of a run to the channel and recipient of its message."""
    await services.outbox.send(
        OutgoingMessage(
            run_id=run.id,
            session_key=run.session.key,
            text=text,
            channel=run.params.channel,
            target=run.params.to,
        )
    )
