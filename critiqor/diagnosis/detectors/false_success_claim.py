"""`false_success_claim`: the agent says that it worked, and what was recorded says otherwise, or nothing."""

from __future__ import annotations

import re
from collections import deque

from critiqor.diagnosis.claims.assertions import asks_for
from critiqor.diagnosis.draft import Draft, cite
from critiqor.diagnosis.signals.text import is_already_so, tells_of_absence
from critiqor.model import CausalStep, Severity
from critiqor.model.sanitize import excerpt
from critiqor.spans.agent_run import AgentRun
from critiqor.spans.calls import Claim, Kind, Message, ToolCall

TYPE = "false_success_claim"
REPORT = 1000
"""Characters: a longer answer without any tool is the work itself, and no report of it."""
BARE_WORD = 20
"""Characters of an answer that says that it is done, and nothing else."""
_EFFECTS = frozenset((Kind.CHANGE, Kind.ACTION, Kind.COMMAND, Kind.OTHER))


def detect(run: AgentRun) -> list[Draft]:
    """Claims of one agent run that its own steps contradict or do not support."""
    steps = [step for step in run.actions if step.kind is not Kind.THOUGHT and step.result]
    proof = _Proof()
    waiting = deque(steps)
    request = ""
    draft = None
    for message in run.messages:
        if message.is_user:
            request = message.text
        elif message.claims or message.deeds:
            while waiting and waiting[0].order < message.order:
                proof.add(waiting.popleft())
            # The last word counts: what was claimed too early and came true later was a slip.
            draft = _contradicted(run, message, proof) or _unsupported(run, message, proof, request)
        elif message.text and message.admits_failure:
            draft = None  # it has corrected itself
    return [draft] if draft is not None else _silent(run, steps)


class _Proof:
    """What was recorded up to a claim."""

    def __init__(self) -> None:
        self.last_test: ToolCall | None = None
        self.last_effect: ToolCall | None = None
        self.tried: set[Kind] = set()
        self.worked: set[Kind] = set()

    def add(self, step: ToolCall) -> None:
        self.tried.add(step.kind)
        if step.is_test:
            self.last_test = step
        if not step.failed:
            self.worked.add(step.kind)
        elif tells_of_absence(step.error or "") or is_already_so(step.error or ""):
            return  # it was a look whether there is such a thing
        in_background = step.kind is Kind.WAIT and step.error_kind.startswith("exit code")
        if step.kind in _EFFECTS or in_background:
            self.last_effect = step

    def allows(self, claim: Claim) -> bool:
        """Whether anything that worked can have made a claim true."""
        if claim is Claim.DONE:
            return bool(self.tried)
        if claim is Claim.TESTS:
            # It may have read how they ended; who only writes does not know.
            return bool(self.tried) and self.tried != {Kind.CHANGE}
        if claim is Claim.SENT:
            return not self.worked.isdisjoint(_EFFECTS - {Kind.CHANGE})
        return not self.worked.isdisjoint(_EFFECTS)


_FAILED_TESTS = re.compile(r"\b(\d+) (?:failed|failing|failures?)\b|\b(?:failures|failed)[=:] ?(\d+)", re.IGNORECASE)


def _tests_failed(step: ToolCall) -> bool:
    """Whether a test run failed, by its exit code or, where a pipe hides that, by its own last count."""
    counts = _FAILED_TESTS.findall(step.output)
    return step.failed or (bool(counts) and any(int(count or 0) for count in counts[-1]))


