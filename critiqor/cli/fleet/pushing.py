"""Pushing from the command line: what finalize leaves in the outbox, the sender it starts, and what is printed."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from critiqor.cli.hints import add_runs_dir
from critiqor.cli.output import say
from critiqor.errors import CritiqorError
from critiqor.storage.paths import user_settings_path

if TYPE_CHECKING:
    from critiqor.fleet.manifest import Content
    from critiqor.fleet.settings import FleetSettings, Push
    from critiqor.run.store import Run


def expect_push(run: str | None, runs_dir: str, slot: str | None = None) -> bool:
    """Remember that a run is to be pushed, before it is sealed. Return whether runs are pushed after each seal.

    If the process is killed afterwards, the next one pushes the run. Sealing never fails because of this.
    """
    if _pushing_settings() is None:
        return False
    from critiqor.fleet.store.outbox import PushOutbox
    from critiqor.run.store import RunStore

    store = RunStore(runs_dir)
    with contextlib.suppress(CritiqorError, OSError):
        named = store.run(run) if run else store.active(slot)
        if named is not None and named.id in store:
            PushOutbox(store.paths).expect(named.id)
    return True


def push_in_background(run: Run, began: str) -> None:
    """Push a sealed run, and segments before it that were sealed since `began`, without waiting for it."""
    settings = _pushing_settings()
    if settings is None or settings.push is None:
        return
    from critiqor.fleet.__main__ import start_sender
    from critiqor.fleet.errors import INSTALL
    from critiqor.fleet.store.outbox import PushOutbox

    outbox = PushOutbox(run.paths)
    try:
        head, private = run.head(), []
        while head.seal is not None and (head.run_id == run.id or head.seal.sealed_at >= began):
            if settings.push == "shared" and head.metadata.visibility == "private":
                private.append(head.run_id)
                outbox.forget("waiting", head.run_id)
            else:
                outbox.expect(head.run_id)
            if head.continues is None or head.continues not in run.store:
                break
            head = run.store.run(head.continues).head()
        if run.id in private:
            fix = add_runs_dir(f"critiqor visibility {run.id} shared && critiqor push {run.id}")
            say(f"{run.id} stays on this machine: it is private, and only others are pushed\n  → {fix}")
            return
        before = outbox.state()
        if not _is_installed():
            say(f"{run.id} waits to be pushed: the extra `fleet` is not installed\n  → {INSTALL}")
            return
        if before.failures:
            waiting = len(outbox.names("waiting"))
            hint = add_runs_dir("critiqor push")
            say(f"runs that wait to be pushed: {waiting}; the last attempt failed: {before.reason}\n  → {hint}")
        start_sender(run.paths.runs_dir)
        what = describe_leaving(settings.push, settings.content)
        say(f"{run.id} is pushed to {settings.store} in the background ({what})")
    except (CritiqorError, OSError) as error:
        say(f"{run.id} could not be pushed: {error}\n  → {add_runs_dir(f'critiqor push {run.id}')}")


def push_waiting(runs_dir: str) -> None:
    """Start a sender for what an earlier process left behind, if it is time for the next attempt."""
    from critiqor.run.store import RunStore

    with contextlib.suppress(CritiqorError, OSError):
        settings = _pushing_settings()
        if settings is None or not _is_installed():
            return
        from critiqor.fleet.store.outbox import PushOutbox

        store = RunStore(runs_dir)
        outbox = PushOutbox(store.paths)
        if outbox.is_due() and not outbox.is_being_sent():
            from critiqor.fleet.__main__ import start_sender

            start_sender(store.runs_dir)


def describe_leaving(push: Push, content: Content) -> str:
    """Return which runs leave this machine, and what of them, for every message about a push."""
    which = "private runs too" if push == "private" else "no private runs"
    what = "full content" if content == "full" else "structure and numbers only"
    return f"{which}, {what}"


def _pushing_settings() -> FleetSettings | None:
    """Return the settings if runs are pushed after each seal."""
    if not user_settings_path().is_file():
        return None
    from critiqor.fleet.settings import read_fleet

    settings = read_fleet()
    return settings if settings.store is not None and settings.push is not None else None


def _is_installed() -> bool:
    from importlib.util import find_spec

    with contextlib.suppress(ImportError):
        return find_spec("obstore") is not None
    return False
