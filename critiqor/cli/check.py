"""`critiqor check RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from critiqor.cli.output import answer, json_option, runs_dir_option
from critiqor.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from critiqor.diagnosis.policy import GateResult, Policy


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run")
@runs_dir_option
@click.option(
    "--policy",
    "policy_file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="What is wanted: a .toml or .json file.  [default: trust of 70, nothing worse than medium]",
)
@json_option
@click.pass_context
def check(ctx: click.Context, run: str, runs_dir: str, policy_file: Path | None, as_json: bool) -> None:
    """Hold RUN against a policy. Exit code 0 if it is as wanted, 3 if not: each rule says why on one line."""
    from critiqor.diagnoses import load_diagnosed
    from critiqor.diagnosis.policy import DEFAULT_POLICY, apply_policy

    policy = _read(policy_file) if policy_file else DEFAULT_POLICY
    result = apply_policy(policy, load_diagnosed(run, runs_dir))
    answer("check", result, _text(result), as_json=as_json)
    ctx.exit(ExitCode.OK if result.passed else ExitCode.GATE_FAILED)


def _read(path: Path) -> Policy:
    from critiqor.diagnosis import FAILURE_TYPES
    from critiqor.diagnosis.policy import PolicyError, parse_policy

    form = path.suffix.lower()
    if form not in (".toml", ".json"):
        raise UsageError(f"{path.name} is neither a .toml nor a .json file", fix=f"rename {path.name}")
    try:
        return parse_policy(path.read_bytes(), "toml" if form == ".toml" else "json", FAILURE_TYPES)
    except PolicyError as error:
        raise UsageError(f"{path.name}: {error}", fix=f"correct {path.name}") from error


def _text(result: GateResult) -> str:
    from critiqor.cli.wording import one_line, page

    asked, failed = len(result.rules), sum(not rule.passed for rule in result.rules)
    verdict = f"fails {failed} of {asked} rules" if failed else f"passes {asked} of {asked} rules"
    lines = [f"{result.run_id} {verdict}"]
    lines += [f"{'ok ' if rule.passed else 'NO '} {rule.rule}: {one_line(rule.explanation)}" for rule in result.rules]
    if failed:
        lines.append(f"Next: critiqor show {result.run_id}")
    return page(lines)
