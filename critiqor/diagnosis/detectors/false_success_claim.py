"""`false_success_claim`: the agent claimed success, but the recorded calls contradict it or do not support it."""

from __future__ import annotations

import re
from typing import NamedTuple

from critiqor.diagnosis.claims.assertions import asks_for
from critiqor.diagnosis.detector import RunDetector
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.signals.errors import reports_absence, reports_already_done
from critiqor.model import CausalStep, Severity
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Claim, Kind, Message, Moment, ToolCall

TYPE = "false_success_claim"
MEANING = "the agent claimed success, but the recorded calls contradict it or do not support it"
MAX_REPORT_CHARACTERS = 1000
"""Maximum number of characters of a report; a longer answer without any tool call is the requested work itself."""
MAX_DONE_CHARACTERS = 20
"""Maximum number of characters of an answer that only says that the task is done."""
_EFFECTS = (Kind.CHANGE, Kind.ACTION, Kind.COMMAND, Kind.OTHER)
_FAILED_TESTS = re.compile(r"\b(\d+) (?:failed|failing|failures?)\b|\b(?:failures|failed)[=:] ?(\d+)", re.IGNORECASE)


class _SupportingCalls:
    """The tool calls before a claim that can support or contradict it."""

    def __init__(self) -> None:
        self.last_test: ToolCall | None = None
        self.last_effect: ToolCall | None = None
        # Lists and not sets, because comparing an enumeration member is faster than hashing it.
        self.tried: list[Kind] = []
        self.worked: list[Kind] = []

    def add(self, call: ToolCall) -> None:
        if call.kind not in self.tried:
            self.tried.append(call.kind)
        if call.is_test:
            self.last_test = call
        if not call.failed:
            if call.kind not in self.worked:
                self.worked.append(call.kind)
        elif reports_absence(call.error or "") or reports_already_done(call.error or ""):
            return  # the call only checked whether something exists
        in_background = call.kind is Kind.WAIT and call.error_kind.startswith("exit code")
        if call.kind in _EFFECTS or in_background:
            self.last_effect = call

    def supports(self, claim: Claim) -> bool:
        """Return whether the calls so far can support a claim."""
        if claim is Claim.DONE:
            return bool(self.tried)
        if claim is Claim.TESTS:
            # The agent may have read a test result somewhere, unless all it did was to write files.
            return bool(self.tried) and self.tried != [Kind.CHANGE]
        if claim is Claim.SENT:
            return any(kind in _EFFECTS and kind is not Kind.CHANGE for kind in self.worked)
        return any(kind in _EFFECTS for kind in self.worked)


class _FalseClaim(NamedTuple):
    """A claim that is contradicted or not supported."""

    message: Message
    claim: Claim
    against: ToolCall | None
    """The failed call that contradicts the claim; None if no call supports the claim."""
    severity: Severity
    confidence: int


