"""What the result of a tool call shows, as far as detectors compare it: failure, cause, nothing found, an echo."""

from __future__ import annotations

import re
from functools import lru_cache

from critiqor.diagnosis.collections.fingerprints import fingerprint
from critiqor.diagnosis.loops.settled import reported_state
from critiqor.diagnosis.results.command_results import is_result_an_answer
from critiqor.diagnosis.results.exit_codes import stated_code
from critiqor.diagnosis.results.meaning import meaning_of
from critiqor.diagnosis.signals.causes import MAX_EXAMINED, cause_of_failure
from critiqor.diagnosis.signals.errors import error_kind, failure_kind, failure_reason
from critiqor.diagnosis.signals.fast_patterns import pattern_check
from critiqor.diagnosis.signals.noise import MAX_COMPARED
from critiqor.diagnosis.signals.outputs import finds_nothing, is_echo, missed_names, printed_lines
from critiqor.diagnosis.signals.tool_calls import runs_commands
from critiqor.model import Event
from critiqor.model.sanitize import excerpt
from critiqor.spans.calls import Kind, Listing, ToolCall, command_line
from critiqor.spans.tool_results import result_details

MAX_LISTED = 4_000
"""Maximum number of characters of a list that may show whether a failed action took effect."""
MAX_OUTPUT = 400
"""Maximum number of characters that are kept of an output."""
MAX_STATE = 2000
"""Maximum number of characters of an output that tells a state."""
MAX_HANDLE_TEXT = 200
"""Maximum number of characters of an output that names what was started."""
MAX_HANDLES = 4
"""Maximum number of such names."""
_HANDLE = re.compile(r"(?<![\w.-])(?=[\w-]*\d)[A-Za-z]*[\w-]{3,63}(?![\w-]|\.\d)")
_TOKENS = re.compile(
    r'"(?:total_?)?tokens(?:_?used)?"\s*:\s*(\d{1,12})|(?:usage|used|spent|cost)\W{1,3}(\d[\d,]{3,14}) tokens',
    re.IGNORECASE,
)
_PAGED = re.compile(r'"(?:page|cursor|offset|query|q|search)":')
_READING = frozenset((Kind.LOOKUP, Kind.WAIT))
_SEARCH = re.compile(r"search|find|list|query|lookup|fetch|browse|get|reviews|items|page", re.IGNORECASE)
_ASKING = frozenset((Kind.LOOKUP, Kind.WAIT, Kind.COMMAND, Kind.OTHER))
_SEARCHING = frozenset((Kind.LOOKUP, Kind.COMMAND, Kind.WAIT))
_EFFECTS = frozenset((Kind.CHANGE, Kind.ACTION, Kind.COMMAND, Kind.OTHER))
_WRITES = frozenset((Kind.CHANGE, Kind.ACTION))
_may_say_failure = pattern_check(
    *(
        "error",
        "fail",
        "denied",
        "refused",
        "reject",
        "declin",
        "invalid",
        "expired",
        "unauthor",
        "forbidden",
        "cannot",
    ),
    *("not found", "no such", "unable", "exceeded", "timeout", "timed out", "unavailable", "overload", r"\b[45]\d\d\b"),
)
_SLEEPS = re.compile(r"\bsleep \d")
_ENDED_ON_REQUEST = re.compile(r"^(?:Termination requested for|Killed) session|stopped by request")


@lru_cache(maxsize=512)
def _may_search(tool: str) -> bool:
    return _SEARCH.search(tool) is not None


def describe_search(call: ToolCall, text: str) -> None:
    """Describe a call that looks for something: set what it found."""
    if call.kind in _SEARCHING:
        call.nothing_found = _found_nothing(call, text)
        call.missed = missed_names(text, call.arguments)
        call.echo = is_echo(text, call.arguments)


