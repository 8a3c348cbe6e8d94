"""What the error of an action, or a look at a list, says about whether the action took effect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from critiqor.diagnosis.results.state_words import state_of_word
from critiqor.diagnosis.signals.text import decode_json
from critiqor.spans.calls import ToolCall, command_line

MAX_VALUE = 60
"""Maximum number of characters of an argument by which a record is recognized: a longer one is a text."""
MIN_VALUE = 3
MAX_RECORDS = 500
"""Maximum number of records of a list that are compared with an action."""
_AMBIGUOUS = re.compile(
    r"time[d -]?\s?out|timeout|connection (?:reset|closed|lost|aborted)|\b(?:50[024]|408|52[0-4])\b|bad gateway"
    r"|socket hang|no (?:response|reply|answer)|(?:unknown|unclear|undetermined) (?:state|result|outcome|status)"
    r"|may (?:or may not )?have (?:been|gone|already)|might have been|ECONNRESET|EPIPE|zeitüberschreitung"
    r"|délai (?:d'attente )?dépassé|tiempo de espera|tempo (?:limite|de espera|scaduto)|przekroczono (?:limit )?czas"
    r"|тайм-?аут|время ожидания|zaman aş.m|超时|逾時|タイムアウト|시간 초과|انتهت المهلة",
    re.IGNORECASE,
)
_NOT_SENT = re.compile(
    r"refused|ECONNREFUSED|ENOTFOUND|EAI_AGAIN|could not resolve|name or service not known|no route to host|unreachable"
    r"|connect(?:ion)?[ _-]?time(?:d[ -]?out|out)|connect ETIMEDOUT|validation|invalid|(?:not|never) (?:been )?sent\b"
    r"|nothing (?:was|has been|is) \w+|no changes? (?:was|were|made)|rolled back|\b(?:4(?:0[0-79]|1\d|2\d))\b",
    re.IGNORECASE,
)
"""Errors that come before anything is done: nobody was reached, or the request was turned down."""


def is_unclear(call: ToolCall) -> bool:
    """Return whether it is unknown if a call took effect: it has no result, or was cut off on the way."""
    if call.result is None:
        return True
    error = f"{call.error} {call.output}" if call.failed else ""
    return bool(error) and _AMBIGUOUS.search(error) is not None and _NOT_SENT.search(error) is None


def shown_effects(lookup: ToolCall, action: ToolCall) -> int:
    """Return how many records in the output of a lookup have the values of an action, and have not failed."""
    if command_line(action.arguments):
        return 0
    try:
        values = {value for value in _scalars(decode_json(action.arguments)) if MIN_VALUE <= len(value) <= MAX_VALUE}
    except msgspec.DecodeError:
        return 0
    # What the lookup was asked for is in its answer whether or not something was done.
    if not values or all(value in lookup.arguments for value in values):
        return 0
    if any(value not in lookup.output for value in values):
        return 0
    return sum(values <= record and _is_effect(values, record - values) for record in _records(lookup.output))


def _is_effect(values: set[str], others: set[str]) -> bool:
    """Return whether a record with the values of an action shows its effect, and not only what it was about."""
    states = {state_of_word(value) for value in others if len(value) <= MAX_VALUE}
    if "failure" in states or "draft" in map(str.lower, others):
        return False
    return len(values) > 1 or "success" in states


def _records(output: str) -> Iterator[set[str]]:
    """Yield the values of each record of a list: of each object of a JSON answer."""
    try:
        pending = [decode_json(output)]
    except msgspec.DecodeError:
        return
    for _ in range(MAX_RECORDS):
        if not pending:
            return
        value = pending.pop()
        inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        pending += [each for each in inner if isinstance(each, (dict, list))]
        if isinstance(value, dict):
            yield set(_scalars(inner))


def _scalars(value: Any) -> list[str]:
    """Return the texts and numbers of an object or a list."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    return [str(each) for each in inner if isinstance(each, (str, int, float)) and not isinstance(each, bool)]
