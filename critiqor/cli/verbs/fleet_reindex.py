"""`critiqor fleet reindex`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.options import index_option, json_option, store_option
from critiqor.cli.output import answer, warn
from critiqor.errors import ExitCode

if TYPE_CHECKING:
    from critiqor.fleet.index.rebuild import Reindexed


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@store_option
@index_option
@json_option
@click.pass_context
def reindex(ctx: click.Context, store_url: str | None, index_url: str | None, as_json: bool) -> None:
    """Add to the index what is in the store and missing in it: all runs, if the index is new.

    It can be interrupted and repeated, and other hosts can push at the same time. A run whose bundle is damaged is
    reported and left out; the exit code is 1 then.
    """
    from critiqor.cli.fleet.opening import opened_index
    from critiqor.cli.progress import count_progress
    from critiqor.fleet.index.rebuild import reindex as rebuild
    from critiqor.fleet.settings import required_store
    from critiqor.fleet.store.object_store import open_store

    store = open_store(required_store(store_url))
    with opened_index(index_url) as index, count_progress("reading the store", "run") as progress:
        result = rebuild(store, index, progress)
        address = index.address
    for problem in result.problems:
        warn(problem)
    answer("fleet reindex", result, _text(result, store.url, address), as_json=as_json)
    if result.problems:
        ctx.exit(int(ExitCode.ERROR))


def _text(result: Reindexed, store: str, index: str) -> str:
    from critiqor.model.formatting import counted

    lines = [
        f"{counted(result.runs, 'run')} in {store}",
        f"{counted(result.added, 'diagnosis', 'diagnoses')} added to the index {index}",
    ]
    if result.other_tenants:
        lines.append(f"{counted(result.other_tenants, 'run')} of other tenants left out")
    if result.problems:
        lines.append(f"{counted(len(result.problems), 'problem')}: see the messages")
    return "\n".join([*lines, "Next: critiqor runs --fleet"])
