"""Messages that leave: plugins may change or cancel each of them, and hear what became of it."""

from __future__ import annotations

from typing import Any

import msgspec

from critiqor.agentloop.hooks.plugin_hooks import PluginHooks
from critiqor.agentloop.tools.messaging import Delivery, Outbox, OutgoingMessage

CANCELLED = "cancelled_by_message_sending_hook"


class HookedOutbox:
    """An outbox with the hooks `message_sending` and `message_sent` around it."""

    def __init__(self, outbox: Outbox, hooks: PluginHooks) -> None:
        self._outbox = outbox
        self._hooks = hooks

    async def send(self, message: OutgoingMessage) -> Delivery:
        """Send it, unless a plugin cancels it; an outbox that fails is a delivery that failed."""
        context = {"runId": message.run_id, "sessionKey": message.session_key, "channelId": message.channel}
        event: dict[str, Any] = {"to": message.target, "content": message.text, "channelId": message.channel}
        decided = await self._hooks.run("message_sending", event, context)
        if decided.get("cancel") is True:
            return Delivery(error=str(decided.get("cancelReason") or CANCELLED))
        text = decided.get("content", message.text)
        try:
            delivery = await self._outbox.send(msgspec.structs.replace(message, text=text))
        except Exception as error:
            delivery = Delivery(error=f"{type(error).__name__}: {error}")
        sent: dict[str, Any] = event | {"content": text, "success": delivery.error is None}
        if delivery.error is not None:
            sent["error"] = delivery.error
        await self._hooks.run("message_sent", sent | {"messageId": delivery.message_id}, context)
        return delivery
