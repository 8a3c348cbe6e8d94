"""Which step of a script answers a request: each conversation has its own position, known from its messages alone.

A request contains the whole history. If the agent has already reacted to the message that is played, the ids of its
tool calls, or the number of responses, identify the conversation. If it has not, the conversation is a new one, unless
the last response was one that an agent asks for again: an error, a cut stream, no text.

Trade-off accepted: two parallel conversations about the same message, of which one got an error, can take each other's
steps, because their requests are equal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from critiqor.lab.model.model_script import Script, Step

_GENERATED_ID = re.compile(r"call_(\d{1,9})_\d{1,9}")


class Conversation:
    """The responses that one agent got to one message."""

    def __init__(self) -> None:
        self.taken = 0
        """Number of steps that were played."""
        self.delivered = 0
        """Number of played steps that are in the agent's history."""


class ScriptPosition(NamedTuple):
    """A step, and where it belongs."""

    step: Step
    message: str | None
    """The message of the script that is played; None if one script answers everything."""
    conversation: Conversation


class Conversations:
    """All conversations of a scripted model."""

    def __init__(self, steps: Sequence[Step], scripts: Sequence[Script]) -> None:
        self._scripts = {script.message: list(script.steps) for script in scripts} | {None: list(steps)}
        self.clear()

    def clear(self) -> None:
        """Forget all conversations."""
        self._by_message: dict[str | None, list[Conversation]] = {message: [] for message in self._scripts}
        self._by_request: dict[int, Conversation] = {}
        self._was_compacted = False

    def note_compaction(self) -> None:
        """Note that a history is summarized: the next one lacks earlier responses without being a new conversation."""
        self._was_compacted = True

    def unplayed(self) -> dict[str | None, int]:
        """Return the scripts that were never played to their end, each with the number of steps left."""
        longest = {message: max((one.taken for one in known), default=0) for message, known in self._by_message.items()}
        left = {message: len(steps) - longest[message] for message, steps in self._scripts.items()}
        return {message: steps for message, steps in left.items() if steps > 0}

    def take(self, body: Mapping[str, Any], number: int) -> ScriptPosition:
        """Return the next step for the request with this number."""
        messages = [message for message in body.get("messages") or () if isinstance(message, dict)]
        message, after = self._find_script(messages)
        conversation = self._conversation(message, after)
        self._was_compacted = False
        self._by_request[number] = conversation
        steps = self._scripts[message]
        step = steps[min(conversation.taken, len(steps) - 1)]
        conversation.taken += 1
        return ScriptPosition(step, message, conversation)

    def _find_script(self, messages: list[dict[str, Any]]) -> tuple[str | None, list[dict[str, Any]] | None]:
        """Return the message of the script that answers, and the messages of the request after it.

        The last user message that contains one counts; if it contains several, the one that ends last.
        """
        known = [message for message in self._scripts if message is not None]
        for place in range(len(messages) - 1, -1, -1):
            text = _user_text(messages[place])
            if within := [message for message in known if message in text]:
                found = max(within, key=lambda message: (text.rfind(message) + len(message), len(message)))
                return found, messages[place + 1 :]
        return None if self._scripts[None] else known[0], None

    def _conversation(self, message: str | None, after: list[dict[str, Any]] | None) -> Conversation:
        known = self._by_message[message]
        responses = [each for each in after or () if each.get("role") == "assistant"]
        if not known or self._is_new(known[-1], message, after, responses):
            known.append(Conversation())
            return known[-1]
        for number in _generated_numbers(responses):
            if (conversation := self._by_request.get(number)) in known:
                return conversation
        # The conversation at this position: the latest if there are several, or the latest of all if there is none.
        return ([one for one in known if responses and one.delivered == len(responses)] or known)[-1]

    def _is_new(
        self, last: Conversation, message: str | None, after: object | None, responses: list[dict[str, Any]]
    ) -> bool:
        has_no_reaction = message is not None and after is not None and not responses
        return has_no_reaction and last.delivered > 0 and not self._was_compacted


def is_kept(step: Step) -> bool:
    """Return whether the response of a step stays in the conversation, instead of the request being repeated."""
    is_complete = step.status == 200 and step.ends == "done" and not step.finish
    has_content = bool(step.text or step.tools)
    return is_complete and has_content and all(isinstance(tool.arguments, dict) for tool in step.tools)


def _generated_numbers(responses: list[dict[str, Any]]) -> list[int]:
    """Return the numbers of the requests that were answered with the tool calls of a history, the latest first."""
    calls = [call for each in reversed(responses) for call in each.get("tool_calls") or () if isinstance(call, dict)]
    return [int(found[1]) for call in calls if (found := _GENERATED_ID.fullmatch(str(call.get("id"))))]


def _user_text(message: dict[str, Any]) -> str:
    if message.get("role") != "user":
        return ""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))
