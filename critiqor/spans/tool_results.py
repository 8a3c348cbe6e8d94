"""What a tool result means: failure or not and why, exit code and first text.

The recorder plugin applies the same rules (`toolFailure` in its `events.js`), so that a run is
judged in the same way whether it was recorded by the plugin, recorded by the embedded loop or imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

NO_REASON = "no error message was given"
"""The error text of a failure that gives no reason."""
_FAILED_STATUSES = frozenset(("error", "failed", "timeout"))
CHILD_SESSION = re.compile(r"agent:[\w.-]+:(?:subagent|acp):[\w.-]+")
"""The session key of a subagent, in the result of the call that started it."""


class ToolOutcome(NamedTuple):
    """How a tool call ended."""

    failure: str | None
    """Why it counts as a failure; None if it succeeded."""
    exit_code: int | None
    """Exit code of its command; None if it ran no command."""


def tool_outcome(
    result: Any, *, error: Any = None, is_error: bool = False, reported_exit_code: Any = None
) -> ToolOutcome:
    """Return how a tool call ended.

    `error`, `is_error` and `reported_exit_code` are what was reported beside the result. OpenClaw does not treat a
    non-zero exit code as an error, but it decides whether tests passed, so it counts as a failure here.
    """
    details = result_details(result)
    code = details.get("exitCode")
    code = reported_exit_code if code is None else code
    code = code if isinstance(code, int) and not isinstance(code, bool) else None
    return ToolOutcome(_failure(result, error, is_error, code), code)


def _failure(result: Any, error: Any, is_error: bool, code: int | None) -> str | None:
    details = result_details(result)
    if error:
        return error_text({"error": error})
    if is_error:
        return error_text({"error": details.get("error"), "result": result})
    if code:
        return f"exit code {code}"
    signal, status = details.get("exitSignal"), details.get("status")
    if isinstance(signal, str) and signal:
        return f"ended by {signal}"
    if details.get("timedOut") is True or details.get("noOutputTimedOut") is True:
        return "timed out"
    if isinstance(status, str) and status in _FAILED_STATUSES:
        return error_text({"error": details.get("error"), "result": result})
    return None


REPORTED_FAILURE = "\n\n[error] tool reported failure"
"""What Harbor's converter of Claude Code adds to the text of a failed tool call."""
_EXIT_CODE = re.compile(
    r"\A(?:Error: )?Exit code:? (-?\d{1,10})(?=\s|\Z)"  # Claude Code, Codex
    r"|\A<returncode>(-?\d{1,10})</returncode>"  # mini-swe-agent
    r"|^\[?(?:The command completed|Command finished) with exit code (-?\d{1,10})\.?\]?\s*\Z"  # OpenHands
    r"|^Exit Code: (-?\d{1,10})(?=\s*$)"  # Gemini CLI
    r"|^\(?(?:Command|Process) exited with code (-?\d{1,10})\b",  # OpenClaw, Codex
    re.MULTILINE,
)
_MARGIN = 600
"""A note about the end of a command is among the first or the last characters of a result."""
_WRAPPED_ERROR = re.compile(r"\A\s*<tool_use_error>(.*?)(?:</tool_use_error>\s*)?\Z", re.DOTALL)


def text_outcome(text: str, *, is_error: bool = False) -> ToolOutcome:
    """Return how a tool call ended whose result is only a text, as far as the text says so.

    `is_error` is what was reported beside the text. A command that prints the exit code of another one is not
    recognized, because agents write their notes at the beginning or the end.
    """
    is_error = is_error or text.endswith(REPORTED_FAILURE)
    content = text.removesuffix(REPORTED_FAILURE)
    code = _stated_code(content)
    if code:
        return ToolOutcome(f"exit code {code}", code)
    if wrapped := _WRAPPED_ERROR.match(content):
        return ToolOutcome(wrapped[1].strip() or NO_REASON, code)
    return ToolOutcome((content.strip() or NO_REASON) if is_error else None, code)


def _stated_code(text: str) -> int | None:
    margins = (text,) if len(text) <= 2 * _MARGIN else (text[:_MARGIN], text[-_MARGIN:])
    found = next((found for margin in margins if (found := _EXIT_CODE.search(margin))), None)
    return None if found is None else int(next(group for group in found.groups() if group is not None))


def error_text(facts: Mapping[str, Any]) -> str:
    """Return the error message of an event: from `error`, `errorMessage`, `message` or the text of its `result`."""
    for name in ("error", "errorMessage", "message"):
        if text := error_message(facts.get(name)):
            return text
    return result_text(facts.get("result")) or NO_REASON


def error_message(error: Any) -> str | None:
    """Return the message of a reported error: a text, an exception or an object; None if it has none."""
    if isinstance(error, BaseException):
        error = str(error)
    elif isinstance(error, Mapping):
        error = error.get("message")
    return error if isinstance(error, str) and error else None


def result_details(result: Any) -> Mapping[str, Any]:
    """Return the `details` of a tool result; empty if it has none."""
    details = result.get("details") if isinstance(result, Mapping) else None
    return details if isinstance(details, Mapping) else {}


def result_text(result: Any) -> str | None:
    """Return the first non-empty text of a tool result."""
    if isinstance(result, str):
        return result or None
    content = result.get("content") if isinstance(result, Mapping) else result
    for part in content if isinstance(content, list) else ():
        text = part.get("text") if isinstance(part, Mapping) else None
        if isinstance(text, str) and text:
            return text
    return None
