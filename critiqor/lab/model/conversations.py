"""Which step of a script answers a request: each conversation is at a place of its own, told by its messages alone.

A model is asked with the whole history. Where the agent has already done something about the message that is played,
the ids of its tool calls, or how often it was answered, say which conversation it is. Where it has done nothing yet, it
is a new conversation, unless the last answer was one that an agent asks for again: an error, a cut stream, no words.

Trade-off accepted: two conversations at once about the same message, of which one is told an error, can take each
other's steps. They look the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from critiqor.lab.model.model_script import Script, Step

_MADE_UP_ID = re.compile(r"call_(\d{1,9})_\d{1,9}")


class Conversation:
    """What one agent has been told in answer to one message."""

    def __init__(self) -> None:
        self.taken = 0
        """Steps that were played."""
        self.delivered = 0
        """Those among them that are in the agent's history."""


class Place(NamedTuple):
    """A step, and what it belongs to."""

    step: Step
    message: str | None
    """The message of the script that is played; None where there is one script for everything."""
    conversation: Conversation


class Conversations:
    """All conversations that a scripted model has had."""

    def __init__(self, steps: Sequence[Step], scripts: Sequence[Script]) -> None:
        self._scripts = {script.message: list(script.steps) for script in scripts} | {None: list(steps)}
        self.clear()

    def clear(self) -> None:
        """Forget all of them."""
        self._had: dict[str | None, list[Conversation]] = {message: [] for message in self._scripts}
        self._by_request: dict[int, Conversation] = {}
        self._is_shortened = False

    def shortened(self) -> None:
        """A history is being summed up: the next one lacks what was done, and is no new conversation."""
        self._is_shortened = True

    def unplayed(self) -> dict[str | None, int]:
        """The scripts that none has played to its end, each with the number of steps that are left."""
        longest = {message: max((one.taken for one in had), default=0) for message, had in self._had.items()}
        left = {message: len(steps) - longest[message] for message, steps in self._scripts.items()}
        return {message: steps for message, steps in left.items() if steps > 0}

    def take(self, body: Mapping[str, Any], number: int) -> Place:
        """The next step for a request, which is the one of this number."""
        messages = [message for message in body.get("messages") or () if isinstance(message, dict)]
        message, after = self._script_for(messages)
        conversation = self._conversation(message, after)
        self._is_shortened = False
        self._by_request[number] = conversation
        steps = self._scripts[message]
        step = steps[min(conversation.taken, len(steps) - 1)]
        conversation.taken += 1
        return Place(step, message, conversation)

    def _script_for(self, messages: list[dict[str, Any]]) -> tuple[str | None, list[dict[str, Any]] | None]:
        """The message whose script answers, and what follows it; the one that stands last, the longest of several."""
        known = [message for message in self._scripts if message is not None]
        for place in range(len(messages) - 1, -1, -1):
            text = _said_by_user(messages[place])
            if within := [message for message in known if message in text]:
                found = max(within, key=lambda message: (text.rfind(message) + len(message), len(message)))
                return found, messages[place + 1 :]
        return None if self._scripts[None] else known[0], None

    def _conversation(self, message: str | None, after: list[dict[str, Any]] | None) -> Conversation:
        had = self._had[message]
        answers = [each for each in after or () if each.get("role") == "assistant"]
        if not had or self._is_another(had[-1], message, after, answers):
            had.append(Conversation())
            return had[-1]
        for number in _made_up_numbers(answers):
            if (known := self._by_request.get(number)) in had:
                return known
        # Those that are at this place; of several, and of none, the latest.
        return ([one for one in had if answers and one.delivered == len(answers)] or had)[-1]

    def _is_another(
        self, last: Conversation, message: str | None, after: object | None, answers: list[dict[str, Any]]
    ) -> bool:
        is_new = message is not None and after is not None and not answers
        return is_new and last.delivered > 0 and not self._is_shortened


def is_kept(step: Step) -> bool:
    """Whether an agent that is told a step has it in its history, and does not ask for the same again."""
    is_whole = step.status == 200 and step.ends == "done" and not step.finish
    return is_whole and bool(step.text or step.tools) and all(isinstance(tool.arguments, dict) for tool in step.tools)


def _made_up_numbers(answers: list[dict[str, Any]]) -> list[int]:
    """The requests that were answered with the tool calls of a history, the latest first."""
    calls = [call for answer in reversed(answers) for call in answer.get("tool_calls") or () if isinstance(call, dict)]
    return [int(found[1]) for call in calls if (found := _MADE_UP_ID.fullmatch(str(call.get("id"))))]


def _said_by_user(message: dict[str, Any]) -> str:
    if message.get("role") != "user":
        return ""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))
