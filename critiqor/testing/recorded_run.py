"""A run that a test has recorded, with assertions on its diagnosis whose failure is a readable report."""

from __future__ import annotations

from typing import NoReturn

from critiqor.api import Run
from critiqor.model import Diagnosis, Finding
from critiqor.model.diagnosis import READINESSES, Readiness, Severity, severity_rank
from critiqor.model.sanitize import sanitize_line
from critiqor.model.verdict import Verdict
from critiqor.run.view import RunView

MAX_FINDINGS = 10
"""Maximum number of findings in the report of a failure."""


class RecordedRun:
    """A recorded, sealed and diagnosed agent run."""

    def __init__(self, run: Run, exit_code: int, output: str) -> None:
        self.run = run
        """The run, as `critiqor.api` has it."""
        self.exit_code = exit_code
        """The exit code of the agent's process; 124 if it took too long."""
        self.output = output
        """What the process printed."""
        view = RunView(run)
        self.diagnosis: Diagnosis = view.require_proof()
        verdict = view.verdict
        assert verdict is not None, "there is a verdict whenever there is a diagnosis"
        self.verdict: Verdict = verdict

    def findings(self, type_: str | None = None, severity: Severity = "info") -> list[Finding]:
        """Return the findings of a type, or all of them, that are at least this severe."""
        found = self.diagnosis.failure_analysis.findings
        least = severity_rank(severity)
        return [one for one in found if type_ in (None, one.type) and severity_rank(one.severity) <= least]

    def assert_verdict(self, readiness: Readiness = "ready", trust: int = 0) -> None:
        """Fail if the verdict is worse than this, or the trust is lower."""
        __tracebackhide__ = True
        found, score = self.verdict.readiness, self.verdict.trust
        if READINESSES.index(found) < READINESSES.index(readiness):
            self._fail(f"the verdict is {found}, at least {readiness} is required")
        if trust and (score is None or score < trust):
            self._fail(f"trust is {'unknown' if score is None else score}, at least {trust} is required")

    def assert_no_findings(self, type_: str | None = None, severity: Severity = "medium") -> None:
        """Fail if there is a finding of a type, or any, that is at least this severe."""
        __tracebackhide__ = True
        if found := self.findings(type_, severity):
            self._fail(f"found {', '.join(dict.fromkeys(one.type for one in found))}", found)

    def assert_finding(self, type_: str) -> Finding:
        """Fail if there is no finding of a type. Return the worst one."""
        __tracebackhide__ = True
        found = self.findings(type_)
        return found[0] if found else self._fail(f"{type_} was not found")

    def assert_cost(self, max_usd: float) -> None:
        """Fail if the run cost more, or if its cost is not known completely."""
        __tracebackhide__ = True
        cost = self.diagnosis.cost_analysis.cost
        if cost.usd is None or cost.is_partial:
            self._fail(f"the cost is not known completely, at most ${max_usd} is allowed")
        elif cost.usd > max_usd:
            self._fail(f"it cost ${cost.usd:.4f}, at most ${max_usd} is allowed")

    def assert_contracts(self) -> None:
        """Fail if a contract of the policy was violated, or if the run was recorded without any."""
        __tracebackhide__ = True
        contracts = self.diagnosis.contracts
        if not contracts:
            self._fail("it was recorded without contracts: pass a policy to record_agent")
        if broken := [one.id for one in contracts if not one.holds]:
            self._fail(f"violated contracts: {', '.join(broken)}")

    def report(self, findings: list[Finding] | None = None) -> str:
        """Return the verdict and findings as a text."""
        shown = self.findings() if findings is None else findings
        trust = "unknown" if self.verdict.trust is None else f"{self.verdict.trust} of 100"
        lines = [
            f"{self.run.id}: {self.verdict.readiness}, trust {trust}: {sanitize_line(self.verdict.headline)}",
            f"task: {self.diagnosis.outcome.task.verdict}; outcome: {self.diagnosis.outcome.state}",
        ]
        for one in shown[:MAX_FINDINGS]:
            lines += [
                f"{one.severity.upper()} {one.type}: {sanitize_line(one.title)}",
                f"    {sanitize_line(one.explanation)}",
                f"    → {sanitize_line(one.recommendation)}",
            ]
        if len(shown) > MAX_FINDINGS:
            lines.append(f"and {len(shown) - MAX_FINDINGS} more")
        main = shown[0].id if shown else ""
        folder = self.run.store.runs_dir
        lines.append(
            f"critiqor {'explain' if main else 'show'} {self.run.id} {main}".rstrip() + f" --runs-dir {folder}"
        )
        return "\n".join(lines)

    def _fail(self, problem: str, findings: list[Finding] | None = None) -> NoReturn:
        __tracebackhide__ = True
        raise AssertionError(f"{problem}\n{self.report(findings)}")
