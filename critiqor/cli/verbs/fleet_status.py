"""`critiqor fleet status`."""

from __future__ import annotations

from typing import Any

import click

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@runs_dir_option
@click.option("--offline", is_flag=True, help="Do not try to reach the store.")
@json_option
def status(runs_dir: str, offline: bool, as_json: bool) -> None:
    """Show where this machine stores runs, what leaves it, and what of this folder is stored or waits, and why."""
    from critiqor.errors import CritiqorError
    from critiqor.fleet.host import host_id
    from critiqor.fleet.settings import describe_leaving, masked, read_fleet
    from critiqor.fleet.store.object_store import open_store
    from critiqor.fleet.store.outbox import PushOutbox
    from critiqor.run.store import RunStore

    settings = read_fleet()
    outbox = PushOutbox(RunStore(runs_dir).paths)
    state, counts = outbox.state(), outbox.counts()
    problem = None
    if settings.store is not None and not offline:
        try:
            open_store(settings.store).check()
        except CritiqorError as error:
            problem = str(error)
    refused = {name: outbox.refusal(name) for name in outbox.names("refused")}
    data: dict[str, Any] = {
        "store": settings.store,
        "store_problem": problem,
        "index": masked(settings.index) if settings.index else None,
        "push": settings.push,
        "content": settings.content,
        "host": host_id(settings, settings.content),
        **counts._asdict(),
        "refusals": refused,
        "failures": state.failures,
        "reason": state.reason,
    }
    if settings.store is None:
        text = ["no store is configured: nothing leaves this machine", "  → critiqor fleet init"]
    else:
        push = describe_leaving(settings.push, settings.content) if settings.push else "nothing (critiqor fleet init)"
        text = [
            f"store: {settings.store}" + ("" if offline else f" ({problem or 'reachable'})"),
            f"index: {data['index'] or 'SQLite, a file of yours'}",
            f"this machine: {data['host']}",
            f"what leaves it after each seal: {push}",
            f"runs of this folder: {counts.stored} stored, {counts.waiting} waiting, {counts.indexing} waiting for the "
            f"index, {counts.refused} refused",
        ]
        text += [f"  {name}: {reason}" for name, reason in refused.items()]
        if state.failures:
            text.append(f"the last attempt failed: {state.reason}\n  → {add_runs_dir('critiqor push')}")
    answer("fleet", data, "\n".join(text), as_json=as_json)
