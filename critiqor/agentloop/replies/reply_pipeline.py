"""The reply pipeline of one agent run: what the model and its tools said, what was sent, and what is still owed.

It lives as long as the run. A new attempt, after a failed model call or a compaction, resets the texts, reasoning and
tool summaries of the failed one; what tools have sent, which tools failed, and which blocks the user has read is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from critiqor.agentloop.replies.block_streaming import BlockStream
from critiqor.agentloop.replies.delivery import ReplySender
from critiqor.agentloop.replies.reply_builder import (
    RunOutput,
    ToolUse,
    Verbosity,
    build_replies,
    format_reasoning,
    has_failed,
    is_silent,
    summarize_tool,
)
from critiqor.agentloop.runs import DeliveryStatus, Payload, Run
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.messages import AssistantMessage
from critiqor.agentloop.tools.messaging import Delivery, OutgoingMessage


class Replies(NamedTuple):
    """The replies of a run that has ended."""

    payloads: list[Payload]
    delivery: DeliveryStatus | None
    """What became of them; None if they were not to be delivered."""


class ReplyPipeline:
    """The replies of one run. It is also the outbox of its message tool."""

    def __init__(self, run: Run, services: Services) -> None:
        params, defaults = run.params, services.configuration.defaults
        self._run = run
        self._outbox = services.outbox
        self._sender = ReplySender(run, services.outbox)
        self._reasoning = defaults.reasoning_default == "on"
        self._blocks: BlockStream | None = None
        if params.deliver and defaults.block_streaming_default == "on":
            self._blocks = BlockStream(defaults.block_streaming_chunk, defaults.block_streaming_break)
        self.verbose: Verbosity = params.verbose or defaults.verbose_default
        self._notices: list[Payload] = []
        self._messages: list[AssistantMessage] = []
        """Messages of this attempt."""
        self._tools: list[ToolUse] = []
        """Tool calls of this attempt."""
        self._failed_tool: ToolUse | None = None
        self._sent_by_tools: list[str] = []
        self._thinking = ""
        """Reasoning of the current message that was not sent yet."""
        self._thoughts: list[str] = []
        """Reasoning of the current message that was sent."""
        self._read_thoughts: list[str] = []
        """Reasoning of attempts at the current message that failed; the user has read it."""
        self._has_ended = False

    def add_notice(self, text: str) -> None:
        """Add a reply that does not come from the model. It precedes the answer."""
        if text and not is_silent(text):
            self._notices.append(Payload(text=text))
            if self._blocks is not None:
                self._sender.enqueue([text])

    def add_thinking(self, text: str) -> None:
        """Add streamed reasoning of the current message."""
        self._thinking += text

    def add_text(self, text: str) -> None:
        """Add streamed text of the current message."""
        if self._blocks is None:
            return
        if self._thinking and self._blocks.has_begun:
            self._sender.enqueue(self._blocks.cut())
        self._send_thinking()
        self._sender.enqueue(self._blocks.add_text(text, self._sent_by_tools))

    def end_message(self, message: AssistantMessage) -> None:
        """Add a complete message, whose text was streamed before."""
        self._messages.append(message)
        if self._blocks is None:
            self._thinking = ""
            return
        if not self._blocks.has_begun:
            self._send_thinking()
        self._sender.enqueue(self._blocks.end_message(self._sent_by_tools))
        self._send_thinking()
        self._thoughts, self._read_thoughts = [], []

    def add_tool(self, use: ToolUse) -> None:
        """Add a tool call that has ended."""
        self._tools.append(use)
        if has_failed(use):
            self._failed_tool = use
        if self._blocks is not None and self.verbose != "off":
            self._sender.enqueue([summarize_tool(use, self.verbose)])

    async def send(self, message: OutgoingMessage) -> Delivery:
        """Send a message of a tool, after the blocks before it."""
        await self._sender.flush()
        if self._sender.is_closed:
            return Delivery(error="the agent run has ended")
        delivery = await self._outbox.send(message)
        params = self._run.params
        if delivery.error is None and (message.channel, message.target) == (params.channel, params.to):
            self._sent_by_tools.append(message.text)
        return delivery

    def restart(self) -> None:
        """Begin a new attempt, which answers again."""
        self._messages, self._tools, self._thinking = [], [], ""
        self._read_thoughts += self._thoughts
        self._thoughts = []
        if self._blocks is not None:
            self._blocks.restart()

    async def end(self, error: str | None = None) -> Replies:
        """Build the replies of the run and deliver what is still owed. `error` is why the run failed."""
        output = RunOutput(
            messages=self._messages,
            tools=self._tools,
            failed_tool=self._failed_tool,
            sent=self._sent_by_tools,
            error=error,
        )
        payloads = [*self._notices, *build_replies(output, verbose=self.verbose, reasoning=self._reasoning)]
        # With block streaming, everything but the error was sent before.
        has_sent_texts = self._blocks is not None or self._has_ended
        return await self._deliver(payloads, [one for one in payloads if one.is_error or not has_sent_texts])

    async def end_with(self, texts: Iterable[str]) -> Replies:
        """Deliver these replies in place of an answer of the model."""
        direct = [Payload(text=text) for text in texts if text and not is_silent(text)]
        owed = direct if self._blocks is not None else [*self._notices, *direct]
        return await self._deliver([*self._notices, *direct], owed)

    async def end_aborted(self, error: str, seconds: float) -> Replies:
        """Deliver what is owed and an error of a run that was ended from outside, within a time limit."""
        try:
            async with asyncio.timeout(seconds):
                return await self.end(error)
        except TimeoutError:
            return Replies([Payload(text=f"⚠️ {error}", is_error=True)], self._sender.status)
        finally:
            self.close()

    def close(self) -> None:
        """Send nothing more, whatever an abandoned run still does."""
        self._sender.close()

    async def _deliver(self, payloads: list[Payload], owed: list[Payload]) -> Replies:
        self._has_ended = True
        if not self._run.params.deliver:
            return Replies(payloads, None)
        await self._sender.flush([payload.text for payload in owed])
        return Replies(payloads, self._sender.status)

    def _send_thinking(self) -> None:
        """Send the reasoning of the current message, unless the user has read it before a retry."""
        thought, self._thinking = self._thinking.strip(), ""
        if self._reasoning and thought and thought not in self._read_thoughts:
            self._thoughts.append(thought)
            self._sender.enqueue([format_reasoning(thought)])
