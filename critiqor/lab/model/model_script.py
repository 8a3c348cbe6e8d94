"""The script of a model, request by request: text, tool calls, and every way in which a provider can fail."""

from __future__ import annotations

from itertools import takewhile
from typing import Any, Literal

import msgspec

Ending = Literal["done", "stall", "disconnect", "malformed", "unfinished", "error"]
"""How the stream of a response ends.

`done`: normally. `stall`: nothing more comes after half of it. `disconnect`: the connection is cut after half of it.
`malformed`: invalid JSON comes after half of it. `error`: an error comes after half of it. `unfinished`: it is closed
normally, but without a finish reason.
"""


class ToolUse(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One tool call of the scripted model."""

    id: str = ""
    """If empty, the model generates a unique one."""
    name: str = ""
    arguments: dict[str, Any] | str = {}
    """A string is sent as it is, whether it is JSON or not."""


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The response of the model to one request."""

    text: str = ""
    """The text of the response."""
    tools: tuple[ToolUse, ...] = ()
    """Tool calls after the text; with any, the finish reason is `tool_calls`."""
    status: int = 200
    """A status other than 200 answers with an HTTP error instead of a stream."""
    delay_s: float = 0.0
    """Seconds before the first byte."""
    input_tokens: int = 1000
    output_tokens: int = 20
    thinking: str = ""
    """Reasoning before the text."""
    error: str = ""
    """Message of an error; `scripted HTTP <status>` if empty."""
    retry_after_s: float | None = None
    """Seconds to wait before the next request, sent with an error."""
    ends: Ending = "done"
    pieces: int = 1
    """Number of pieces in which the text is streamed."""
    pause_s: float = 0.0
    """Seconds between two pieces."""
    finish: str = ""
    """Another finish reason, such as `length`."""
    branches: dict[str, Step] = {}
    """Other responses, each under a text. The first one whose text was said since the model's last response, such as
    by a tool, is given instead."""

    def for_request(self, body: dict[str, Any]) -> Step:
        """Return the response to a request: a branch, or the step itself."""
        if not self.branches:
            return self
        messages = body.get("messages") or []
        latest = takewhile(lambda message: message.get("role") != "assistant", reversed(messages))
        said = "\n".join(map(str, latest))
        return next((step for text, step in self.branches.items() if text in said), self)


class Script(msgspec.Struct, frozen=True):
    """The responses of the model to one message of a user."""

    message: str
    """The user's text. It identifies a request, whatever surrounds it and whichever session it comes from."""
    steps: tuple[Step, ...]
