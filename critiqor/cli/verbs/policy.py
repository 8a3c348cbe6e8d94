"""`critiqor policy check FILE`, `critiqor policy test RUN…`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_or_file_names
from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import (
    contracts_option,
    json_option,
    read_policy_argument,
    read_policy_option,
    runs_dir_option,
)
from critiqor.cli.output import answer, say, say_if_unproven
from critiqor.errors import UsageError

if TYPE_CHECKING:
    from critiqor.model import Event
    from critiqor.policy.trial import PolicyTrial

_HELP = {"help_option_names": ["-h", "--help"]}


@click.group(context_settings=_HELP)
def policy() -> None:
    """Check a policy file, and try its limits and contracts on recorded runs.

    \b
    critiqor policy check policy.toml                        is it valid, and what does it demand
    critiqor policy test run_001 --policy policy.toml        what it would have said about a run
    critiqor policy test traces.jsonl --policy policy.toml   or about traces of other recorders
    """


@policy.command(context_settings=_HELP)
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@json_option
def check(file: Path, as_json: bool) -> None:
    """Check that a policy FILE is valid, without a run. A mistake is named with its line, column and key."""
    from critiqor.policy.policy_file import given_rules

    checked = read_policy_argument(file)
    rules, limits = given_rules(checked), checked.limits.given
    lines = [
        f"{file.name} is valid",
        f"rules: {', '.join(rules) or 'none'}",
        f"limits: {', '.join(limits) or 'none'}",
        f"contracts: {', '.join(each.id for each in checked.contracts) or 'none'}",
        f"notify: {', '.join(checked.notify) or 'none'}",
        f"Next: {add_runs_dir(f'critiqor policy test RUN --policy {file}')}",
    ]
    data = {
        "file": str(file),
        "rules": rules,
        "limits": limits,
        "contracts": [
            {"id": each.id, "pattern": each.pattern, "severity": each.severity} for each in checked.contracts
        ],
        "notify": list(checked.notify),
    }
    answer("policy", data, "\n".join(lines), as_json=as_json)


@policy.command(context_settings=_HELP)
@click.argument("runs", metavar="RUN|FILE...", nargs=-1, required=True, shell_complete=run_or_file_names)
@runs_dir_option
@contracts_option
@json_option
def test(runs: tuple[str, ...], runs_dir: str, policy_file: Path | None, as_json: bool) -> None:
    """Show what the limits and contracts of a policy say about recorded runs, or traces in files.

    Nothing is written. The policy is that of --policy, or the tables of critiqor.toml.
    """
    from critiqor.policy.trial import try_policy

    tried = read_policy_option(policy_file)
    if not tried.contracts and not tried.limits.given:
        name = "critiqor.toml" if policy_file is None else policy_file.name
        raise UsageError(f"{name} has neither limits nor contracts", fix="add --policy FILE with some (docs/policy.md)")
    trials = [try_policy(name, events, tried) for what in runs for name, events in _recordings(what, runs_dir)]
    lines = [line for trial in trials for line in _lines(trial)]
    hit = sum(bool(trial.violations) for trial in trials)
    over = sum(bool(trial.limits) for trial in trials)
    unknown = sum(bool(trial.not_evaluated) for trial in trials)
    rest = f", {unknown} with a contract that could not be evaluated everywhere" if unknown else ""
    lines.append(f"{len(trials)} tried: {hit} with a violated contract, {over} over a limit{rest}")
    answer("policy", trials, "\n".join(lines), as_json=as_json)


def _recordings(what: str, runs_dir: str) -> Iterator[tuple[str, Iterator[Event]]]:
    """Yield name and events of a run, or of each trace of a file."""
    from critiqor.run.store import RunStore
    from critiqor.run.view import RunView

    file, store = Path(what), RunStore(runs_dir)
    if what in store or not file.is_file():
        view = RunView(store.run(what))
        say_if_unproven(view)
        yield view.run_id, view.run.events()
        return
    from critiqor.importers import read_traces

    for trace in read_traces(file):
        for note in trace.notes:
            say(f"{trace.trace_id}: {note}")
        yield trace.trace_id, iter(trace.events)


def _lines(trial: PolicyTrial) -> list[str]:
    from critiqor.model.formatting import counted, format_session
    from critiqor.model.sanitize import collapse_whitespace

    is_ok = not (trial.violations or trial.limits or trial.not_evaluated)
    lines = [collapse_whitespace(trial.run) + ("  ok" if is_ok else "")]
    for each in trial.violations:
        where = f"session {format_session(each.session_key)}, {', '.join(each.evidence[:3])}"
        times = counted(each.occurrences, "time")
        lines.append(f"  {each.severity} {each.id}, {times}: {collapse_whitespace(each.says)} ({where})")
    for limit in trial.limits:
        at = f" ({limit.event_id})" if limit.event_id else ""
        lines.append(f"  {limit.action} {collapse_whitespace(limit.text)}{at}")
    return lines + [f"  unknown: {collapse_whitespace(result.note or '')}" for result in trial.not_evaluated]
