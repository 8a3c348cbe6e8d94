"""`critiqor runs`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import fleet_option, json_option, runs_dir_option
from critiqor.cli.output import answer, say
from critiqor.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from critiqor.cli.run_list import RunFilter, RunRow, SortKey
    from critiqor.run.store import RunStore


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@runs_dir_option
@click.option("--agent", metavar="PATTERN", help="Only runs of this agent, such as release-*.")
@click.option("--session", metavar="TEXT", help="Only runs with a session whose key contains this.")
@click.option(
    "--verdict",
    "verdicts",
    type=click.Choice(["unsafe", "review", "unknown", "ready"]),
    multiple=True,
    help="Only runs with this verdict; can be repeated.",
)
@click.option("--since", metavar="AGE|DATE", help="Only runs since then: 24h, 7d, 2026-11-02.")
@click.option("--tag", "tags", multiple=True, help="Only runs with this tag; can be repeated.")
@click.option(
    "--sort",
    type=click.Choice(["created", "trust", "cost", "events"]),
    default="created",
    show_default=True,
    help="Order: the newest, the lowest trust, the highest cost or the most events first.",
)
@click.option("--host", metavar="PATTERN", help="With --fleet: only runs of this host, such as build-*.")
@fleet_option
@json_option
def runs(
    runs_dir: str,
    agent: str | None,
    session: str | None,
    verdicts: tuple[str, ...],
    since: str | None,
    tags: tuple[str, ...],
    sort: SortKey,
    host: str | None,
    fleet: bool,
    as_json: bool,
) -> None:
    """List the runs in this folder, newest first.

    With --fleet, list the runs of all hosts, at most 1,000 of them; `critiqor pull HOST/RUN` fetches one.
    """
    from critiqor.cli.garbage import paused_collection
    from critiqor.cli.run_list import RunFilter, list_runs, sort_rows
    from critiqor.cli.texts.runs import runs_lines
    from critiqor.run.store import RunStore

    chosen = RunFilter(agent=agent, session=session, verdicts=verdicts, since_ms=_moment(since), tags=tags)
    if fleet:
        _list_fleet(chosen, host, sort, as_json=as_json)
        return
    if host is not None:
        raise UsageError("--host has no effect without --fleet", fix="critiqor runs --fleet")
    store = RunStore(runs_dir)
    with paused_collection():
        rows = list_runs(store)
    listed = sort_rows([row for row in rows if chosen.shows(row)], sort)
    if rows and not listed:
        answer("runs", [], f"No run of {len(rows)} matches the options.", as_json=as_json)
        return
    text = (
        "\n".join(runs_lines(listed))
        if rows
        else f"{_no_runs(store)}\nNext: {add_runs_dir('critiqor monitor openclaw')}"
    )
    data = [row.run for row in listed]
    answer("runs", data, text, as_json=as_json, drawing=lambda: _drawing(listed, _no_runs(store)))


def _list_fleet(chosen: RunFilter, host: str | None, sort: SortKey, *, as_json: bool) -> None:
    from critiqor.cli.fleet.runs import MAX_RUNS, list_fleet
    from critiqor.cli.texts.runs import runs_lines

    listed = list_fleet(chosen, host, sort)
    if listed.more:
        say(f"there are more than {MAX_RUNS:,} runs; narrow the list with --since, --agent, --host or --verdict")
    nothing = f"No run in the index {listed.address} matches the options."
    text = "\n".join(runs_lines(listed.rows)) if listed.rows else nothing
    data = [row.run for row in listed.rows]
    answer("runs", data, text, as_json=as_json, drawing=lambda: _drawing(listed.rows, nothing))


def _moment(since: str | None) -> int | None:
    """Return the beginning of the time that --since names, in milliseconds since 1970."""
    if since is None:
        return None
    from contextlib import suppress
    from datetime import datetime

    from critiqor.model import now_ms
    from critiqor.policy.retention import parse_age

    with suppress(ValueError):
        return round(datetime.fromisoformat(since).timestamp() * 1000)  # a date without a zone is a local one
    try:
        return now_ms() - parse_age(since)
    except ValueError as error:
        raise UsageError(f"--since: {error}, nor a date", fix="critiqor runs --since 7d") from error


def _no_runs(store: RunStore) -> str:
    folder = store.runs_dir
    return f"No runs in {folder} yet" + ("." if folder.exists() else ": there is no such folder.")


def _drawing(rows: Sequence[RunRow], nothing: str) -> RenderableType:
    from critiqor.cli.drawings.runs import runs_drawing

    return runs_drawing(rows, nothing)
