"""`critiqor check RUN`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import json_option, policy_option, read_policy_option, runs_dir_option
from critiqor.cli.output import answer, say
from critiqor.errors import CritiqorError, ExitCode

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.model.report import GateResult, RunReport
    from critiqor.model.verdict import Integrity
    from critiqor.run.store import Run
    from critiqor.run.view import RunView

SUMMARY = "GITHUB_STEP_SUMMARY"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", shell_complete=run_names)
@runs_dir_option
@policy_option
@click.option(
    "--rediagnose", is_flag=True, help="Diagnose the sealed evidence once more, and fail if the diagnosis differs."
)
@click.option("--github", is_flag=True, help="In a GitHub workflow: add annotations and write the step summary.")
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    run: str,
    runs_dir: str,
    policy_file: Path | None,
    rediagnose: bool,
    github: bool,
    as_json: bool,
) -> None:
    """Check RUN against a policy. Exit code 0 if it passes, 3 if not; each rule is explained on one line."""
    from critiqor.run.store import RunStore

    checked = RunStore(runs_dir).run(run)
    result = (_check_for_github if github else _check)(checked, policy_file, rediagnose, as_json)
    ctx.exit(ExitCode.OK if result.passed else ExitCode.GATE_FAILED)


def check_run(run_id: str, runs_dir: str, policy_file: Path) -> bool:
    """Check a run against a policy and print the result. Return whether it passes."""
    from critiqor.run.store import RunStore

    return _check(RunStore(runs_dir).run(run_id), policy_file, rediagnose=False, as_json=False).passed


def _check(run: Run, policy_file: Path | None, rediagnose: bool, as_json: bool) -> GateResult:
    from critiqor.policy.gate import apply_policy, counting_findings
    from critiqor.run.diagnosis import contract_results
    from critiqor.run.view import RunView

    policy, view = read_policy_option(policy_file), RunView(run)
    diagnosis = view.require_diagnosis()
    contracts = contract_results(run, diagnosis, policy.contracts)
    result = apply_policy(policy, diagnosis, _integrity(view, rediagnose), contracts)

    def drawing() -> RenderableType:
        from critiqor.cli.drawings.check import gate_drawing

        name = "the default policy" if policy_file is None else f"policy: {policy_file.name}"
        return gate_drawing(result, diagnosis, counting_findings(policy, diagnosis), name)

    answer("check", result, _text(result), as_json=as_json, drawing=drawing)
    return result


def _integrity(view: RunView, rediagnose: bool) -> Integrity:
    """Verify a run. A diagnosis that was to be made once more, but could not be compared, is not proven."""
    from msgspec.structs import replace

    found = view.verify(rediagnose=rediagnose)
    again = next((check for check in found.checks if check.name == "rediagnosis"), None)
    if rediagnose and found.is_intact and again is not None and again.state != "passed":
        text = f"the diagnosis was not compared with a new one: {again.explanation}"
        return replace(found, state="other", explanation=text + (f" ({again.fix})" if again.fix else ""))
    return found


def _check_for_github(run: Run, policy_file: Path | None, rediagnose: bool, as_json: bool) -> GateResult:
    """Check a run in a GitHub workflow. GitHub executes commands in any output, so errors are escaped too."""
    from critiqor.exporters import load_report
    from critiqor.exporters.github import escape_commands
    from critiqor.policy.gate import apply_policy
    from critiqor.privacy.visibility import EXPORT
    from critiqor.run.diagnosis import contract_results
    from critiqor.run.view import RunView

    try:
        report = load_report(run)
        integrity = _integrity(RunView(run, EXPORT), rediagnose)
        policy = read_policy_option(policy_file)
        contracts = contract_results(run, report.diagnosis, policy.contracts)
        result = _escape_explanations(apply_policy(policy, report.diagnosis, integrity, contracts))
    except CritiqorError as error:
        error.message, error.fix = escape_commands(error.message), error.fix and escape_commands(error.fix)
        raise
    answer("check", result, _text(result), as_json=as_json)
    _annotate(report, result, to_stderr=as_json)
    return result


def _text(result: GateResult) -> str:
    from critiqor.cli.text_layout import page
    from critiqor.model.sanitize import collapse_whitespace

    count, failed = len(result.rules), sum(not rule.passed for rule in result.rules)
    verdict = f"fails {failed} of {count} rules" if failed else f"passes {count} of {count} rules"
    lines = [f"{result.run_id} {verdict}", *([result.sessions] if result.sessions else [])]
    lines += [
        f"{'ok ' if rule.passed else 'NO '} {rule.rule}: {collapse_whitespace(rule.explanation)}"
        for rule in result.rules
    ]
    lines += [result.checked] if result.checks else []
    if failed:
        lines.append(f"Next: {add_runs_dir(f'critiqor show {result.run_id}')}")
    return page(lines)


def _escape_explanations(result: GateResult) -> GateResult:
    """Return the result with GitHub workflow commands in the explanations of its rules escaped."""
    from msgspec.structs import replace

    from critiqor.exporters.github import escape_commands

    rules = [replace(rule, explanation=escape_commands(rule.explanation)) for rule in result.rules]
    checks = [replace(each, explanation=escape_commands(each.explanation)) for each in result.checks]
    return replace(result, rules=rules, checks=checks, sessions=result.sessions and escape_commands(result.sessions))


def _annotate(report: RunReport, result: GateResult, *, to_stderr: bool) -> None:
    from critiqor.exporters.github import annotation_lines, step_summary
    from critiqor.model.sanitize import sanitize_for_terminal

    for line in annotation_lines(result, report.diagnosis):
        # GitHub looks for commands in both streams.
        click.echo(sanitize_for_terminal(line), err=to_stderr)
    path = os.environ.get(SUMMARY)
    if path:
        _append(Path(path), step_summary(report, result).encode())
    else:
        say(
            f"no step summary was written: {SUMMARY} is not set (not a GitHub workflow)\n"
            f"  → to see the report: {add_runs_dir(f'critiqor report {result.run_id}')}"
        )


def _append(path: Path, summary: bytes) -> None:
    """Append to the summary of the step, unless it would get too large: GitHub would then show none of it."""
    from critiqor.exporters.github import MAX_SUMMARY_BYTES

    try:
        with path.open("ab") as file:
            if file.tell() + len(summary) > MAX_SUMMARY_BYTES:
                say(f"the step summary is full: GitHub shows at most {MAX_SUMMARY_BYTES} bytes, so nothing was added")
                return
            file.write(summary)
    except OSError as error:
        fix = f"unset {SUMMARY}, or set it to a file that can be written"
        raise CritiqorError(f"the summary cannot be written: {error}", fix=fix) from error
