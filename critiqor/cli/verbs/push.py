"""`critiqor push [RUN…]`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer, say
from critiqor.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from critiqor.fleet.settings import FleetSettings
    from critiqor.fleet.store.sender import PushReport
    from critiqor.run.store import Run, RunStore


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("runs", metavar="[RUN]...", nargs=-1, shell_complete=run_names)
@click.option("--to", "url", metavar="URL", help="Object store: file://, s3://, gs://, az://.  [default: settings]")
@click.option(
    "--allow",
    type=click.Choice(["private", "shared"]),
    help="Which runs may leave: private ones too, or only others.  [default: settings]",
)
@click.option("--content", type=click.Choice(["full", "structure"]), help="What leaves of a run.  [default: settings]")
@runs_dir_option
@json_option
@click.pass_context
def push(
    ctx: click.Context,
    runs: tuple[str, ...],
    url: str | None,
    allow: Literal["private", "shared"] | None,
    content: Literal["full", "structure"] | None,
    runs_dir: str,
    as_json: bool,
) -> None:
    """Store sealed runs in an object store: the given ones, or all of this folder that are not stored yet.

    A stored run is never replaced. If the store cannot be reached, the runs wait in the outbox of the folder, and the
    next critiqor command tries again; with other options than those of the settings, repeat the command. It needs the
    extra `fleet`; from a checkout: pip install ".[fleet]"

    \b
    critiqor push                                                    what is not stored yet
    critiqor push run_012 --to s3://team-runs --allow private
    """
    import msgspec

    from critiqor.cli.progress import count_progress
    from critiqor.fleet.settings import describe_leaving, read_fleet, required_store
    from critiqor.fleet.store.object_store import checked_url, open_store
    from critiqor.fleet.store.sender import OutboxSender, push_runs
    from critiqor.run.store import RunStore

    settings = read_fleet()
    store = open_store(required_store(url))
    allow = allow or settings.push
    if allow is None:
        message = "it is not decided which runs may leave this machine"
        raise UsageError(message, fix="critiqor fleet init   (or --allow private for all, --allow shared)")
    is_usual = allow == settings.push and content in (None, settings.content)
    settings = msgspec.structs.replace(settings, content=content or settings.content)
    folder = RunStore(runs_dir)
    is_own = settings.store is not None and checked_url(settings.store) == store.url
    chosen = [folder.run(name) for name in runs] if runs else _unstored(folder, store.url, is_own=is_own)
    for run in chosen:
        run.head()  # a name that is mistyped is an error
    say(f"pushing to {store.url}: {describe_leaving(allow, settings.content)}")
    with count_progress("pushing", "run") as progress:
        if is_own:
            sender = OutboxSender(folder, settings, allow, progress)
            # Later attempts use the settings, so that a run waits only if its options are those of the settings.
            for run in chosen if is_usual else ():
                sender.outbox.expect(run.id)
            with sender.outbox.sending():
                report = sender.send(None if is_usual else chosen)
        else:
            report = push_runs(chosen, store, settings, allow, progress)
    answer("push", _data(report, store.url, settings, allow), "\n".join(_lines(report, store.url)), as_json=as_json)
    for problem in (report.problem, report.index_problem):
        if problem is not None:
            say(f"{problem.message}\n  → {add_runs_dir(problem.fix or 'critiqor push')}")
    if report.waiting and not is_usual:
        say("these runs do not wait in the outbox, because the options differ from the settings; repeat the command")
    failed = report.problem is not None or report.refused or report.waiting or report.unindexed
    ctx.exit(ExitCode.ERROR if failed else ExitCode.OK)


def _unstored(folder: RunStore, url: str, *, is_own: bool) -> Sequence[Run]:
    """Return the sealed runs of a folder that are not known to be stored, or have a later diagnosis since.

    `is_own` is whether the outbox knows what is in the store. A run that was pulled is in its store, and is not one of
    this machine for others.
    """
    from critiqor.errors import CritiqorError
    from critiqor.fleet.store.origin import is_from_elsewhere, read_origin
    from critiqor.fleet.store.outbox import PushOutbox
    from critiqor.storage.run_record import load_diagnosis

    outbox, found = PushOutbox(folder.paths), []
    for run in folder.runs():
        try:
            if is_from_elsewhere(run, url):
                continue
            seal, stored = run.head().seal, outbox.stored(run.id) if is_own else None
            if stored is not None and (stored.store != url or seal is None or seal.digest != stored.seal):
                stored = None
            known = stored or read_origin(run)
            is_known = known is not None and load_diagnosis(run.paths, run.id).rule_set_version == known.rule_set
        except CritiqorError:
            continue  # a damaged run does not hold up the others; naming it says what is wrong
        if seal is not None and not is_known:
            found.append(run)
    return found


def _data(report: PushReport, url: str, settings: FleetSettings, allow: str) -> dict[str, object]:
    return {
        "store": url,
        "push": allow,
        "content": settings.content,
        "stored": [
            {"run_id": each.manifest.run_id, "name": each.manifest.name, "is_new": each.is_new}
            for each in report.stored
        ],
        "private": report.private,
        "refused": [each._asdict() for each in report.refused],
        "waiting": report.waiting,
        "unindexed": report.unindexed,
        "problem": report.problem.message if report.problem is not None else None,
        "index_problem": report.index_problem.message if report.index_problem is not None else None,
    }


def _lines(report: PushReport, url: str) -> list[str]:
    from critiqor.model.formatting import counted

    new = [each for each in report.stored if each.is_new]
    lines = [f"{counted(len(new), 'run')} stored in {url}"]
    lines += [f"  {each.manifest.name}" for each in new[:20]] + (["  …"] if len(new) > 20 else [])
    if known := len(report.stored) - len(new):
        lines.append(f"{counted(known, 'run')} stored before")
    if report.private:
        lines.append(f"{counted(len(report.private), 'private run')} kept on this machine")
    lines += [f"{each.run_id} is not stored: {each.reason}" for each in report.refused]
    if report.waiting:
        lines.append(f"{counted(len(report.waiting), 'run')} waiting")
    if report.unindexed:
        lines.append(f"{counted(report.unindexed, 'run')} stored, and waiting for the index")
    return lines
