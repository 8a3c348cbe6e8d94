"""Drawing of `critiqor check`: the result, measured and allowed values, and the findings that broke rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from critiqor.cli.terminal.bars import bar
from critiqor.cli.terminal.styled_text import FAINT, SEVERITIES, indented, next_command, styled, untrusted
from critiqor.cli.terminal.tables import FittingTable
from critiqor.diagnosis.detectors import CONTRACT_VIOLATION
from critiqor.model import SEVERITIES as WORST_FIRST
from critiqor.model import Diagnosis, Finding
from critiqor.model.formatting import format_money, format_place
from critiqor.model.report import GateResult, RuleResult

PASSED, FAILED = ("✓", "green"), ("✗", "bold red")
SHOWN_FINDINGS = 5


def gate_drawing(result: GateResult, diagnosis: Diagnosis, findings: Sequence[Finding], policy: str) -> Group:
    """Draw the result, the rules, and those of the counted `findings` that broke a rule. `policy` names the policy."""
    return Group(*_parts(result, diagnosis, findings, policy))


def _parts(
    result: GateResult, diagnosis: Diagnosis, findings: Sequence[Finding], policy: str
) -> Iterator[RenderableType]:
    failed = [rule for rule in result.rules if not rule.passed]
    count = len(result.rules)
    if failed:
        yield styled("✗ FAILED  ", "bold red").append(f"{result.run_id} fails {len(failed)} of {count} rules", "bold")
    else:
        yield styled("✓ PASSED  ", "bold green").append(f"{result.run_id} passes {count} of {count} rules", "bold")
    if result.sessions:
        yield untrusted(result.sessions)
    yield untrusted(policy, FAINT)
    yield Text()
    yield FittingTable(["rule", "measured", "wanted"], [_row(rule) for rule in result.rules])
    unclear = (
        rule for rule in failed if rule.actual is None or isinstance(rule.actual, bool) or rule.rule == "contracts"
    )
    reasons = [_reason(rule) for rule in unclear]
    if reasons:  # the rows of other rules contain the full reason
        yield Text()
        yield from reasons
    if result.checks:
        yield untrusted(result.checked, FAINT)
    broke = list(_breaking(failed, findings))
    if broke:
        yield Text("\nFindings that broke a rule")
        yield from (_finding(finding, format_place(finding, diagnosis)) for finding in broke[:SHOWN_FINDINGS])
        if len(broke) > SHOWN_FINDINGS:
            yield indented(Text(f"and {len(broke) - SHOWN_FINDINGS} more", FAINT))
    if failed:
        run_id = result.run_id
        yield next_command(f"critiqor explain {run_id} {broke[0].id}" if broke else f"critiqor show {run_id}")


def _row(rule: RuleResult) -> list[Text]:
    mark, style = PASSED if rule.passed else FAILED
    return [styled(f"{mark} ", style).append(rule.rule), _measured(rule), _wanted(rule)]


def _measured(rule: RuleResult) -> Text:
    actual, style = rule.actual, "" if rule.passed else "red"
    if rule.rule in ("min_trust", "min_confidence") and isinstance(actual, int):
        return bar(actual / 100, style=style or "green").append(f" {actual:>3}", style)
    if actual is None and rule.rule == "max_severity":
        return Text("no finding")
    return untrusted(_value_text(rule, actual) + " (estimated)" * rule.is_estimated, style)


def _wanted(rule: RuleResult) -> Text:
    limit = _value_text(rule, rule.limit)
    words = {
        "min": f"at least {limit}",
        "max": f"at most {limit}",
        "forbidden": f"none of {limit}",
        "contracts": "none violated",
    }
    return untrusted(words.get(rule.rule.partition("_")[0], limit))


def _value_text(rule: RuleResult, value: bool | int | float | str | list[str] | None) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(value) or "none"
    return format_money(value) if rule.rule == "max_cost_usd" and not isinstance(value, str) else str(value)


def _reason(rule: RuleResult) -> Text:
    return styled(f"{rule.rule}: ", "red").append_text(untrusted(rule.explanation))


def _breaking(failed: Iterable[RuleResult], findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings that made rules fail, in order."""
    limits = {rule.rule: rule.limit for rule in failed}
    for finding in findings:
        if (
            "max_findings" in limits
            or ("min_trust" in limits and finding.trust_cost)
            or ("max_severity" in limits and _is_worse(finding, limits["max_severity"]))
            or finding.type in _list(limits.get("forbidden_types"))
            or (finding.type == CONTRACT_VIOLATION and "contracts" in limits)
        ):
            yield finding


def _is_worse(finding: Finding, limit: object) -> bool:
    return limit in WORST_FIRST[WORST_FIRST.index(finding.severity) + 1 :]


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _finding(finding: Finding, place: str) -> RenderableType:
    points = finding.trust_cost
    title = styled(f"{finding.severity.upper()}  ", SEVERITIES[finding.severity]).append_text(untrusted(finding.title))
    lost = f"-{points} " if points else ""
    name = f"{finding.id} {finding.type_label}" + (f", {place}" if place else "")
    return indented(title.append(f"  {lost}", FAINT).append_text(untrusted(name, FAINT)))
