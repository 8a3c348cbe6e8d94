"""`critiqor fleet init`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from critiqor.cli.options import json_option
from critiqor.cli.output import answer, say
from critiqor.errors import UsageError

if TYPE_CHECKING:
    from critiqor.fleet.settings import FleetSettings

_WHICH = "Which runs leave this machine after each seal: private ones too, or only those that you share?"
_WHAT = "What leaves of a run: its full content, or structure and numbers only?"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--store", metavar="URL", help="Object store: file://, s3://, gs:// or az://.")
@click.option("--index", metavar="URL", help="postgresql://…  [default: a SQLite file of yours]")
@click.option("--push", type=click.Choice(["private", "shared"]), help="Which runs leave: private ones too, or others.")
@click.option("--content", type=click.Choice(["full", "structure"]), help="What leaves of a run.")
@click.option("--host", metavar="NAME", help="Name of this machine in the store.  [default: a random id]")
@json_option
def init(
    store: str | None,
    index: str | None,
    push: Literal["private", "shared"] | None,
    content: Literal["full", "structure"] | None,
    host: str | None,
    as_json: bool,
) -> None:
    """Choose the store of this machine, and what may leave it. Without options, it asks.

    Runs are private by default, so `--push shared` pushes only those whose visibility you change. The choice is written
    into the table [fleet] of your settings; what is not named keeps its value.

    \b
    critiqor fleet init --store s3://team-runs --push private --content full --host build-7
    """
    import msgspec

    from critiqor.cli.terminal.capabilities import is_interactive
    from critiqor.fleet.host import checked_host, host_id
    from critiqor.fleet.settings import masked, read_fleet, save_fleet
    from critiqor.fleet.store.object_store import checked_url, open_store

    before = read_fleet()
    asks = is_interactive() and not as_json
    store = store or (click.prompt("Store (URL)", default=before.store, err=True) if asks else before.store)
    push = push or (_ask(_WHICH, ["private", "shared"], before.push or "shared") if asks else before.push)  # type: ignore[assignment]
    content = content or (_ask(_WHAT, ["full", "structure"], before.content) if asks else before.content)  # type: ignore[assignment]
    if not store:
        raise UsageError("no store was named", fix="critiqor fleet init --store s3://BUCKET --push private")
    if push is None or content is None:
        message = "it is not decided which runs may leave this machine"
        raise UsageError(message, fix=f"critiqor fleet init --store {store} --push private   (or --push shared)")
    settings = msgspec.structs.replace(
        before,
        store=checked_url(store),
        index=index or before.index,
        push=push,
        content=content,
        host=checked_host(host) if host else before.host,
    )
    opened = open_store(settings.store or "")
    path = save_fleet(settings)
    from critiqor.fleet.errors import FleetError

    try:
        opened.check()
    except FleetError as error:
        say(f"the settings are saved, but the store cannot be used yet: {error.message}\n  → critiqor fleet status")
    data = {**msgspec.to_builtins(settings), "host": host_id(settings, content), "settings": str(path)}
    data["index"] = settings.index and masked(settings.index)
    answer("fleet", data, "\n".join(_lines(settings, str(path))), as_json=as_json)


def _ask(question: str, choices: list[str], default: str) -> str:
    answer_: str = click.prompt(question, type=click.Choice(choices), default=default, err=True)
    return answer_


def _lines(settings: FleetSettings, path: str) -> list[str]:
    from critiqor.fleet.host import host_id
    from critiqor.fleet.settings import describe_leaving

    assert settings.push is not None
    return [
        f"written to {path}",
        f"store: {settings.store}",
        f"this machine: {host_id(settings, settings.content)}",
        f"what leaves it after each seal: {describe_leaving(settings.push, settings.content)}",
        "Next: critiqor push   (stores the runs that are sealed already)",
    ]