class FalseSuccessClaim(RunDetector[ToolCall | Message | Moment]):
    """Compares every claim with the calls before it. Only the last claim counts; earlier ones may have come true."""

    NEEDS = (Message,)
    OBSERVES = (ToolCall, Message, Moment)

    def __init__(self, run: AgentRun) -> None:
        super().__init__(run)
        self._proof = _SupportingCalls()
        self._request: Message | None = None
        self._reply: Message | None = None
        """The last message of the agent."""
        self._false: _FalseClaim | None = None
        self._acted = False
        """Whether an action succeeded that may have been the agent's answer."""
        self._is_for_user = True
        self._end: Moment | None = None

    def observe(self, span: ToolCall | Message | Moment, /) -> None:
        if isinstance(span, ToolCall):
            if span.result and span.kind is not Kind.THOUGHT:
                self._proof.add(span)
                self._acted |= span.kind is Kind.ACTION and not span.failed
        elif isinstance(span, Moment):
            if span.event_type == "agent_end":
                self._end = span
            elif span.event_type == "agent_start":
                self._is_for_user = span.payload.get("trigger") not in ("heartbeat", "cron")
        elif span.is_user:
            self._request = span
        else:
            self._reply = span
            if span.claims or span.deeds:
                self._false = self._contradicted(span) or self._unsupported(span)
            elif span.text and span.admits_failure:
                self._false = None  # the agent corrected itself

    def _contradicted(self, message: Message) -> _FalseClaim | None:
        proof = self._proof
        if Claim.TESTS in message.claims and proof.last_test is not None and _tests_failed(proof.last_test):
            return _FalseClaim(message, Claim.TESTS, proof.last_test, "critical", 95)
        last = proof.last_effect
        if message.admits_failure or last is None or not last.failed:
            return None
        supported = {Claim.TESTS}
        # A completed action or change stays completed even if a later call failed; whether it works is another claim.
        if last.kind is not Kind.ACTION and Kind.ACTION in proof.worked:
            supported |= {Claim.SENT, Claim.CHANGED}
        if last.kind not in (Kind.ACTION, Kind.CHANGE) and Kind.CHANGE in proof.worked:
            supported |= {Claim.SAVED, Claim.CHANGED}
        claim = next((claim for claim in message.claims if claim not in supported), None)
        return None if claim is None else _FalseClaim(message, claim, last, "high", 80)

    def _unsupported(self, message: Message) -> _FalseClaim | None:
        """Return a claim that no recorded call supports."""
        if message.admits_failure:
            return None
        request = self._request.text if self._request is not None else ""
        proof = self._proof
        for claim in sorted(message.deeds, key=lambda claim: claim is Claim.DONE):
            max_characters = MAX_DONE_CHARACTERS if claim is Claim.DONE else MAX_REPORT_CHARACTERS
            if proof.supports(claim) or (not proof.tried and message.size > max_characters):
                continue
            if asks_for(request, claim) or (claim is Claim.TESTS and proof.tried):
                return _FalseClaim(message, claim, None, "high" if claim is Claim.TESTS else "medium", 65)
        return None

    def findings(self) -> list[Draft]:
        return [self._draft(self._false)] if self._false is not None else self._silent()

    def _silent(self) -> list[Draft]:
        """Report an agent run that ended successfully without a message to its user."""
        end, last = self._end, self._reply
        if end is None or end.payload.get("success") is not True or end.status != "ok":
            return []
        if not self._is_for_user or self._request is None or last is None or self._acted:
            return []
        if last.text or last.asks_tools or last.stop_reason not in (None, "stop"):
            return []
        return [
            Draft(
                type=TYPE,
                about=("no text",),
                severity="medium",
                confidence=70,
                title="The agent run reported success without answering",
                explanation="The agent's last message is empty, and it sent nothing through a tool either.",
                evidence=cite_events([last.event_id, end.event_id]),
                first_bad_step=last.event_id,
                chain=[
                    CausalStep(last.event_id, "The answer is empty", None),
                    CausalStep(end.event_id, "Reported as a success", "contradicted"),
                ],
                scope=self.run.scope,
                recommendation="Check the stop reason and the output limit of the model, and ask the agent for a final "
                "summary.",
                verification="Run the same task again: the last message has text.",
            )
        ]

    def _draft(self, false: _FalseClaim) -> Draft:
        message, claim, against = false.message, false.claim, false.against
        quote = f"“{excerpt(message.text, 120)}”"
        claimed = CausalStep(message.event_id, f"The agent claimed {claim.value}", "contradicted" if against else None)
        if against is None:
            title = f"Claimed {claim.value}, but no recorded call could have done it"
            explanation = f"The agent said {quote}. Before that, no tool call that could have this effect succeeded."
            chain = [claimed]
        else:
            error = excerpt(against.error or "", 120)
            title = f"Claimed {claim.value}, but {against.name} failed"
            explanation = f"The agent said {quote}. But the last call that could have proved this failed: {error}"
            failed = CausalStep(against.evidence, f"{against.name} failed: {excerpt(against.error or '', 80)}", None)
            chain = [failed, claimed]
        return Draft(
            type=TYPE,
            about=(claim.name.lower(), against.tool if against else "nothing"),
            severity=false.severity,
            confidence=false.confidence,
            title=title,
            explanation=explanation,
            evidence=cite_events([*([against.evidence] if against else []), message.event_id]),
            first_bad_step=message.event_id,
            chain=chain,
            explains=frozenset([against.evidence]) if against else frozenset(),
            scope=self.run.scope,
            recommendation="Require the agent to quote the result that proves its claim (exit code, test summary, "
            "response of the service), and to report failures.",
            verification="Run the same task again: the last check succeeds, or the answer reports that it failed.",
        )


def _tests_failed(call: ToolCall) -> bool:
    """Return whether a test run failed, by its exit code or by the last count in its output: a pipe hides the code."""
    counts = _FAILED_TESTS.findall(call.output)
    return call.failed or (bool(counts) and any(int(count or 0) for count in counts[-1]))
