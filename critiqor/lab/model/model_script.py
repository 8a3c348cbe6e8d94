"""What a scripted model does, request by request: words, tool calls, and every way in which a provider can fail."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Ending = Literal["done", "stall", "disconnect", "malformed", "unfinished", "error"]
"""How the stream of an answer ends.

`done`: as it should. `stall`: in the middle nothing more comes. `disconnect`: in the middle the connection is cut.
`malformed`: in the middle comes something that is no JSON. `error`: in the middle comes an error instead of words.
`unfinished`: it is closed politely, without a finish reason.
"""


class ToolUse(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One tool call that the scripted model asks for."""

    id: str = ""
    """Left empty, the model makes one up that no other call has."""
    name: str = ""
    arguments: dict[str, Any] | str = {}
    """A text goes out as it is, whether it is JSON or not."""


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the model does when it is asked once."""

    text: str = ""
    """The words that are streamed back."""
    tools: tuple[ToolUse, ...] = ()
    """Tool calls that follow the words; with any, the finish reason is `tool_calls`."""
    status: int = 200
    """An HTTP status other than 200 answers with an error instead of a stream."""
    delay_s: float = 0.0
    """Seconds to wait before the first byte."""
    input_tokens: int = 1000
    output_tokens: int = 20
    thinking: str = ""
    """Reasoning that is streamed before the words."""
    error: str = ""
    """What an error says; `scripted HTTP <status>` where nothing is told."""
    retry_after_s: float | None = None
    """Seconds that an error asks to wait before the next request."""
    ends: Ending = "done"
    pieces: int = 1
    """In how many pieces the words come."""
    pause_s: float = 0.0
    """Seconds between two pieces."""
    finish: str = ""
    """A finish reason of its own, such as `length`."""


class Script(msgspec.Struct, frozen=True):
    """What the model does in answer to one message of a user."""

    message: str
    """What the user says: by it a request is known, whatever is around it and whichever session it comes from."""
    steps: tuple[Step, ...]


def tokens_of(step: Step) -> dict[str, int]:
    """What the answer to a request says of its usage."""
    return {
        "prompt_tokens": step.input_tokens,
        "completion_tokens": step.output_tokens,
        "total_tokens": step.input_tokens + step.output_tokens,
    }
