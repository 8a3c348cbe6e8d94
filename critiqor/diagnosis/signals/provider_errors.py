"""Error messages of model providers: why a model call failed."""

from __future__ import annotations

import re
from functools import lru_cache

from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ModelCall


def _status(codes: str) -> str:
    """Return a pattern for HTTP status codes that does not match numbers of tokens, bytes or milliseconds."""
    return rf"(?<![\d.,])(?:{codes})(?![\d.,]*\d|\s?(?:ms|s|sec|seconds|tokens?|bytes|[kmg]b)\b)"


# The first match counts. The provider's message has precedence over the category, because OpenClaw classifies an HTTP
# 500 as a timeout.
_CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        "context",
        r"context.{0,3}(?:length|window|limit|size)|maximum context|too many tokens(?!.{0,3}please wait)"
        rf"|prompt is too long|input is too long|{_status('413')}",
        "the request was too large",
    ),
    (
        "auth",
        rf"{_status('401|403')}|unauthori[sz]ed|authenticat|invalid.{{0,12}}api.?key|no api.?key|forbidden|\bauth\b",
        "authentication failed",
    ),
    (
        "billing",
        rf"{_status('402')}|billing|quota|\bcredits?\b|insufficient (?:funds|balance)",
        "the account's quota is used up",
    ),
    ("rate_limit", rf"{_status('429')}|rate.?limit|too many (?:requests|tokens)|throttl", "rate limit"),
    ("server", rf"{_status('5[0-9][0-9]')}|overloaded|server.?error|unavailable|bad gateway", "server error"),
    (
        "malformed",
        r"malformed|pars(?:e|ing)|invalid json|unexpected (?:token|end)|empty (?:response|stream|content)",
        "malformed response",
    ),
    (
        "rejected",
        rf"{_status('400|404|405|409|415|422')}|(?:bad|invalid).{{0,3}}request|model.{{0,40}}not.{{0,3}}(?:found|exist)"
        r"|content.?(?:filter|policy)",
        "the request was rejected",
    ),
    ("network", r"econn|enotfound|network|connection|socket|\bdns\b|fetch failed|terminated", "connection error"),
    ("stall", r"stall|idle|time.?out|timed out|did not (?:respond|answer)", "no response in time"),
    ("stopped", r"abort|cancell?ed", "the call was stopped"),
)
_PATTERNS = tuple((cause, re.compile(pattern, re.IGNORECASE)) for cause, pattern, _ in _CAUSES)
CAUSE_DESCRIPTIONS = {cause: words for cause, _, words in _CAUSES}
"""What each cause means, for a sentence."""


def provider_failure_cause(call: ModelCall) -> str:
    """Return the cause of a failed model call by the error of its provider; `unknown` if none is known."""
    return _cause_in(call.error or "", call.category)


def provider_error_cause(error: str | None) -> str:
    """Return the cause that an error message of a provider names; `unknown` if it names none."""
    return _cause_in(error or "", "")


@lru_cache(maxsize=4096)
def _cause_in(error: str, category: str) -> str:
    for text in (error, category):
        for cause, pattern in _PATTERNS:
            if pattern.search(text):
                return cause
    return "unknown"


def fatal_cause(run: AgentRun) -> str | None:
    """Return the cause of the provider error that ended a run, at its last model call; None if there was none."""
    last = run.model_calls[-1] if run.model_calls else None
    cause = provider_failure_cause(last) if last is not None and last.failed else None
    return None if cause == "stopped" else cause
