"""`critiqor verify RUN`, `critiqor verify --store URL`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer
from critiqor.cli.text_layout import page
from critiqor.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from critiqor.storage.seals.verification import Verification


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("runs", metavar="RUN...", nargs=-1, shell_complete=run_names)
@click.option(
    "--store", "store_url", metavar="URL", help="Verify runs of an object store: HOST/RUN..., or all of them."
)
@runs_dir_option
@json_option
@click.pass_context
def verify(ctx: click.Context, runs: tuple[str, ...], store_url: str | None, runs_dir: str, as_json: bool) -> None:
    """Check that evidence, record and diagnosis of RUN are unchanged, where they are not, and who signed them.

    The sealed evidence is diagnosed once more and compared with the diagnosis. With --store, bundles, seals and
    signatures of stored runs are checked, without a new diagnosis.
    """
    if store_url is not None:
        is_intact = _verify_store(store_url, runs, as_json=as_json)
        ctx.exit(ExitCode.OK if is_intact else ExitCode.ERROR)
    if len(runs) != 1:
        message = "name one run" if runs else "name a run, or a store"
        raise UsageError(message, fix="critiqor verify RUN   (or critiqor verify --store URL)")
    from critiqor.run.store import RunStore

    [run] = runs
    result = RunStore(runs_dir).run(run).verify(rediagnose=True)
    if result.intact:
        text = f"{run}: the seal is intact ({result.events} events, {result.digest})"
    else:
        text = f"{run}: the seal is BROKEN"
    answer("verify", result, page([text, *_lines(result)]), as_json=as_json, drawing=lambda: _drawing(result))
    ctx.exit(ExitCode.OK if result.intact else ExitCode.ERROR)


def _verify_store(url: str, runs: tuple[str, ...], *, as_json: bool) -> bool:
    """Verify the given runs of a store, or all of them. Print the result, and return whether nothing is broken."""
    from critiqor.cli.progress import count_progress
    from critiqor.fleet.reference import find_run, parse_reference
    from critiqor.fleet.store.object_store import open_store
    from critiqor.fleet.store.verification import StoreSummary, incomplete_bundles, verify_store
    from critiqor.model.formatting import counted

    references = [parse_reference(text) for text in runs]
    store = open_store(url)
    store.check()
    manifests = (find_run(store, each) for each in references) if references else store.manifests()
    found = StoreSummary(holds_intact=bool(references))
    with count_progress("verifying", "run") as progress:
        for result in verify_store(store, manifests):
            found.add(result)
            progress()
    incomplete = [] if references else incomplete_bundles(store)
    lines = [
        f"{counted(found.verified, 'run')} verified in {store.url}: {found.broken} broken, {found.signed} signed by a "
        "trusted signer"
    ]
    broken = [result for result in found.runs if not result.intact]
    lines += [f"  NO  {result.name}: {problem}" for result in broken for problem in result.problems]
    lines += [f"  and {found.broken - len(broken)} more"] if found.broken > len(broken) else []
    lines += [f"  NO  {problem}" for problem in store.problems]
    if incomplete:
        lines.append(f"{counted(len(incomplete), 'bundle')} without a manifest: a push is under way or was killed")
    data = {
        "store": store.url,
        "verified": found.verified,
        "broken": found.broken,
        "signed": found.signed,
        "runs": found.runs,
        "problems": store.problems,
        "incomplete": incomplete,
    }
    answer("verify", data, "\n".join(lines), as_json=as_json)
    return not found.broken and not store.problems


def _lines(result: Verification) -> Iterator[str]:
    marks = {"passed": "ok", "failed": "NO", "not checked": "--"}
    for check in result.checks:
        yield f"  {marks[check.state]}  {check.name}: {check.explanation}"
        if check.fix is not None and check.state == "failed":
            yield f"      → {add_runs_dir(check.fix)}"


def _drawing(result: Verification) -> RenderableType:
    from critiqor.cli.drawings.verify import seal_drawing

    return seal_drawing(result)