def describe_answer(call: ToolCall, text: str) -> None:
    """Add to the description of a call what later ones are compared with: hits, a final state, what it started."""
    if call.kind is Kind.LOOKUP:
        # A program that answers with JSON asks a service.
        lists = _may_search(call.tool) or text[:1] in ("{", "[")
    else:
        lists = "browser" in call.tool or (call.kind is Kind.OTHER and _PAGED.search(call.arguments) is not None)
    if lists and len(text) <= MAX_COMPARED and not call.tool.startswith("memory_"):
        call.listing = Listing(text)
    if len(text) <= MAX_STATE and "okens" in text:
        spent = (one or other for one, other in _TOKENS.findall(text))
        call.spent_tokens = max((int(number.replace(",", "")) for number in spent), default=0)
    if call.kind in _ASKING and len(text) <= MAX_STATE:
        state = reported_state(text, is_report=call.kind in _READING)
        call.settled, call.is_pending = state.settled, state.is_pending
    if call.kind in _EFFECTS and len(text) <= MAX_HANDLE_TEXT and not call.failed:
        call.handles = tuple(dict.fromkeys(_HANDLE.findall(text)))[:MAX_HANDLES]
        if call.handles:
            call.bare_output = fingerprint(_HANDLE.sub("#", text))


def describe_failure(call: ToolCall, error: str, text: str) -> None:
    """Describe why a call failed: as reported, or because its output says so although it was not reported."""
    if call.failed:
        call.error = excerpt(failure_reason(error, text), MAX_OUTPUT)
        call.error_kind = failure_kind(error, text)
        both = text if error in text else f"{error}\n{text}"
        call.cause = cause_of_failure(both, writes=call.kind in _WRITES)
    elif len(text) <= MAX_EXAMINED and _may_say_failure(text.lower()) and not _is_answer(call):
        complaints = _complaints(call, text)
        call.cause = cause_of_failure(complaints, writes=call.kind in _WRITES) if complaints else ""
        if said := complaints if call.cause else _said_failure(call, text):
            call.says_failure = True
            call.cause = call.cause or cause_of_failure(text, writes=call.kind in _WRITES)
            call.error, call.error_kind = excerpt(said, MAX_OUTPUT), error_kind(said)
            call.output = excerpt(text, MAX_OUTPUT)


def _is_answer(call: ToolCall) -> bool:
    """Return whether a bad word in an output is an answer: nothing is there, or what is watched is in a bad state."""
    is_watching = call.kind is Kind.WAIT or _SLEEPS.search(command_line(call.arguments)) is not None
    return call.nothing_found or bool(call.missed or call.settled) or is_watching


def _said_failure(call: ToolCall, text: str) -> str:
    """Return what an output says about the failure of its call; empty if it says nothing of the kind."""
    arguments = call.arguments
    meaning = meaning_of(tool=call.tool, arguments=arguments, text=text, exit_code=None, reported_failure=False)
    # What was looked at may be in a bad state: that is the answer of a lookup that succeeded.
    is_state = meaning.rule == "json_state" and call.kind in _READING
    return (meaning.quote or meaning.reason) if meaning.state == "failure" and not is_state else ""


def _complaints(call: ToolCall, text: str) -> str:
    """Return the lines that begin with the name of a program of the command line: a pipe hides its exit code."""
    line = command_line(call.arguments)
    if not line:
        return ""
    programs = {word.rpartition("/")[2] for word in line.split()}
    return "\n".join(each for each in text.splitlines() if each.partition(":")[0] in programs)


def exit_code_of(event: Event) -> int | None:
    """Return the exit code of a tool call, which was recorded with its result."""
    code = event.payload.get("exit_code")
    if code is None:
        code = result_details(event.payload.get("result")).get("exitCode")
    if code is None and event.error is not None and (stated := stated_code(event.error)) is not None:
        code = stated[0]
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def is_expected_failure(tool: str, arguments: str, code: int | None, output: str) -> bool:
    """Return whether a call is described as a normal one although it failed: no match, or a stopped process."""
    if not runs_commands(tool):
        return False
    if code is None and (stated := stated_code(output)) is not None:
        code = stated[0]
    if code is not None and is_result_an_answer(command_line(arguments), code):
        return True
    return _ENDED_ON_REQUEST.search(output) is not None


def _found_nothing(call: ToolCall, output: str) -> bool:
    """Return whether a search found nothing. A command without output has succeeded and does not count."""
    if call.kind is Kind.COMMAND:
        return finds_nothing(output, silence=False)
    is_silent = len(output) < MAX_OUTPUT and runs_commands(call.tool) and not printed_lines(output)
    return finds_nothing(output) or is_silent
