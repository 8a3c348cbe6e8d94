"""Builds the replies of a run from the model's messages, its tool calls and its error.

The answer is the last text of the model; earlier texts were progress and were only streamed. A silent token means no
reply, and text that was sent with the message tool is not repeated. If the model or a tool failed and there is no
other reply, the user gets an error message. Tool summaries and reasoning accompany a reply; they are none.
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
from critiqor.agentloop.tools.results import error_line, shorten
from critiqor.agentloop.tools.tool import ToolOutcome

SILENT_TOKENS = ("NO_REPLY", "no_reply")
Verbosity = Literal["off", "on", "full"]
_OUTPUT_CHARS = 1_500
_DETAIL_CHARS = 120
_MIN_ECHO_CHARS = 10
"""From this length on, an answer that is contained in a sent message counts as sent."""
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
_PRIVATE_DETAILS = ("command", "task")
"""Shown with verbosity `full` only: a command line may contain what should not appear in a chat."""
_FAILURES: dict[FailureKind, str] = {
    "timeout": "The model did not answer in time.",
    "network": "The model could not be reached.",
    "auth": "The model provider rejected the API key.",
    "billing": "The model provider rejected the request for billing reasons.",
    "rate_limit": "The model provider received too many requests; try again later.",
    "server": "The model provider had an internal error; try again shortly.",
    "context": "The conversation is too long for the model.",
    "malformed": "The model's response was malformed.",
    "rejected": "The model provider rejected the request.",
    "aborted": "The agent run was aborted before the model answered.",
}


class ToolUse(Protocol):
    """A tool call and its outcome."""

    @property
    def call(self) -> ToolCall: ...

    @property
    def outcome(self) -> ToolOutcome: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutput:
    """What the replies of a run are built from."""

    messages: Sequence[AssistantMessage] = ()
    """Messages of the model in the last attempt, in order."""
    tools: Sequence[ToolUse] = ()
    """Tool calls of the last attempt, in order."""
    failed_tool: ToolUse | None = None
    """The last tool call that failed, in any attempt."""
    sent: Sequence[str] = ()
    """Texts that the message tool has sent to the user, in any attempt."""
    error: str | None = None
    """Why the run failed."""


def build_replies(output: RunOutput, *, verbose: Verbosity = "off", reasoning: bool = False) -> list[Payload]:
    """Return the replies of a run, in order."""
    payloads: list[Payload] = []
    if verbose != "off":
        payloads += [Payload(text=summarize_tool(use, verbose)) for use in output.tools]
    last = output.messages[-1] if output.messages else None
    if reasoning and last is not None and (thought := _thinking(last)):
        payloads.append(Payload(text=format_reasoning(thought), is_reasoning=True))
    answer = _answer(output.messages)
    has_reply = bool(output.sent)
    if answer and not is_silent(answer) and not was_sent(answer, output.sent):
        payloads.append(Payload(text=answer))
        has_reply = True
    error = output.error or (last.error_message if last is not None and last.stop_reason == "error" else None)
    if error:
        payloads.append(Payload(text=error if error.startswith("⚠️") else f"⚠️ {error}", is_error=True))
    elif not has_reply and output.failed_tool is not None:
        payloads.append(Payload(text=_failure_summary(output.failed_tool, verbose), is_error=True))
    return payloads


def is_silent(text: str) -> bool:
    """Whether a reply is a silent token, which is not sent."""
    return text.strip() in SILENT_TOKENS


def may_become_silent(text: str) -> bool:
    """Whether a reply that is still growing may become a silent token."""
    beginning = text.strip()
    return any(token.startswith(beginning) for token in SILENT_TOKENS)


def failure_text(failure: ModelFailureError) -> str:
    """Return the reply for a failed model call."""
    return f"⚠️ {_FAILURES[failure.kind]} ({failure})"


def summarize_tool(use: ToolUse, verbose: Verbosity) -> str:
    """Return a tool call as one line; with its output if verbosity is `full`."""
    summary = _label(use.call, full=verbose == "full")
    if verbose != "full":
        return summary
    output = "\n".join(part.text for part in use.outcome.content if isinstance(part, Text)).strip()
    return f"{summary}\n```\n{shorten(output, _OUTPUT_CHARS)}\n```" if output else summary


def _answer(messages: Sequence[AssistantMessage]) -> str:
    """Return the last non-empty text of the model."""
    return next((text for message in reversed(messages) if (text := message.text.strip())), "")


def _thinking(message: AssistantMessage) -> str:
    return "".join(part.thinking for part in message.content if isinstance(part, Thinking)).strip()


def was_sent(answer: str, sent: Sequence[str]) -> bool:
    """Whether a message that a tool has sent contains the whole answer."""
    folded = _fold(answer)
    is_long = len(folded) >= _MIN_ECHO_CHARS
    return any(folded == text or (is_long and folded in text) for text in map(_fold, sent))


def may_have_been_sent(beginning: str, sent: Sequence[str]) -> bool:
    """Whether an answer that is still growing may become one that a tool has sent."""
    folded = _fold(beginning)
    return any(folded in text for text in map(_fold, sent)) or (bool(sent) and not _letters(beginning))


def _fold(text: str) -> str:
    """Return a text in lower case without emoji, marks and repeated spaces, for comparison."""
    return re.sub(r"\s+", " ", _letters(text)).strip() or text.strip()


def _letters(text: str) -> str:
    """Return a text in lower case without emoji and marks."""
    kept = (character for character in text.casefold() if unicodedata.category(character) not in ("So", "Mn", "Cf"))
    return "".join(kept).strip()


def has_failed(use: ToolUse) -> bool:
    """Whether a tool call counts as failed if the user gets no other reply."""
    return use.outcome.is_error or use.outcome.details.get("status") == "failed"


def format_reasoning(thought: str) -> str:
    """Return the reasoning of a model as a reply."""
    return f"Reasoning:\n{thought}"


def _failure_summary(use: ToolUse, verbose: Verbosity) -> str:
    reason = error_line(use.outcome) if verbose == "full" else None
    return f"⚠️ {_label(use.call, full=verbose == 'full')} failed" + (f": {reason}" if reason else "")


def _label(call: ToolCall, *, full: bool) -> str:
    label = _LABELS.get(call.name) or f"🧩 {call.name.replace('_', ' ').title() or 'Tool'}"
    names = [name for name in _DETAILS if full or name not in _PRIVATE_DETAILS]
    detail = next((text for name in names if (text := _detail(call.arguments.get(name)))), "")
    return f"{label}: `{detail}`" if detail else label


def _detail(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    line = " ".join(value.split()).replace("`", "'")
    return line if len(line) <= _DETAIL_CHARS else f"{line[:_DETAIL_CHARS]}…"
