"""`critiqor prune`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer
from critiqor.errors import UsageError

if TYPE_CHECKING:
    from critiqor.policy.retention import Retention
    from critiqor.run.retention.pruning import Pruned


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@runs_dir_option
@click.option("--max-age", metavar="AGE", help="Remove runs older than this: 90m, 24h, 30d, 8w.")
@click.option("--max-age-unsafe", metavar="AGE", help="The same for unsafe runs.  [default: four times --max-age]")
@click.option("--max-runs", type=click.IntRange(min=1), help="Keep this many runs.")
@click.option("--max-size", metavar="SIZE", help="Keep as many runs as fit: 500MB, 20GB.")
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@json_option
def prune(
    runs_dir: str,
    max_age: str | None,
    max_age_unsafe: str | None,
    max_runs: int | None,
    max_size: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove runs that are too old, too many or too large.

    Without options, the rules are those of the table [retention] of the settings. The oldest runs are removed first;
    unsafe runs, and those whose evidence was changed, when no others are left. The newest run is kept, and a run that
    is being recorded or was not finalized is never removed.
    """
    from critiqor.run.retention.pruning import prune as prune_runs
    from critiqor.run.store import RunStore

    options = {"max_age": max_age, "max_age_unsafe": max_age_unsafe, "max_runs": max_runs, "max_size": max_size}
    rules = _rules({name: value for name, value in options.items() if value is not None})
    pruned = prune_runs(RunStore(runs_dir), rules, dry_run=dry_run)
    data = {
        "dry_run": dry_run,
        "removed": [each._asdict() for each in pruned.removed],
        "kept": pruned.kept,
        "not_sealed": pruned.not_sealed,
    }
    answer("prune", data, "\n".join(_lines(pruned, dry_run=dry_run)), as_json=as_json)


def _rules(options: dict[str, object]) -> Retention:
    from critiqor.cli.settings import read_retention
    from critiqor.policy.retention import parse_retention

    try:
        rules = parse_retention(options) if options else read_retention()
    except ValueError as error:
        raise UsageError(str(error), fix="critiqor prune --help") from error
    if not rules.removes_runs:
        message = "no rule says which runs to remove"
        raise UsageError(message, fix="critiqor prune --max-age 30d --dry-run   (or set [retention] in your settings)")
    return rules


def _lines(pruned: Pruned, *, dry_run: bool) -> list[str]:
    from critiqor.cli.hints import add_runs_dir
    from critiqor.model.formatting import counted, format_size, list_names

    verb = "would remove" if dry_run else "removed"
    lines = [f"{verb} {run_id}  {format_size(size)}, {reason}" for run_id, size, reason in pruned.removed]
    freed = format_size(sum(each.size for each in pruned.removed))
    lines.append(f"{verb} {counted(len(pruned.removed), 'run')} ({freed}), {pruned.kept} kept")
    if pruned.not_sealed:
        lines.append(
            f"not touched, because they are being recorded or were not finalized: {list_names(pruned.not_sealed)}"
        )
        lines.append(f"Next: {add_runs_dir(f'critiqor finalize {pruned.not_sealed[0]}')}")
    return lines