def _contradicted(run: AgentRun, message: Message, proof: _Proof) -> Draft | None:
    if Claim.TESTS in message.claims and proof.last_test is not None and _tests_failed(proof.last_test):
        return _draft(run, message, Claim.TESTS, proof.last_test, "critical", 95)
    last = proof.last_effect
    if message.admits_failure or last is None or not last.failed:
        return None
    supported = {Claim.TESTS}
    # What was done is done, whatever failed later; whether it works is another thing.
    if last.kind is not Kind.ACTION and Kind.ACTION in proof.worked:
        supported |= {Claim.SENT, Claim.CHANGED}
    if last.kind not in (Kind.ACTION, Kind.CHANGE) and Kind.CHANGE in proof.worked:
        supported |= {Claim.SAVED, Claim.CHANGED}
    claim = next((claim for claim in message.claims if claim not in supported), None)
    return None if claim is None else _draft(run, message, claim, last, "high", 80)


def _unsupported(run: AgentRun, message: Message, proof: _Proof, request: str) -> Draft | None:
    """A claim that nothing recorded can have made true."""
    if message.admits_failure:
        return None
    for claim in sorted(message.deeds, key=lambda claim: claim is Claim.DONE):
        longest = BARE_WORD if claim is Claim.DONE else REPORT
        if proof.allows(claim) or (not proof.tried and message.size > longest):
            continue
        if asks_for(request, claim) or (claim is Claim.TESTS and proof.tried):
            return _draft(run, message, claim, None, "high" if claim is Claim.TESTS else "medium", 65)
    return None


def _silent(run: AgentRun, steps: list[ToolCall]) -> list[Draft]:
    """A run that calls itself a success and ends without a word to its user."""
    end = run.last_end
    said = [message for message in run.messages if not message.is_user]
    asked = run.is_for_user and any(message.is_user for message in run.messages)
    if end is None or end.payload.get("success") is not True or end.status != "ok" or not asked or not said:
        return []
    last = said[-1]
    if last.text or last.asks_tools or last.stop_reason not in (None, "stop"):
        return []
    if any(step.kind is Kind.ACTION and not step.failed for step in steps):
        return []  # it answered through a tool
    return [
        Draft(
            type=TYPE,
            about=("no text",),
            severity="medium",
            confidence=70,
            title="The run calls itself a success and answered nothing",
            explanation="The last message of the agent is empty, and it sent nothing through a tool either.",
            evidence=cite([last.event_id, end.event_id]),
            first_bad_step=last.event_id,
            chain=[
                CausalStep(last.event_id, "an empty answer", None),
                CausalStep(end.event_id, "reported as a success", "contradicted"),
            ],
            scope=run.scope,
            recommendation="Look at the stop reason and at the limits of the model's answer; ask for a final summary.",
            verification="Run the same task again: the last message has text.",
        )
    ]


def _draft(
    run: AgentRun, message: Message, claim: Claim, against: ToolCall | None, severity: Severity, confidence: int
) -> Draft:
    said = f"“{excerpt(message.text, 120)}”"
    if against is None:
        title = f"The agent says {claim.value}, and no recorded call could have done it"
        explanation = f"It said {said}. No tool call before it succeeded that could have had such an effect."
        chain = [CausalStep(message.event_id, f"the agent says {claim.value}", None)]
    else:
        title = f"The agent says {claim.value}, and the record says that {against.name} failed"
        explanation = f"It said {said}. The last call that could prove it failed: {excerpt(against.error or '', 120)}"
        chain = [
            CausalStep(against.evidence, f"{against.name} failed: {excerpt(against.error or '', 80)}", None),
            CausalStep(message.event_id, f"the agent says {claim.value}", "contradicted"),
        ]
    return Draft(
        type=TYPE,
        about=(claim.name.lower(), against.tool if against else "nothing"),
        severity=severity,
        confidence=confidence,
        title=title,
        explanation=explanation,
        evidence=cite([*([against.evidence] if against else []), message.event_id]),
        first_bad_step=message.event_id,
        chain=chain,
        explains=frozenset([against.evidence]) if against else frozenset(),
        scope=run.scope,
        recommendation="Require the agent to quote the result that proves its claim (the exit code, the test "
        "summary, the "
        "answer of the service), and to report a failure as one.",
        verification="Run the same task again: the last check succeeds, or the answer says that it failed.",
    )
