"""Delivery of messages through an outbox: the hooks around each message, and the replies of a run in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

import msgspec

from critiqor.agentloop.hooks.plugin_hooks import PluginHooks
from critiqor.agentloop.runs import DeliveryStatus, Run
from critiqor.agentloop.tools.messaging import Delivery, Outbox, OutgoingMessage

CANCELLED = "cancelled_by_message_sending_hook"


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
            return Delivery(error=str(decision.get("cancelReason") or CANCELLED), is_cancelled=True)
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


class ReplySender:
    """Sends the replies of one run, one after the other, to the channel and recipient of its message.

    After a failed delivery it keeps that reply and everything behind it, so that nothing arrives out of order; `flush`
    tries again. It sends in a task of its own: a run that is aborted does not interrupt a delivery.
    """

    def __init__(self, run: Run, outbox: Outbox) -> None:
        self._run = run
        self._outbox = outbox
        self._owed: deque[str] = deque()
        self._task: asyncio.Task[None] | None = None
        self._sent = 0
        self._error: str | None = None
        self.is_closed = False

    def enqueue(self, texts: Iterable[str]) -> None:
        """Send replies after those that are still to be sent."""
        if self.is_closed:
            return
        self._owed.extend(texts)
        if self._owed and self._error is None and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._send_all())

    async def wait(self) -> None:
        """Wait until the replies so far have been sent, or one of them could not be delivered."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def flush(self, texts: Iterable[str] = ()) -> None:
        """Send replies after those that could not be delivered before, which get a second chance."""
        await self.wait()
        self._error = None
        self.enqueue(texts)
        await self.wait()

    def close(self) -> None:
        """Send nothing more."""
        self.is_closed = True
        if self._task is not None:
            self._task.cancel()
        self._owed.clear()

    @property
    def status(self) -> DeliveryStatus:
        """What has been delivered so far."""
        if self._owed:
            error = self._error or "the reply was not delivered in time"
            return DeliveryStatus(status="partial_failed" if self._sent else "failed", sent=self._sent, error=error)
        return DeliveryStatus(status="sent" if self._sent else "suppressed", sent=self._sent)

    async def _send_all(self) -> None:
        run, params = self._run, self._run.params
        while self._owed:
            message = OutgoingMessage(
                run_id=run.id, session_key=run.session.key, text=self._owed[0], channel=params.channel, target=params.to
            )
            delivery = await self._outbox.send(message)
            if delivery.error is not None and not delivery.is_cancelled:
                self._error = delivery.error
                return
            self._owed.popleft()
            self._sent += delivery.error is None
