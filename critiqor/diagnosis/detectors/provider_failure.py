"""`provider_failure`: model calls that failed, by cause, and whether the agent run recovered."""

from __future__ import annotations

import re
from functools import lru_cache

from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.drafts.call_costs import CallCosts
from critiqor.diagnosis.drafts.cited_events import CitedEvents
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ModelCall

TYPE = "provider_failure"
MEANING = "model calls failed"


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
_DESCRIPTIONS = {cause: words for cause, _, words in _CAUSES}
_REPORTED_ELSEWHERE = frozenset(("context", "stopped"))
"""`context_pollution` reports requests that were too large; a call that the user stopped did not fail."""
_ADVICE = {
    "auth": "Renew or correct the credentials for this provider; `openclaw models status` shows which ones are used.",
    "billing": "Check the provider account: its budget or quota is used up.",
    "rate_limit": "Send fewer requests at a time, raise the limit, or configure a fallback model.",
    "server": "Configure a fallback model: the provider had an outage.",
    "malformed": "Check the base URL and the API type in the provider's configuration.",
    "rejected": "Check the model name and the API type in the provider's configuration.",
    "network": "Check the network, the proxy and the provider's base URL.",
    "stall": "Raise the idle timeout if this model thinks for a long time; otherwise configure a fallback model.",
    "unknown": "Read the error messages of the cited events: `critiqor explain` shows them.",
}


def provider_failure_cause(call: ModelCall) -> str:
    """Return the cause that the detector of provider failures names for a model call; `unknown` if none is known."""
    return _cause_in(call.error or "", call.category)


def provider_error_cause(error: str | None) -> str:
    """Return why a provider failed a model call according to its error message."""
    return _cause_in(error or "", "")


@lru_cache(maxsize=4096)
def _cause_in(error: str, category: str) -> str:
    for text in (error, category):
        for cause, pattern in _PATTERNS:
            if pattern.search(text):
                return cause
    return "unknown"


def fatal_cause(run: AgentRun) -> str | None:
    """Return why the provider failed the last model call of a run; None if it did not fail or was stopped."""
    last = run.model_calls[-1] if run.model_calls else None
    cause = provider_failure_cause(last) if last is not None and last.failed else None
    return None if cause == "stopped" else cause


class _FailedCalls:
    """The failed model calls with one cause."""

    def __init__(self, first: ModelCall) -> None:
        self.first = first
        self.last = first
        self.calls = CallCosts()
        self.citations = CitedEvents()

    def add(self, call: ModelCall) -> None:
        self.last = call
        self.calls.add_model_call(call)
        self.citations.add(call.event_id)


class ProviderFailure(RunDetector[ModelCall]):
    """Groups the failed model calls by cause."""

    NEEDS = (ModelCall,)
    OBSERVES = (ModelCall,)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._causes: dict[str, _FailedCalls] = {}
        self._last: ModelCall | None = None

    def observe(self, span: ModelCall, /) -> None:
        self._last = span
        if span.failed:
            cause = provider_failure_cause(span)
            failed = self._causes.get(cause)
            if failed is None:
                failed = self._causes[cause] = _FailedCalls(span)
            failed.add(span)

    def findings(self) -> list[Draft]:
        reported = (cause for cause in self._causes if cause not in _REPORTED_ELSEWHERE)
        return [self._draft(cause, self._causes[cause]) for cause in reported]

    def _draft(self, cause: str, failed: _FailedCalls) -> Draft:
        calls = failed.calls
        first, last = failed.first, failed.last
        fatal = last is self._last
        severity: Severity = "high" if fatal else "low"
        end = self.run.last_end if fatal else None
        ended = (
            [CausalStep(end.event_id, "The agent run ended", "caused")]
            if end is not None and end.event_id > last.event_id
            else []
        )
        reason = _DESCRIPTIONS.get(cause, "unknown cause")
        error = excerpt(last.error or "", 200)
        return Draft(
            type=TYPE,
            about=(cause,),
            severity=severity,
            confidence=90 if cause != "unknown" else 70,
            title=f"{counted(len(calls), 'model call')} failed: {reason}"
            + ("" if fatal else "; later calls succeeded"),
            explanation=f"The provider reported: {error}" if error else "The provider gave no error message.",
            evidence=failed.citations.cited(),
            occurrences=len(calls),
            first_bad_step=first.event_id,
            chain=[
                CausalStep(first.event_id, f"The model call failed: {excerpt(first.error or reason, 80)}", None),
                *([CausalStep(last.event_id, "Tried again, failed again", "retried")] if len(calls) > 1 else []),
                *ended,
            ],
            wasted_model_calls=calls,
            scope=self.run.scope,
            recommendation=_ADVICE[cause],
            verification="Run the same task again: no model call fails for this reason.",
        )
