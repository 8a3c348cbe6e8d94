"""What happens after a seal: the run is put into the outbox, and a sender is started that nobody waits for."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from importlib.util import find_spec
from typing import NamedTuple

from critiqor.errors import CritiqorError
from critiqor.fleet.__main__ import start_sender
from critiqor.fleet.errors import INSTALL
from critiqor.fleet.settings import FleetSettings, describe_leaving, may_leave, read_fleet
from critiqor.fleet.store.origin import is_from_elsewhere
from critiqor.fleet.store.outbox import PushOutbox
from critiqor.model import RunHead
from critiqor.model.formatting import counted
from critiqor.run.store import Run, RunStore


class Note(NamedTuple):
    """What a user should know about a push."""

    message: str
    fix: str | None = None
    """What to type next."""


def expect_push(run: Run) -> None:
    """Remember that a run is to be pushed, before it is sealed, if the settings say so.

    If the process is killed afterwards, the next one pushes the run. Sealing never fails because of this.
    """
    with contextlib.suppress(CritiqorError, OSError):
        if read_fleet().pushes_after_seal and run.id in run.store:
            PushOutbox(run.paths).expect(run.id)


def push_in_background(runs: Sequence[Run], began: str | None = None) -> list[Note]:
    """Push sealed runs of one folder without waiting for it, if the settings say so. Return what to tell the user.

    With `began`, also push segments before them that were sealed since then. Nothing is raised: the runs are sealed,
    whatever happens here.
    """
    try:
        settings = read_fleet()
        return _push(runs, began, settings) if settings.pushes_after_seal and runs else []
    except (CritiqorError, OSError) as error:
        return [Note(f"{_named(runs)} could not be pushed: {error}", "critiqor push")]


def push_waiting(store: RunStore) -> None:
    """Start a sender for what an earlier process left behind, if it is time for the next attempt."""
    with contextlib.suppress(CritiqorError, OSError):
        outbox = PushOutbox(store.paths)
        if not read_fleet().pushes_after_seal or not _is_installed():
            return
        if outbox.is_due() and not outbox.is_being_sent():
            start_sender(store.runs_dir)


def _push(runs: Sequence[Run], began: str | None, settings: FleetSettings) -> list[Note]:
    push = settings.push or "shared"
    outbox = PushOutbox(runs[0].paths)
    leaving, private = [], []
    store = runs[0].store
    for head in (head for run in runs for head in _sealed_since(run, began)):
        if is_from_elsewhere(store.run(head.run_id), settings.store):
            continue
        if may_leave(head, push):
            outbox.expect(head.run_id)
            leaving.append(head.run_id)
        else:
            outbox.forget("waiting", head.run_id)
            private.append(head.run_id)
    notes = []
    for run in (run for run in runs if run.id in private):
        fix = f"critiqor visibility {run.id} shared && critiqor push {run.id}"
        notes.append(Note(f"{run.id} stays on this machine: it is private, and only others are pushed", fix))
    named = [run for run in runs if run.id in leaving]
    if not named:
        return notes
    if not _is_installed():
        return [*notes, Note(f"{_named(named)} waits to be pushed: the extra `fleet` is not installed", INSTALL)]
    state = outbox.state()
    if state.failures:
        text = f"{counted(len(outbox.names('waiting')), 'run')} to be pushed; the last attempt failed: {state.reason}"
        notes.append(Note(text, "critiqor push"))
    start_sender(outbox.runs_dir)
    what = describe_leaving(push, settings.content)
    verb = "is" if len(named) == 1 else "are"
    return [*notes, Note(f"{_named(named)} {verb} pushed to {settings.store} in the background ({what})")]


def _named(runs: Sequence[Run]) -> str:
    return runs[0].id if len(runs) == 1 else counted(len(runs), "run")


def _sealed_since(run: Run, began: str | None) -> list[RunHead]:
    """Return the head of a run, and of those segments before it that its finalize has sealed as well."""
    heads = [run.head()]
    while began is not None and (before := heads[-1].continues) is not None and before in run.store:
        head = run.store.run(before).head()
        if head.seal is None or head.seal.sealed_at < began:
            break
        heads.append(head)
    return heads


def _is_installed() -> bool:
    with contextlib.suppress(ImportError):
        return find_spec("obstore") is not None
    return False
