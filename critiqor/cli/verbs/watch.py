"""`critiqor watch [RUN]`."""

from __future__ import annotations

import sys
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import click

from critiqor.cli.completion_values import run_names
from critiqor.cli.hints import add_runs_dir, stop_command
from critiqor.cli.options import json_option, runs_dir_option, slot_option
from critiqor.cli.output import answer_line, say
from critiqor.cli.running_agent import say_if_running, warn_if_running
from critiqor.cli.terminal.capabilities import can_draw

if TYPE_CHECKING:
    from critiqor.live.verdict import LiveFinding, LiveVerdict
    from critiqor.model import RunHead
    from critiqor.run.store import Run, RunStore
    from critiqor.run.tail import Follower

INTERVAL_SECONDS = 0.25
"""Time between two updates."""
MAX_REMEMBERED = 500
"""Maximum number of latest events that are kept for the terminal."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", required=False, shell_complete=run_names)
@runs_dir_option
@slot_option
@json_option
def watch(run: str | None, runs_dir: str, slot: str | None, as_json: bool) -> None:
    """Follow the active run, or the given RUN, while it is recorded, until it ends or you press Ctrl-C.

    On a terminal, its figures, its verdict so far and its latest events are updated in place; in a pipe, each event and
    each finding is one line, from the first one on. With --json each line is a JSON document. The recorder is not
    disturbed. A run has a verdict if it is diagnosed while it is recorded, as `critiqor monitor openclaw` does.
    """
    from critiqor.live.verdict import read_live
    from critiqor.run.store import RunStore
    from critiqor.run.tail import Follower
    from critiqor.storage.lock import is_held

    store = RunStore(runs_dir)
    follower = Follower(_active(store, slot) if run is None else store.run(run))
    _refuse_finished(follower.head)
    run_id, over = follower.run.id, None
    with suppress(KeyboardInterrupt):
        over = _draw(follower) if can_draw(sys.stdout) and not as_json else _print(follower, as_json=as_json)
    end = _end(follower.head, over, is_finalizing=over is not None and is_held(store.paths.finalize_lock_path(run_id)))
    if as_json:
        verdict = read_live(follower.run)
        figures = follower.totals().figures
        data = {"run_id": run_id, "over": over, "figures": figures, "verdict": verdict, "next": end.following}
        answer_line("watch", {"end": data})
    else:
        say(f"{end.reason}. Next: {end.following}")
        if over is None:
            say_if_running(run_id, runs_dir)
    if over is not None:
        warn_if_running(run_id, runs_dir)


def _active(store: RunStore, slot: str | None) -> Run:
    from critiqor.run.active_slot import active_run_id

    return store.active(slot) or store.run(active_run_id(store.paths, "watch", slot))


def _refuse_finished(head: RunHead) -> None:
    from critiqor.errors import NoActiveSessionError

    if head.status in ("COMPLETED", "ABORTED"):
        message = f"{head.run_id} is {head.status}: no more events will come"
        raise NoActiveSessionError(message, fix=_end(head, head.status).following)


def _print(follower: Follower, *, as_json: bool) -> str:
    """Print events and findings until the run is over. Return why it is over."""
    from critiqor.cli.terminal.event_lines import format_event
    from critiqor.live.verdict import LiveFile
    from critiqor.model.sanitize import sanitize_for_terminal

    live, news = LiveFile(follower.run), WatchedFindings()
    sessions: set[str | None] = set()
    while True:
        update = follower.update()
        for event in update.events:
            sessions.add(event.session_key)
            if as_json:
                answer_line("watch", {"event": event})
            else:
                line = format_event(event, with_session=len(sessions - {None}) > 1)
                click.echo(sanitize_for_terminal(line.text))
        verdict = live.update()
        for kind, finding in news.update(verdict) if verdict is not None else ():
            if as_json:
                answer_line("watch", {"finding": finding, "kind": kind})
            else:
                click.echo(sanitize_for_terminal(_finding_line(kind, finding)))
        sys.stdout.flush()
        if update.over is not None:
            return update.over
        if not update.more:
            time.sleep(INTERVAL_SECONDS)


class WatchedFindings:
    """Compares verdicts: which findings were announced, changed or withdrawn since the last one."""

    def __init__(self) -> None:
        self._known: dict[str, LiveFinding] = {}

    def update(self, verdict: LiveVerdict) -> list[tuple[str, LiveFinding]]:
        """Return what is new in a verdict since it was watched last."""
        current = {finding.id: finding for finding in verdict.announced_findings}
        gone = [("withdrawn", finding) for key, finding in self._known.items() if key not in current]
        changed = [
            ("new" if key not in self._known else "updated", finding)
            for key, finding in current.items()
            if key not in self._known or self._known[key].severity != finding.severity
        ]
        self._known = current
        return [*gone, *changed]


def _finding_line(kind: str, finding: LiveFinding) -> str:
    from critiqor.model.formatting import format_session

    where = "" if finding.session_key is None else f" [{format_session(finding.session_key)}]"
    return f"{'':12}  ! finding, {kind:<16} {finding.severity} {finding.type}:{where} {finding.title}"


def _draw(follower: Follower) -> str:
    """Draw figures, the verdict and latest events until the run is over. Return why it is over."""
    from rich.live import Live

    from critiqor.cli.drawings.watch import LiveRun
    from critiqor.cli.terminal.cursor import restored_cursor
    from critiqor.cli.terminal.event_lines import EventLine, format_event
    from critiqor.cli.terminal.screen import screen
    from critiqor.live.verdict import LiveFile
    from critiqor.model import now_ms

    latest: deque[EventLine] = deque(maxlen=MAX_REMEMBERED)
    file = LiveFile(follower.run)
    sessions: set[str] = set()
    with restored_cursor(), Live(console=screen(sys.stdout), auto_refresh=False) as live:
        while True:
            update = follower.update()
            sessions.update(event.session_key for event in update.events if event.session_key is not None)
            several = len(sessions) > 1
            latest.extend(format_event(event, with_session=several) for event in update.events[-MAX_REMEMBERED:])
            hints = _hints(follower.head) if update.over is None else []
            file.update()
            drawing = LiveRun(follower.head, follower.totals(), list(latest), now_ms(), hints, file.verdict)
            live.update(drawing, refresh=True)
            if update.over is not None:
                return update.over
            if not update.more:
                time.sleep(INTERVAL_SECONDS)


def _hints(head: RunHead) -> list[str]:
    leaving = "Ctrl-C stops watching; the run continues"
    return [leaving] if head.owner is None else [leaving, f"to stop the agent: {stop_command(head.run_id)}"]


class _End(NamedTuple):
    """Why watching ended."""

    reason: str
    following: str
    """The suggested next command."""


def _end(head: RunHead, over: str | None, *, is_finalizing: bool = False) -> _End:
    run_id = head.run_id
    if head.status == "FINALIZING" and is_finalizing:
        following = f"critiqor show {run_id}   when that is done"
        return _End(f"{run_id} has ended, and another process is finalizing it", add_runs_dir(following))
    if over is None:
        following = f"critiqor watch {run_id}   (or: critiqor finalize {run_id})"
        return _End(f"{run_id} is still being recorded", add_runs_dir(following))
    verbs = {"COMPLETED": "show", "ABORTED": "diagnose"}
    return _End(f"{run_id} has ended: {over}", add_runs_dir(f"critiqor {verbs.get(head.status, 'finalize')} {run_id}"))
