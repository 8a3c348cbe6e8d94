"""Compaction: history that no longer fits is summarised by the model, and the summary takes its place in the context.

The transcript keeps everything. What changes is what the model is shown: the summary, then the latest messages as they
were. Whoever watches is told before and after, on the `compaction` stream and by plugin hooks.
"""

from __future__ import annotations

from typing import Any

import msgspec

from critiqor.agentloop.context.budget import BYTES_A_TOKEN, answer_tokens, cut, tokens_of_text, used_tokens
from critiqor.agentloop.models.model_call import Dialled, ModelCall, ModelCallError
from critiqor.agentloop.models.model_client import ModelRequest
from critiqor.agentloop.runs import Run
from critiqor.agentloop.services import Services
from critiqor.agentloop.sessions.messages import (
    AssistantMessage,
    Image,
    Message,
    Text,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from critiqor.agentloop.sessions.transcript import Transcript
from critiqor.agentloop.sessions.transcript_entries import Entry
from critiqor.model import now_ms

LONGEST_RESULT = 2_000
"""Characters of a tool result that a summary is made from."""
INSTRUCTIONS = (
    "You write a summary of a conversation between a user and an agent that works with tools. The agent will go on "
    "with nothing but your summary and the latest messages. Keep: what the user wants and has decided, what was done "
    "and found out, what failed and why, what is still to do, and every name, path, number and identifier exactly as "
    "it stands. Leave out what no longer matters. Answer with the summary alone."
)


class Compactor:
    """Makes one compaction of a run, which is its `number`th."""

    def __init__(self, run: Run, services: Services, transcript: Transcript, fixed_tokens: int, number: int) -> None:
        self._run = run
        self._services = services
        self._transcript = transcript
        self._fixed = fixed_tokens
        self._number = number
        self._settings = services.configuration.defaults.compaction
        self._calls = 0
        self.has_begun = False
        """Whether there was something to summarise."""
        self.usage = Usage()
        """Of the model calls that summarised, whatever came of them."""

    async def compact(self, summariser: Dialled, window: int, reason: str, *, will_retry: bool) -> int | None:
        """Summarise what does not have to stay in a window of so many tokens; returns how many are used after it.

        None where nothing can go, or where the model could not summarise it.
        """
        entries = self._transcript.entries
        keep = min(self._settings.keep_recent_tokens, window // 4)
        if reason != "threshold":
            # Somebody knows that it is too long, whatever it seems to be: then half of it goes.
            keep = min(keep, used_tokens(entries, 0, counted=False) // 2)
        place = cut(entries, keep)
        if place is None:
            return None
        self.has_begun = True
        before = used_tokens(entries, self._fixed)
        messages = [entry for entry in entries if entry.message is not None]
        told = {"messageCount": len(messages), "tokenCount": before, "sessionFile": str(self._transcript.path)}
        context = self._run.context
        self._emit(phase="start", reason=reason, tokensBefore=before)
        await self._services.hooks.run("before_compaction", told, context)
        summary: str | None = None
        try:
            summary = await self._summarised(entries[:place], summariser)
        finally:
            if summary is None:
                self._emit(phase="end", reason=reason, completed=False, willRetry=False)
        if summary is None:
            return None
        first_kept = entries[place].id
        self._transcript.append_compaction(summary, first_kept, before)
        after = used_tokens(self._transcript.entries, self._fixed)
        facts: dict[str, Any] = {
            "messageCount": sum(entry.message is not None for entry in self._transcript.entries),
            "compactedCount": sum(entry.message is not None for entry in entries[:place]),
            "tokensBefore": before,
            "tokensAfter": after,
            "tokenCount": after,
            "summaryLength": len(summary),
            "firstKeptEntryId": first_kept,
            "usage": msgspec.to_builtins(self.usage),
        }
        self._emit(phase="end", reason=reason, completed=True, willRetry=will_retry, **_figures(facts))
        await self._services.hooks.run("after_compaction", facts, context)
        return after

    async def _summarised(self, entries: list[Entry], summariser: Dialled) -> str | None:
        """A summary in as many steps as it takes, each with the summary of what went before it."""
        model = summariser.resolved.model
        room = max(1_000, (model.context_window - self._settings.reserve(model.context_window)) * BYTES_A_TOKEN // 2)
        summary = next((entry.summary for entry in entries if entry.summary is not None), None)
        for chunk in _chunks([_told(entry.message) for entry in entries if entry.message is not None], room):
            before = f"<summary-so-far>\n{summary}\n</summary-so-far>\n\n" if summary else ""
            text = f"{before}<conversation>\n{chunk}\n</conversation>\n\nSummarise the conversation."
            try:
                answer = await self._ask(text, summariser)
            except ModelCallError:
                return None
            summary = answer.text.strip() or summary
        return summary

    async def _ask(self, text: str, summariser: Dialled) -> AssistantMessage:
        resolved = summariser.resolved
        request = ModelRequest(
            provider=resolved.provider.id,
            model=resolved.model.id,
            system_prompt=INSTRUCTIONS,
            messages=[UserMessage(content=[Text(text)], timestamp=now_ms())],
            tools=[],
            max_tokens=answer_tokens(resolved.model, tokens_of_text(text)),
        )
        self._calls += 1
        name = f"compaction:{self._number}:model:{self._calls}"
        call = ModelCall(self._run, self._services, summariser, name)
        try:
            return await call.ask(request)
        finally:
            self.usage = added(self.usage, call.usage)

    def _emit(self, phase: str, **facts: Any) -> None:
        self._run.recording.compaction(phase, facts)
        self._run.emit(self._services.streams, "compaction", phase=phase, **facts)


def added(one: Usage, other: Usage) -> Usage:
    """What two model calls used together."""
    sums = {name: getattr(one, name) + getattr(other, name) for name in Usage.__struct_fields__ if name != "cost"}
    cost = {name: getattr(one.cost, name) + getattr(other.cost, name) for name in one.cost.__struct_fields__}
    return Usage(**sums, cost=type(one.cost)(**cost))


def _figures(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: facts[name] for name in ("tokensBefore", "tokensAfter", "compactedCount")}


def _told(message: Message) -> str:
    """A message in words, without pictures and with the middle of long results left out."""
    if isinstance(message, AssistantMessage):
        calls = [
            f"[calls {call.name} with {msgspec.json.encode(call.arguments).decode()}]" for call in message.tool_calls
        ]
        return "\n".join(["Agent:", message.text, *calls])
    words = "\n".join("[picture]" if isinstance(part, Image) else part.text for part in message.content)
    if isinstance(message, ToolResultMessage):
        if len(words) > LONGEST_RESULT:
            words = f"{words[: LONGEST_RESULT // 2]}\n[…]\n{words[-LONGEST_RESULT // 2 :]}"
        return f"Result of {message.tool_name}{' (failed)' if message.is_error else ''}:\n{words}"
    return f"User:\n{words}"


def _chunks(texts: list[str], room: int) -> list[str]:
    """Texts joined to pieces of at most so many characters, as long as no single one is longer."""
    chunks: list[str] = []
    current: list[str] = []
    size = 0
    for text in (text[:room] for text in texts):
        if current and size + len(text) > room:
            chunks.append("\n\n".join(current))
            current, size = [], 0
        current.append(text)
        size += len(text)
    return [*chunks, "\n\n".join(current)] if current else chunks
