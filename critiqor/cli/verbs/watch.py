"""`critiqor watch [RUN]`."""

from __future__ import annotations

import sys
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.hints import add_runs_dir
from critiqor.cli.options import json_option, runs_dir_option
from critiqor.cli.output import answer_line, can_draw, say
from critiqor.cli.running_agent import say_how_to_stop, warn_if_running

if TYPE_CHECKING:
    from critiqor.run.tail import Follower

INTERVAL_SECONDS = 0.25
"""Between two looks."""
MOST_REMEMBERED = 500
"""Events that a terminal may have room for."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", required=False, shell_complete=run_names)
@runs_dir_option
@json_option
def watch(run: str | None, runs_dir: str, as_json: bool) -> None:
    """Follow the active session, or RUN, while it is recorded, until it ends or Ctrl-C is typed.

    On a terminal its figures and what happened last are kept up to date; in a pipe each event is one line, from the
    first on. With --json each line is a document of its own. The recorder is not disturbed, and does not even notice.
    """
    from critiqor.run.tail import Follower

    run_id = run or _active(runs_dir)
    follower = Follower(run_id, runs_dir)
    _refuse_what_is_over(follower.head)
    over = None
    with suppress(KeyboardInterrupt):
        over = _drawn(follower) if can_draw(sys.stdout) and not as_json else _told(follower, as_json=as_json)
    reason, following = _end(follower.head, over)
    if as_json:
        data = {"run_id": run_id, "over": over, "figures": follower.figures(), "next": following}
        answer_line("watch", {"end": data})
    else:
        say(f"{reason}. Next: {following}")
        if over is None:
            say_how_to_stop(run_id, runs_dir)
    if over is not None:
        warn_if_running(run_id, runs_dir)


def _active(runs_dir: str) -> str:
    from critiqor.errors import NoActiveSessionError
    from critiqor.run.lifecycle import load_active_session

    record = load_active_session(runs_dir)
    if record is None:
        fix = "critiqor monitor openclaw   (or name a run: critiqor runs)"
        raise NoActiveSessionError("there is no active session to watch", fix=fix)
    return str(record["run_id"])


def _refuse_what_is_over(head: dict[str, Any]) -> None:
    from critiqor.errors import NoActiveSessionError

    if head["status"] in ("COMPLETED", "ABORTED"):
        message = f"{head['run_id']} is {head['status']}: nothing more will happen in it"
        raise NoActiveSessionError(message, fix=_end(head, head["status"])[1])


def _told(follower: Follower, *, as_json: bool) -> str:
    """Print what happens, until the run is over; returns why it is."""
    from critiqor.cli.output import plain
    from critiqor.cli.terminal.event_lines import format_event

    while True:
        look = follower.look()
        for event in look.events:
            if as_json:
                answer_line("watch", {"event": event})
            else:
                click.echo(plain(format_event(event).text))
        sys.stdout.flush()
        if look.over is not None:
            return look.over
        if not look.more:
            time.sleep(INTERVAL_SECONDS)


def _drawn(follower: Follower) -> str:
    """The same as a live table."""
    from rich.live import Live

    from critiqor.cli.terminal.cursor import restored_cursor
    from critiqor.cli.terminal.event_lines import EventLine, format_event
    from critiqor.cli.terminal.screen import screen
    from critiqor.cli.views.watch import LiveRun
    from critiqor.model import now_ms

    latest: deque[EventLine] = deque(maxlen=MOST_REMEMBERED)
    with restored_cursor(), Live(console=screen(sys.stdout), auto_refresh=False) as live:
        while True:
            look = follower.look()
            latest.extend(format_event(event) for event in look.events[-MOST_REMEMBERED:])
            hints = _hints(follower.head) if look.over is None else []
            live.update(LiveRun(follower.head, follower.figures(), list(latest), now_ms(), hints), refresh=True)
            if look.over is not None:
                return look.over
            if not look.more:
                time.sleep(INTERVAL_SECONDS)


def _hints(head: dict[str, Any]) -> list[str]:
    from critiqor.cli.running_agent import stop_command

    leaving = "Ctrl-C leaves, the run goes on"
    return [leaving] if head["owner"] is None else [leaving, f"to stop it: {stop_command(head['run_id'])}"]


def _end(head: dict[str, Any], over: str | None) -> tuple[str, str]:
    """Why watching ended, and what to type next."""
    run_id, status = head["run_id"], head["status"]
    reason = f"{run_id} goes on unwatched" if over is None else f"{run_id} is over: {over}"
    if over is None:
        return reason, add_runs_dir(f"critiqor watch {run_id}   (or: critiqor finalize {run_id})")
    verbs = {"COMPLETED": "show", "ABORTED": "diagnose"}
    return reason, add_runs_dir(f"critiqor {verbs.get(status, 'finalize')} {run_id}")
