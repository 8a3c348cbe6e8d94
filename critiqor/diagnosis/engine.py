"""A first, plain diagnosis: it reports failures that the evidence states outright, and claims nothing beyond them.

Every lost point of trust belongs to a finding. Damage to the collector lowers confidence, never trust; and where the
agent was not observed there is no trust score at all.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import msgspec

from critiqor.model import Coverage, Diagnosis, Event, EventType, Finding, Outcome, PrimaryDiagnosis
from critiqor.model.diagnosis import Readiness, Severity
from critiqor.model.event import recovered_usage

ENGINE_VERSION = "0.1.0"
MOST_CITED = 20
_WEIGHT: dict[Severity, int] = {"critical": 50, "high": 30, "medium": 15, "low": 5, "info": 0}
_RANK: list[Severity] = ["critical", "high", "medium", "low", "info"]


class Examination:
    """Sees every event once, then concludes."""

    def __init__(self) -> None:
        self._tool_errors: list[str] = []
        self._tool_error_count = 0
        self._last_tool_failed: dict[str | None, bool] = {}
        self._provider_errors: list[str] = []
        self._provider_error_count = 0
        self._last_model_call_failed: dict[str | None, bool] = {}
        self._process_errors: list[Event] = []
        self._process_start: str | None = None
        self._process_end: Event | None = None
        self._blindness: str | None = None
        self._failed_ends: dict[str | None, Event] = {}
        self._tool_calls = 0
        self._costs = _Costs()

    def observe(self, event: Event) -> None:
        kind = event.event_type
        if kind == EventType.TOOL_CALL:
            self._tool_calls += 1
        elif kind == EventType.TOOL_OUTPUT:
            failed = event.status == "error"
            self._last_tool_failed[event.agent_run_id] = failed
            if failed:
                self._tool_error_count += 1
                _cite(self._tool_errors, event)
        elif kind == EventType.TOKEN_USAGE:
            self._costs.add(event)
            failed = event.status == "error"
            self._last_model_call_failed[event.agent_run_id] = failed
            if failed:
                self._provider_error_count += 1
                _cite(self._provider_errors, event)
        elif kind == "agent_end":
            self._observe_end(event)
        elif event.source_layer == "supervisor":
            self._observe_process(event)

    def _observe_end(self, event: Event) -> None:
        # An agent that fails is often tried again, so only its last word counts.
        self._failed_ends.pop(event.agent_run_id, None)
        if event.status == "error":
            self._failed_ends[event.agent_run_id] = event
        for usage in recovered_usage(event):
            self._costs.recover(usage)

    def _observe_process(self, event: Event) -> None:
        if event.event_type == EventType.PROCESS_START:
            self._process_start = event.event_id
        elif event.event_type == EventType.PROCESS_END:
            self._process_end = event
        elif event.event_type == EventType.ERROR:
            if event.payload.get("reason") == "recorder_not_attached":
                self._blindness = event.error
            else:
                self._process_errors.append(event)

    def conclude(self, run_id: str, evidence_digest: str, coverage: Coverage, generated_at: str) -> Diagnosis:
        """The diagnosis of everything observed."""
        findings = self._findings(coverage)
        observed = coverage.agent_events > 0
        trust = max(0, 100 - sum(finding.impact for finding in findings)) if observed else None
        confidence = _confidence(coverage) if observed else 0
        worst = findings[0] if findings else None
        primary = PrimaryDiagnosis(worst.type, worst.id, worst.severity, worst.title) if worst else None
        return Diagnosis(
            run_id=run_id,
            generated_at=generated_at,
            engine_version=ENGINE_VERSION,
            evidence_digest=evidence_digest,
            outcome=self._outcome(),
            trust_score=trust,
            confidence_score=confidence,
            readiness=_readiness(trust, confidence, findings),
            primary_diagnosis=primary,
            failure_analysis={"findings": findings},
            causal_graph={"nodes": [], "edges": []},
            cost_analysis=self._costs.summary(self._tool_calls),
            headline=worst.title if worst else "No failure is stated by the evidence.",
        )

    def _outcome(self) -> Outcome:
        reasons = [str(event.payload.get("reason")) for event in self._process_errors]
        for reason, state in (
            ("timeout", "timed_out"),
            ("interrupted", "interrupted"),
            ("launch_failed", "failed"),
            ("os_error", "failed"),
            ("nonzero_exit", "failed"),
        ):
            if reason in reasons:
                return Outcome(state, "what the supervisor saw of the process")
        if self._process_end is not None:
            exit_code = self._process_end.payload.get("exit_code")
            state = "completed" if exit_code == 0 else "failed"
            return Outcome(state, f"the process ended with exit code {exit_code}")
        if self._process_start is not None:
            return Outcome("still_running", "no end of the process was seen")
        return Outcome("unknown", "no process was supervised")

    def _findings(self, coverage: Coverage) -> list[Finding]:
        found: list[Finding] = []
        if coverage.agent_events == 0:
            found.append(
                _finding(
                    "inspection_incomplete",
                    "high",
                    "The agent was not observed",
                    self._blindness or coverage.notes[0],
                    [self._process_start] if self._process_start else [],
                    "Run `critiqor doctor --probe`, then record again.",
                    impact=0,
                )
            )
        for event in self._process_errors:
            found.append(_process_finding(event))
        if self._provider_error_count:
            unrecovered = any(self._last_model_call_failed.values())
            found.append(
                _finding(
                    "provider_failure",
                    "high" if unrecovered else "low",
                    f"{_times(self._provider_error_count, 'model call')} failed"
                    + ("" if unrecovered else ", later ones succeeded"),
                    "The model provider answered with an error; what it said is in the cited events.",
                    self._provider_errors,
                    "Look at the error of each cited event: credentials, rate limit or provider outage.",
                )
            )
        unexplained = [end for run, end in self._failed_ends.items() if not self._last_model_call_failed.get(run)]
        if unexplained:
            found.append(
                _finding(
                    "agent_failure",
                    "high",
                    f"{_times(len(unexplained), 'agent run')} ended in an error",
                    f"The last of them: {unexplained[-1].error}",
                    [end.event_id for end in unexplained[:MOST_CITED]],
                    "Read what came before the cited events.",
                )
            )
        if self._tool_error_count:
            last_failed = any(self._last_tool_failed.values())
            found.append(
                _finding(
                    "tool_error",
                    "medium" if last_failed else "low",
                    f"{_times(self._tool_error_count, 'tool call')} failed"
                    + (", and nothing succeeded after the last one" if last_failed else ""),
                    "Whether the agent repaired this or noticed it at all is not judged here.",
                    self._tool_errors,
                    "Read the cited results, and compare them with what the agent says it did.",
                )
            )
        if coverage.calls_without_results:
            found.append(
                _finding(
                    "tool_misuse",
                    "medium",
                    f"{_times(coverage.calls_without_results, 'tool call')} never got a result",
                    "A call was made and its end was not seen: it hung, or the process ended before it.",
                    [call.event_id for call in coverage.open_calls],
                    "See what the process was doing when it ended.",
                )
            )
        ordered = sorted(found, key=lambda finding: _RANK.index(finding.severity))
        return [_numbered(finding, number) for number, finding in enumerate(ordered, 1)]


class _Costs:
    """Tokens and money, as the provider reported them; what was not reported is unknown, not nothing."""

    def __init__(self) -> None:
        self._calls = 0
        self._without_usage = 0
        self._tokens = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        self._money = 0.0
        self._priced = False

    def add(self, event: Event) -> None:
        self._calls += 1
        usage = event.payload.get("usage")
        if isinstance(usage, dict):
            self._add(usage)
        else:
            self._without_usage += event.status == "ok"

    def recover(self, usage: dict[str, Any]) -> None:
        """Usage that was told only at the end of the run."""
        self._without_usage -= 1
        self._add(usage)

    def _add(self, usage: dict[str, Any]) -> None:
        for name in self._tokens:
            self._tokens[name] += _number(usage.get(name))
        cost = usage.get("cost")
        total = cost.get("total") if isinstance(cost, dict) else None
        if _is_plausible(total):
            self._money += total
            self._priced = True

    def summary(self, tool_calls: int) -> dict[str, Any]:
        return {
            "model_calls": self._calls,
            "model_calls_without_usage": self._without_usage,
            "tool_calls": tool_calls,
            "input_tokens": self._tokens["input"],
            "output_tokens": self._tokens["output"],
            "cache_read_tokens": self._tokens["cacheRead"],
            "cache_write_tokens": self._tokens["cacheWrite"],
            "cost_usd": round(self._money, 6) if self._priced else None,
        }


def _is_plausible(value: object) -> TypeGuard[int | float]:
    """Whether a provider can have meant this: it reports what it likes, and sums must stay numbers."""
    return isinstance(value, int | float) and 0 <= value < 1 << 53


def _number(value: object) -> int:
    return int(value) if _is_plausible(value) else 0


def _cite(events: list[str], event: Event) -> None:
    if len(events) < MOST_CITED:
        events.append(event.event_id)


def _times(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _process_finding(event: Event) -> Finding:
    severity: Severity = "medium" if event.payload.get("reason") == "interrupted" else "high"
    kind = "timeout" if event.payload.get("reason") == "timeout" else "process_failure"
    error = event.error or "the process did not end well"
    title = f"OpenClaw: {error}"
    explanation = "Seen by the supervisor, not reported by the agent."
    return _finding(
        kind, severity, title, explanation, [event.event_id], "See the last events before it in the evidence."
    )


def _finding(
    kind: str,
    severity: Severity,
    title: str,
    explanation: str,
    evidence: list[str],
    recommendation: str,
    *,
    impact: int | None = None,
) -> Finding:
    return Finding(
        id="",
        type=kind,
        severity=severity,
        title=title,
        explanation=explanation,
        evidence=evidence,
        impact=_WEIGHT[severity] if impact is None else impact,
        recommendation=recommendation,
    )


def _numbered(finding: Finding, number: int) -> Finding:
    return msgspec.structs.replace(finding, id=f"finding_{number:03d}")


def _confidence(coverage: Coverage) -> int:
    """100 less what the recorder is known to have missed."""
    score = 100
    if not coverage.sources.get("hooks"):
        score -= 10  # streams carry every call, but not the size and budget of requests
    lost = coverage.damaged_records + coverage.missing_records
    score -= min(50, 2 * lost)
    score -= min(20, 5 * coverage.requests_without_responses)
    score -= 10 if coverage.sealed_while_running else 0
    score -= 5 if coverage.values_cut else 0
    return max(0, score)


def _readiness(trust: int | None, confidence: int, findings: list[Finding]) -> Readiness:
    if trust is None or confidence < 50:
        return "unknown"
    if any(finding.severity in ("critical", "high") for finding in findings) or trust < 50:
        return "unsafe"
    return "review" if findings else "ready"
