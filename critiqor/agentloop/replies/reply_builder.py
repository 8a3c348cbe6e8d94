"""Replies: what of all that a run said and did goes to whoever asked.

The answer is the last one that the model gave. Words on the way to it were progress, and were streamed as such. A model
that has nothing to say answers with a silent token, and what it has sent through the message tool is not said again.
Whoever asked is never left without a word because a tool failed or the model did.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from critiqor.agentloop.models.model_client import FailureKind, ModelFailureError
from critiqor.agentloop.runs import Payload
from critiqor.agentloop.sessions.messages import AssistantMessage, Text, Thinking, ToolCall
from critiqor.agentloop.tools import messaging
from critiqor.agentloop.tools.results import error_words, shortened
from critiqor.agentloop.tools.tool import ToolOutcome

SILENT_TOKENS = ("NO_REPLY", "no_reply")
Verbosity = Literal["off", "on", "full"]
_OUTPUT_CHARS = 1_500
_DETAIL_CHARS = 120
_SHORTEST_ECHO = 10
"""Characters from which on a text counts as said when it is only a part of what was sent."""
_LABELS = {
    "exec": "🛠️ Exec",
    "read": "📖 Read",
    "write": "✍️ Write",
    "edit": "📝 Edit",
    "memory_search": "🧠 Memory Search",
    "memory_get": "🧠 Memory Get",
    "message": "✉️ Message",
    "sessions_spawn": "🧑‍🔧 Sub-agent",
}
_DETAILS = ("path", "query", "target", "label", "command", "task")
_SECRETIVE = ("command", "task")
"""Told only when everything is told: a command line may hold what a chat should not."""
_FAILURES: dict[FailureKind, str] = {
    "timeout": "The model did not answer in time.",
    "network": "The model could not be reached.",
    "auth": "The model provider did not accept the key.",
    "billing": "The model provider wants to be paid first.",
    "rate_limit": "The model provider has had too many requests; try again later.",
    "server": "The model provider has a problem of its own; try again shortly.",
    "context": "The conversation is too long for the model.",
    "malformed": "The model's answer was broken.",
    "rejected": "The model provider rejected the request.",
    "aborted": "The run was ended before the model had answered.",
}


class ToolUse(Protocol):
    """A tool call and what came of it."""

    @property
    def call(self) -> ToolCall: ...

    @property
    def outcome(self) -> ToolOutcome: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """All that a run said and did, in order."""

    messages: Sequence[AssistantMessage]
    """Answers of the model."""
    tools: Sequence[ToolUse] = ()
    error: str | None = None
    """Why the run did not come to its end."""


def shape_replies(said: Said, *, verbose: Verbosity = "off", reasoning: bool = False) -> list[Payload]:
    """What goes out, in order."""
    payloads: list[Payload] = []
    if verbose != "off":
        payloads += [Payload(text=tool_summary(use, verbose)) for use in said.tools]
    last = said.messages[-1] if said.messages else None
    if reasoning and last is not None and (thought := _thinking(last)):
        payloads.append(Payload(text=f"Reasoning:\n{thought}", is_reasoning=True))
    sent = _sent(said.tools)
    answer = _answer(said.messages)
    if answer and not is_silent(answer) and not _was_sent(answer, sent):
        payloads.append(Payload(text=answer))
        sent = [*sent, answer]
    error = said.error or (last.error_message if last is not None and last.stop_reason == "error" else None)
    if error:
        payloads.append(Payload(text=error if error.startswith("⚠️") else f"⚠️ {error}", is_error=True))
    elif not sent and (failed := _last_failure(said.tools)) is not None:
        payloads.append(Payload(text=_failure_summary(failed, verbose), is_error=True))
    return payloads


def is_silent(text: str) -> bool:
    """Whether a text says, and says nothing but, that there is nothing to say."""
    return text.strip() in SILENT_TOKENS


def may_become_silent(text: str) -> bool:
    """Whether a text that is still growing may turn out to be a silent token, and nothing else."""
    begun = text.strip()
    return any(token.startswith(begun) for token in SILENT_TOKENS)


def failure_text(failure: ModelFailureError) -> str:
    """What whoever asked is told when the model did not answer."""
    return f"⚠️ {_FAILURES[failure.kind]} ({failure})"


def tool_summary(use: ToolUse, verbose: Verbosity) -> str:
    """A tool call in one line; with its output where everything is told."""
    summary = _label(use.call, told_in_full=verbose == "full")
    if verbose != "full":
        return summary
    output = "\n".join(part.text for part in use.outcome.content if isinstance(part, Text)).strip()
    return f"{summary}\n```\n{shortened(output, _OUTPUT_CHARS)}\n```" if output else summary


def _answer(messages: Sequence[AssistantMessage]) -> str:
    """The last words of the model; where it ended without any, the ones before."""
    return next((text for message in reversed(messages) if (text := message.text.strip())), "")


def _thinking(message: AssistantMessage) -> str:
    return "".join(part.thinking for part in message.content if isinstance(part, Thinking)).strip()


def _sent(tools: Sequence[ToolUse]) -> list[str]:
    found = (messaging.sent_text(use.call, use.outcome) for use in tools)
    return [text for text in found if text is not None]


def _was_sent(answer: str, sent: Sequence[str]) -> bool:
    """Whether the whole answer is in something that was sent; what has anything to add is said."""
    wanted = _folded(answer)
    is_long = len(wanted) >= _SHORTEST_ECHO
    return any(wanted == text or (is_long and wanted in text) for text in map(_folded, sent))


def _folded(text: str) -> str:
    """The letters and signs of a text, without what may differ between a message and its confirmation."""
    kept = (character for character in text.casefold() if unicodedata.category(character) not in ("So", "Mn", "Cf"))
    return re.sub(r"\s+", " ", "".join(kept)).strip() or text.strip()


def _last_failure(tools: Sequence[ToolUse]) -> ToolUse | None:
    failures = (use for use in reversed(tools) if use.outcome.is_error or use.outcome.details.get("status") == "failed")
    return next(failures, None)


def _failure_summary(use: ToolUse, verbose: Verbosity) -> str:
    reason = error_words(use.outcome) if verbose == "full" else None
    return f"⚠️ {_label(use.call, told_in_full=verbose == 'full')} failed" + (f": {reason}" if reason else "")


def _label(call: ToolCall, *, told_in_full: bool) -> str:
    label = _LABELS.get(call.name) or f"🧩 {call.name.replace('_', ' ').title() or 'Tool'}"
    names = [name for name in _DETAILS if told_in_full or name not in _SECRETIVE]
    detail = next((text for name in names if (text := _detail(call.arguments.get(name)))), "")
    return f"{label}: `{detail}`" if detail else label


def _detail(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    line = " ".join(value.split()).replace("`", "'")
    return line if len(line) <= _DETAIL_CHARS else f"{line[:_DETAIL_CHARS]}…"
