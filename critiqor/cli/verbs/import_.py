"""`critiqor import FILE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from critiqor.cli.fleet.background_push import push_sealed
from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import json_option, runs_dir_option, visibility_option
from critiqor.cli.output import answer, warn
from critiqor.errors import ExitCode

if TYPE_CHECKING:
    from critiqor.importers import ImportedTrace


@click.command("import", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@runs_dir_option
@click.option(
    "--agent-id", envvar="CRITIQOR_AGENT_ID", help="Agent name for the imported runs.  [default: imported_agent]"
)
@click.option(
    "--tenant-id", envvar="CRITIQOR_TENANT_ID", help="Tenant that owns the imported runs.  [default: default]"
)
@visibility_option
@click.option(
    "--benchmark-id",
    envvar="CRITIQOR_BENCHMARK_ID",
    help="Benchmark to rank the imported runs in.  [default: imported]",
)
@json_option
@click.pass_context
def import_(ctx: click.Context, /, file: Path, runs_dir: str, as_json: bool, **metadata: str | None) -> None:
    """Import traces of other recorders from FILE: each becomes a run, which is sealed and diagnosed.

    FILE is a session transcript of OpenClaw, the events.jsonl of its trajectory export, the session.json of another
    runs folder, an ATIF trajectory, traces as JSON Lines (see docs/importing.md), or OpenTelemetry spans as JSON. A
    recording in progress is not disturbed.
    """
    import secrets

    from critiqor.cli.progress import count_progress
    from critiqor.importers import read_traces
    from critiqor.importers.formats import describe_format, extension_problems
    from critiqor.run.store import RunStore
    from critiqor.session import import_run

    given = {name: value for name, value in metadata.items() if value is not None}
    format_name = ""
    runs: list[dict[str, Any]] = []
    left_out: list[dict[str, Any]] = []
    with count_progress(f"reading {file.name}", "trace") as done:
        for trace in read_traces(file, secrets.token_bytes(32)):
            format_name = trace.format
            if trace.events:
                runs.append(_row(trace, import_run(trace, runs_dir, **given)))
            else:
                left_out.append({"trace_id": trace.trace_id, "notes": trace.notes})
            done()
    for problem in extension_problems(format_name):
        warn(problem)
    data = {"format": format_name, "runs": runs, "left_out": left_out}
    answer("import", data, _text(f"{file.name}: {describe_format(format_name)}", runs, left_out), as_json=as_json)
    push_sealed([RunStore(runs_dir).run(row["run_id"]) for row in runs])
    ctx.exit(ExitCode.OK if runs else ExitCode.ERROR)


def _row(trace: ImportedTrace, record: dict[str, Any]) -> dict[str, Any]:
    known = {name: record[name] for name in ("run_id", "headline", "trust_score", "confidence_score")}
    return {**known, "trace_id": trace.trace_id, "events": len(trace.events), "notes": trace.notes}


def _text(heading: str, runs: list[dict[str, Any]], left_out: list[dict[str, Any]]) -> str:
    from critiqor.cli.text_layout import page

    lines = [heading]
    for run in runs:
        lines.append(f"{run['run_id']}  {run['trace_id']}  {run['events']} events  {run['headline']}")
        lines += [f"    · {note}" for note in run["notes"]]
    for trace in left_out:
        lines.append(f"left out  {trace['trace_id']}  {'; '.join(trace['notes']) or 'no events'}")
    following = add_runs_dir(f"critiqor show {runs[0]['run_id']}") if runs else None
    lines.append(f"Next: {following}" if following else "No trace could be imported; the reasons are above.")
    return page(lines)
