"""Findings of extensions in verbs, reports, exports and policies: shown with their package, counted only on request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from diagnosed import diagnosis, finding
from extension_packages import Packages, tool_call_records
from reports import INTACT, report
from support import Cli, Runs

from critiqor.comparison.causes import causes_of
from critiqor.dashboard import offline_pages
from critiqor.diagnosis.extension_findings import MAX_FINDINGS, add_extensions
from critiqor.errors import ExitCode
from critiqor.exporters.github import annotation_lines
from critiqor.exporters.markdown import document
from critiqor.model import DetectorRun, Diagnosis, Finding
from critiqor.policy.gate import apply_policy
from critiqor.policy.policy_file import Policy, PolicyError, parse_policy
from critiqor.privacy.diagnosis import anonymous_diagnosis
from critiqor.run.store import Run

OK = DetectorRun(package="team-rules", version="1.2", detector="forbidden_tool", state="ok", findings=1)
FAILED = DetectorRun(package="slow", version="3", detector="slow_one", state="timed out", reason="it had not ended")


def extended(*found: Finding, own: tuple[Finding, ...] = (), trust: int = 100) -> Diagnosis:
    return add_extensions(diagnosis("run_001", *own, trust=trust), [(OK, found)])


def test_findings_of_extensions_come_last_and_are_numbered_on() -> None:
    mild, bad = finding("forbidden_tool:a", "low"), finding("forbidden_tool:b", "critical", points=7)
    whole = extended(mild, bad, own=(finding("loop", "medium", 15, id="finding_001"),), trust=85)
    assert [(each.id, each.cause) for each in whole.failure_analysis.findings] == [
        ("finding_001", "loop"),
        ("finding_002", "forbidden_tool:b"),
        ("finding_003", "forbidden_tool:a"),
    ]
    assert [each.impact.trust_points for each in whole.failure_analysis.findings] == [15, 0, 0]
    assert [each.trust_cost for each in whole.failure_analysis.findings] == [15, 50, 5]
    assert causes_of(whole).keys() == {"loop"}, "the compared run may have been diagnosed without the extension"


def test_an_extension_cannot_list_endless_findings() -> None:
    whole = extended(*(finding(f"forbidden_tool:{number}") for number in range(MAX_FINDINGS + 3)))
    assert (len(whole.failure_analysis.findings), whole.failure_analysis.left_out) == (MAX_FINDINGS, 3)


def test_policy_counts_findings_of_extensions_only_if_it_names_their_package() -> None:
    whole = extended(finding("forbidden_tool:exec", "critical"))
    plain = apply_policy(Policy(min_trust=80, max_severity="medium", max_findings=0), whole, INTACT)
    assert plain.passed
    for name in ("team-rules", "Team_Rules", "*"):
        counting = Policy(
            min_trust=80,
            max_severity="medium",
            max_findings=0,
            forbidden_types=("forbidden_tool",),
            count_extensions=(name,),
        )
        results = {rule.rule: rule for rule in apply_policy(counting, whole, INTACT).rules}
        assert results["count_extensions"].passed
        failed = {name for name, rule in results.items() if not rule.passed}
        assert failed == {"min_trust", "max_severity", "max_findings", "forbidden_types"}
        trust = "trust is 50 with findings of extensions, 100 without them, at least 80 required"
        assert results["min_trust"].explanation == trust
    other = Policy(max_findings=0, count_extensions=("another",))
    assert [rule.rule for rule in apply_policy(other, whole, INTACT).rules if not rule.passed] == ["count_extensions"]


def test_counted_extension_that_failed_or_was_missing_fails_the_rule() -> None:
    failed = add_extensions(diagnosis(), [(FAILED, ())])
    [rule] = [
        each for each in apply_policy(Policy(count_extensions=("slow",)), failed, INTACT).rules if not each.passed
    ]
    assert rule.explanation == "detector slow_one of slow 3 timed out: it had not ended"
    [rule] = [
        each for each in apply_policy(Policy(count_extensions=("gone",)), failed, INTACT).rules if not each.passed
    ]
    assert rule.explanation == "gone did not take part in this diagnosis"
    assert apply_policy(Policy(count_extensions=("*",)), diagnosis(), INTACT).passed


def test_policy_may_name_types_of_counted_extensions_only() -> None:
    types, of_extensions = {"loop": "…"}, {"forbidden_tool": "team-rules"}
    counted = b'forbidden_types = ["forbidden_tool"]\ncount_extensions = ["team-rules"]'
    assert parse_policy(counted, "toml", types, of_extensions).forbidden_types == ("forbidden_tool",)
    with pytest.raises(PolicyError, match="add it to count_extensions"):
        parse_policy(b'forbidden_types = ["forbidden_tool"]', "toml", types, of_extensions)
    with pytest.raises(PolicyError, match="did you mean 'forbidden_tool'"):
        parse_policy(b'forbidden_types = ["forbiden_tool"]', "toml", types, of_extensions)


@pytest.mark.parametrize(("counted", "kind"), [((), "warning"), (("team-rules",), "error")])
def test_annotation_is_an_error_only_if_the_policy_counts_the_extension(counted: tuple[str, ...], kind: str) -> None:
    whole = extended(finding("forbidden_tool:exec", "critical"))
    gate = apply_policy(Policy(min_confidence=101, count_extensions=counted), whole, INTACT)
    [line] = [line for line in annotation_lines(gate, whole) if "forbidden_tool" in line]
    assert line.startswith(f"::{kind} title=critical forbidden_tool (extension team-rules 1.2) in run_001")


def test_anonymous_view_keeps_numbers_and_no_names_of_extensions() -> None:
    whole = add_extensions(diagnosis(), [(OK, [finding("forbidden_tool:exec", "high")]), (FAILED, ())])
    hidden = anonymous_diagnosis(whole)
    text = json.dumps([str(hidden.extensions), str(hidden.failure_analysis)])
    assert not [word for word in ("team-rules", "forbidden_tool", "slow", "1.2", "exec") if word in text]
    assert [run.state for run in hidden.extensions] == ["ok", "timed out"]
    [only] = hidden.failure_analysis.findings
    assert (only.severity, only.trust_cost) == ("high", 30)


def test_report_puts_findings_of_extensions_under_a_title_of_their_own() -> None:
    whole = add_extensions(diagnosis(), [(OK, [finding("forbidden_tool:exec", "high")]), (FAILED, ())])
    text = document(report(whole))
    assert "### Main problem" not in text
    assert "### Findings of extensions\n\n**HIGH** `forbidden_tool (extension team-rules 1.2)`" in text
    assert "### Extensions that failed\n\n- detector slow\\_one of slow 3 timed out: it had not ended" in text
    own = document(report(extended(finding("forbidden_tool:exec"), own=(finding("loop", id="finding_001"),))))
    assert own.index("### Main problem") < own.index("### Findings of extensions")


@pytest.fixture
def run_id(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run with a finding of one extension, and another extension that failed."""
    packages = Packages(tmp_path / "packages", monkeypatch)
    packages.detector("team-rules")
    packages.detector("bad-rules", "bad_rules", "raise ValueError('no')")
    runs.seal(*tool_call_records())
    return "run_001"


