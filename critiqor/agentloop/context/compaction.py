"""Compaction: replaces history that no longer fits into the context with a summary that the model writes.

The transcript keeps everything; the model is given the summary and the latest messages. Start and end are reported
on the `compaction` stream and by plugin hooks.
"""

from __future__ import annotations

from typing import Any

import msgspec

from critiqor.agentloop.context.token_budget import (
    BYTES_PER_TOKEN,
    answer_tokens,
    message_tokens,
    text_tokens,
    used_tokens,
)
from critiqor.agentloop.models.model_call import ModelCall, ModelCallError
from critiqor.agentloop.models.model_client import ModelRequest
from critiqor.agentloop.models.model_connection import ModelConnection
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
    add_usage,
)
from critiqor.agentloop.sessions.transcript import Transcript
from critiqor.agentloop.sessions.transcript_entries import Entry
from critiqor.model import now_ms

MAX_RESULT_CHARS = 2_000
"""Characters of a tool result that are passed to the summary; its middle is left out."""
INSTRUCTIONS = (
    "You write a summary of a conversation between a user and an agent that works with tools. The agent will continue "
    "with only your summary and the latest messages. Keep: what the user wants and has decided, what was done and "
    "found out, what failed and why, what is still to do, and every name, path, number and identifier exactly as "
    "written. Leave out what no longer matters. Answer with the summary alone."
)


class Compactor:
    """Performs one compaction. `number` counts the compactions of the run from 1."""

    def __init__(self, run: Run, services: Services, transcript: Transcript, fixed_tokens: int, number: int) -> None:
        self._run = run
        self._services = services
        self._transcript = transcript
        self._fixed = fixed_tokens
        self._number = number
        self._settings = services.configuration.defaults.compaction
        self._calls = 0
        self.has_begun = False
        """Whether there was anything to summarise."""
        self.usage = Usage()
        """Usage of the model calls that wrote summaries, including failed ones."""

    async def compact(self, summariser: ModelConnection, window: int, reason: str, *, will_retry: bool) -> int | None:
        """Replace older history with a summary, for a context window of `window` tokens.

        Return the tokens used afterwards.

        Return None if nothing can be removed or the model call fails.
        """
        entries = self._transcript.entries
        keep = min(self._settings.keep_recent_tokens, window // 4)
        if reason != "threshold":
            # The user or the provider considers it too long, whatever the estimate is: remove half of it.
            keep = min(keep, used_tokens(entries, 0, counted=False) // 2)
        cut_at = find_cut(entries, keep)
        if cut_at is None:
            return None
        self.has_begun = True
        before = used_tokens(entries, self._fixed)
        messages = [entry for entry in entries if entry.message is not None]
        before_event = {"messageCount": len(messages), "tokenCount": before, "sessionFile": str(self._transcript.path)}
        context = self._run.context
        self._emit(phase="start", reason=reason, tokensBefore=before)
        await self._services.hooks.run("before_compaction", before_event, context)
        summary: str | None = None
        try:
            summary = await self._summarise(entries[:cut_at], summariser)
        finally:
            if summary is None:
                self._emit(phase="end", reason=reason, completed=False, willRetry=False)
        if summary is None:
            return None
        first_kept = entries[cut_at].id
        self._transcript.append_compaction(summary, first_kept, before)
        after = used_tokens(self._transcript.entries, self._fixed)
        facts: dict[str, Any] = {
            "messageCount": sum(entry.message is not None for entry in self._transcript.entries),
            "compactedCount": sum(entry.message is not None for entry in entries[:cut_at]),
            "tokensBefore": before,
            "tokensAfter": after,
            "tokenCount": after,
            "summaryLength": len(summary),
            "firstKeptEntryId": first_kept,
            "usage": msgspec.to_builtins(self.usage),
        }
        self._emit(phase="end", reason=reason, completed=True, willRetry=will_retry, **_stream_facts(facts))
        await self._services.hooks.run("after_compaction", facts, context)
        return after

    async def _summarise(self, entries: list[Entry], summariser: ModelConnection) -> str | None:
        """Return a summary, built from as many chunks as needed, each with the summary of the chunks before it."""
        model = summariser.resolved.model
        room = max(1_000, (model.context_window - self._settings.reserve(model.context_window)) * BYTES_PER_TOKEN // 2)
        summary = next((entry.summary for entry in entries if entry.summary is not None), None)
        for chunk in _chunks([_as_text(entry.message) for entry in entries if entry.message is not None], room):
            before = f"<summary-so-far>\n{summary}\n</summary-so-far>\n\n" if summary else ""
            text = f"{before}<conversation>\n{chunk}\n</conversation>\n\nSummarise the conversation."
            try:
                answer = await self._ask(text, summariser)
            except ModelCallError:
                return None
            summary = answer.text.strip() or summary
        return summary

    async def _ask(self, text: str, summariser: ModelConnection) -> AssistantMessage:
        resolved = summariser.resolved
        request = ModelRequest(
            provider=resolved.provider.id,
            model=resolved.model.id,
            system_prompt=INSTRUCTIONS,
            messages=[UserMessage(content=[Text(text)], timestamp=now_ms())],
            tools=[],
            max_tokens=answer_tokens(resolved.model, text_tokens(text)),
        )
        self._calls += 1
        name = f"compaction:{self._number}:model:{self._calls}"
        call = ModelCall(self._run, self._services, summariser, name)
        try:
            return await call.ask(request)
        finally:
            self.usage = add_usage(self.usage, call.usage)

    def _emit(self, phase: str, **facts: Any) -> None:
        self._run.recording.compaction(phase, facts)
        self._run.emit(self._services.streams, "compaction", phase=phase, **facts)


def find_cut(entries: list[Entry], keep_tokens: int) -> int | None:
    """Return the index of the first entry that a compaction keeps; None if it can remove nothing.

    Tool results stay with the message that called the tools, and the last message always stays.
    """
    kept_tokens = 0
    first_kept: int | None = None
    for index in range(len(entries) - 1, 0, -1):
        message = entries[index].message
        if message is None:
            continue
        kept_tokens += message_tokens(message)
        if first_kept is not None and kept_tokens > keep_tokens:
            break
        if not isinstance(message, ToolResultMessage):
            first_kept = index
    return first_kept if first_kept is not None and any(entry.message for entry in entries[:first_kept]) else None


def _stream_facts(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: facts[name] for name in ("tokensBefore", "tokensAfter", "compactedCount")}


def _as_text(message: Message) -> str:
    """Return a message as text, without pictures and without the middle of long results."""
    if isinstance(message, AssistantMessage):
        calls = [
            f"[calls {call.name} with {msgspec.json.encode(call.arguments).decode()}]" for call in message.tool_calls
        ]
        return "\n".join(["Agent:", message.text, *calls])
    text = "\n".join("[picture]" if isinstance(part, Image) else part.text for part in message.content)
    if isinstance(message, ToolResultMessage):
        if len(text) > MAX_RESULT_CHARS:
            text = f"{text[: MAX_RESULT_CHARS // 2]}\n[…]\n{text[-MAX_RESULT_CHARS // 2 :]}"
        return f"Result of {message.tool_name}{' (failed)' if message.is_error else ''}:\n{text}"
    return f"User:\n{text}"


def _chunks(texts: list[str], room: int) -> list[str]:
    """Join texts into chunks of at most `room` characters; longer texts are cut."""
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
