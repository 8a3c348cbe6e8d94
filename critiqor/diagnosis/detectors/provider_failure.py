"""`provider_failure`: model calls that failed, by cause, and whether the run got over it."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import lru_cache

from critiqor.diagnosis.draft import Draft, cite
from critiqor.model import CausalStep, Severity
from critiqor.model.formatting import counted
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import ModelCall

TYPE = "provider_failure"


def _status(codes: str) -> str:
    """An HTTP status, and not so many tokens or milliseconds."""
    return rf"(?<![\d.,])(?:{codes})(?![\d.,]*\d|\s?(?:ms|s|sec|seconds|tokens?|bytes|[kmg]b)\b)"


# What the provider said outranks how it was classified: OpenClaw calls an HTTP 500 a timeout. The first match counts.
_CAUSES: tuple[tuple[str, str, str], ...] = (
    (
        "context",
        r"context.{0,3}(?:length|window|limit|size)|maximum context|too many tokens(?!.{0,3}please wait)"
        rf"|prompt is too long|input is too long|{_status('413')}",
        "the size of the request",
    ),
    (
        "auth",
        rf"{_status('401|403')}|unauthori[sz]ed|authenticat|invalid.{{0,12}}api.?key|no api.?key|forbidden|\bauth\b",
        "credentials",
    ),
    (
        "billing",
        rf"{_status('402')}|billing|quota|\bcredits?\b|insufficient (?:funds|balance)",
        "the account's budget",
    ),
    ("rate_limit", rf"{_status('429')}|rate.?limit|too many (?:requests|tokens)|throttl", "the rate limit"),
    ("server", rf"{_status('5[0-9][0-9]')}|overloaded|server.?error|unavailable|bad gateway", "the provider's servers"),
    (
        "malformed",
        r"malformed|pars(?:e|ing)|invalid json|unexpected (?:token|end)|empty (?:response|stream|content)",
        "its answer",
    ),
    (
        "rejected",
        rf"{_status('400|404|405|409|415|422')}|(?:bad|invalid).{{0,3}}request|model.{{0,40}}not.{{0,3}}(?:found|exist)"
        r"|content.?(?:filter|policy)",
        "what was asked of it",
    ),
    ("network", r"econn|enotfound|network|connection|socket|\bdns\b|fetch failed|terminated", "the connection"),
    ("stall", r"stall|idle|time.?out|timed out|did not (?:respond|answer)", "its silence"),
    ("stopped", r"abort|cancell?ed", "somebody who stopped it"),
)
_PATTERNS = tuple((cause, re.compile(pattern, re.IGNORECASE)) for cause, pattern, _ in _CAUSES)
_WORDS = {cause: words for cause, _, words in _CAUSES}
_TOLD_ELSEWHERE = frozenset(("context", "stopped"))
"""What the window refused is told by `context_pollution`; a call that somebody stopped did not fail."""
_ADVICE = {
    "auth": "Renew or correct the credentials of this provider: `openclaw models status` shows which are used.",
    "billing": "Look at the account of this provider: its budget or quota is used up.",
    "rate_limit": "Send fewer requests at a time, raise the limit, or configure a second model to fall back to.",
    "server": "Configure a second model to fall back to; the provider had an outage.",
    "malformed": "Check the address and the kind of API in the provider's configuration.",
    "rejected": "Check the name of the model and the kind of API in the provider's configuration.",
    "network": "Check the network, the proxy and the address of the provider.",
    "stall": "Raise the idle timeout if the model is known to think long, else configure a second model to fall "
    "back to.",
    "unknown": "Look at the error of each cited event.",
}


def cause_of(call: ModelCall) -> str:
    """Why a model call failed: one of the causes above, or `unknown`."""
    return _cause_in(call.error or "", call.category)


@lru_cache(maxsize=4096)
def _cause_in(error: str, category: str) -> str:
    for text in (error, category):
        for cause, pattern in _PATTERNS:
            if pattern.search(text):
                return cause
    return "unknown"


def fatal_cause(run: AgentRun) -> str | None:
    """Why the last model call of a run failed; None where it did not, or where somebody stopped it."""
    last = run.model_calls[-1] if run.model_calls else None
    cause = cause_of(last) if last is not None and last.failed else None
    return None if cause == "stopped" else cause


def detect(run: AgentRun) -> list[Draft]:
    """Failed model calls of one agent run, by cause."""
    causes: dict[str, list[ModelCall]] = defaultdict(list)
    for call in run.model_calls:
        if call.failed:
            causes[cause_of(call)].append(call)
    return [_draft(run, cause, calls) for cause, calls in causes.items() if cause not in _TOLD_ELSEWHERE]


def _draft(run: AgentRun, cause: str, calls: list[ModelCall]) -> Draft:
    last = calls[-1]
    fatal = run.model_calls[-1] is last
    severity: Severity = "high" if fatal else "low"
    about = _WORDS.get(cause, "an unknown cause")
    end = run.last_end
    ended = (
        [CausalStep(end.event_id, "the run ended", "caused")]
        if fatal and end is not None and end.event_id > last.event_id
        else []
    )
    return Draft(
        type=TYPE,
        about=(cause,),
        severity=severity,
        confidence=90 if cause != "unknown" else 70,
        title=f"{counted(len(calls), 'model call')} failed because of {about}" + ("" if fatal else ", then it worked"),
        explanation=f"The provider said: {excerpt(last.error or 'nothing', 200)}",
        evidence=cite(call.event_id for call in calls),
        occurrences=len(calls),
        first_bad_step=calls[0].event_id,
        chain=[
            CausalStep(calls[0].event_id, f"the model call failed: {excerpt(calls[0].error or '', 80)}", None),
            *([CausalStep(last.event_id, "tried again, and failed again", "retried")] if len(calls) > 1 else []),
            *ended,
        ],
        wasted_calls=calls,
        explains=frozenset(call.event_id for call in calls),
        scope=run.scope,
        recommendation=_ADVICE[cause],
        verification="Run the same task again: no model call fails for this reason.",
    )