def test_verbs_show_the_package_of_a_finding_and_the_detector_that_failed(cli: Cli, run_id: str) -> None:
    shown = cli("show", run_id).out
    assert "forbidden_tool (extension team-rules 1.2)" in shown
    assert "detector bad_rules of bad-rules 1.2 failed: ValueError: no" in shown
    assert "extension team-rules 1.2" in cli("explain", run_id, "finding_001").out
    assert "trust is 100" in cli("check", run_id).out


def test_check_counts_an_extension_on_request(cli: Cli, run_id: str, tmp_path: Path) -> None:
    rules = 'min_trust = 80\nmax_severity = "medium"\nrequire_finished = false\nmin_confidence = 0\n'
    (tmp_path / "plain.toml").write_text(rules)
    (tmp_path / "strict.toml").write_text(f'{rules}count_extensions = ["team-rules"]\n')
    (tmp_path / "all.toml").write_text(f'{rules}count_extensions = ["*"]\n')
    assert cli("check", run_id, "--policy", "plain.toml").code == ExitCode.OK
    strict = cli("check", run_id, "--policy", "strict.toml")
    assert strict.code == ExitCode.GATE_FAILED
    assert "NO  max_severity: 1 finding above medium" in strict.out
    assert "ok  count_extensions: 1 detector of extensions ran" in strict.out
    assert "NO  count_extensions: detector bad_rules" in cli("check", run_id, "--policy", "all.toml").out


def test_exports_name_the_package(cli: Cli, run_id: str, tmp_path: Path) -> None:
    for name, file in (
        ("sarif", "run_001.sarif"),
        ("otlp", "run_001.otlp.json"),
        ("perfetto", "run_001.perfetto.json"),
    ):
        assert cli("export", run_id, "--format", name).code == 0
        assert "team-rules" in (tmp_path / file).read_text()


def test_pages_name_the_package_and_the_failed_detector(runs: Runs, run_id: str) -> None:
    page = b"".join(offline_pages(Run.load(run_id, runs.folder))).decode()
    assert "found by the extension <bdi>team-rules 1.2</bdi>" in page
    assert "ValueError: no" in page
