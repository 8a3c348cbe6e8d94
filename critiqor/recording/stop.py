"""An agent that runs on: which processes of a run are still there, and how they are ended.

A run that was launched by `critiqor monitor` is ended through its monitor, which writes down how it ended. Where that
is gone, or where nothing listens to it, the processes themselves are ended. Both are known beyond doubt before anything
is sent: the monitor by its pid and its start time, the agent as its child or by the mark in its environment.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import psutil

from critiqor.errors import CritiqorError, UsageError
from critiqor.model import EventType, RunHead
from critiqor.processes import living, marked_processes
from critiqor.recording.supervisor import GRACE_SECONDS, POLL_SECONDS
from critiqor.run.store import DEFAULT_RUNS_DIR, Run, is_owner_alive
from critiqor.storage import SessionPaths, paths_for
from critiqor.storage import run_record as records

WRITING_SECONDS = 10.0
"""How long a monitor may take to write down the end of what it launched."""
FIRST_EVENTS = 50
"""Among which the launch of the process stands, if there was one."""


class RunningAgent(NamedTuple):
    """The processes of a run that are still there."""

    pid: int
    """Of the process that was launched, or of the oldest one that is left of it."""
    processes: list[psutil.Process]
    monitor: psutil.Process | None
    """Who launched it and waits for its end."""


def running_agent(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> RunningAgent | None:
    """What still runs of an agent that Critiqor launched; None where nothing does, or where it was attached to."""
    paths = paths_for(runs_dir)
    head = records.load_head(paths, run_id)
    if head.owner is None:
        return None
    found = {process.pid: process for process in marked_processes(_mark(paths, run_id))}
    monitor, launched = None, None
    if is_owner_alive(head):
        launched = _child_of(head.owner.pid, _launched_pid(paths, head))
        monitor = psutil.Process(head.owner.pid) if launched is not None else None
    for root in [*found.values(), *([launched] if launched is not None else [])]:
        found |= {process.pid: process for process in _with_children(root)}
    found.pop(psutil.Process().pid, None)
    if not found:
        return None
    oldest = min(found.values(), key=_age_order)
    return RunningAgent(launched.pid if launched is not None else oldest.pid, list(found.values()), monitor)


def stop_agent(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR, grace: float = GRACE_SECONDS) -> int:
    """End everything that still runs of a run; returns how many processes that were.

    They are asked first, and killed after `grace` seconds. An error for an OpenClaw that was attached to, and for
    processes that cannot be ended.
    """
    if records.load_head(paths_for(runs_dir), run_id).owner is None:
        raise UsageError(
            f"{run_id} is of an OpenClaw that was attached to: Critiqor did not launch it, and does not end it",
            fix="stop its service by its own means: Ctrl-C where it runs, or whatever started it",
        )
    agent = running_agent(run_id, runs_dir)
    if agent is None:
        return 0
    _ask(agent)
    ended = {process.pid for process in agent.processes}
    if _left_after(grace, agent.processes):
        # Those that came meanwhile as well.
        agent = running_agent(run_id, runs_dir) or agent
        ended |= {process.pid for process in agent.processes}
        _send(agent.processes, signal.SIGKILL)
        _left_after(grace, agent.processes)
    if agent.monitor is not None:
        with contextlib.suppress(psutil.Error):
            agent.monitor.wait(WRITING_SECONDS)
    left = running_agent(run_id, runs_dir)
    if left is not None:
        _send(left.processes, signal.SIGKILL)  # started while the others were ended
        if _left_after(grace, left.processes):
            pids = " ".join(str(process.pid) for process in living(left.processes))
            raise CritiqorError(f"processes of {run_id} cannot be ended: {pids}", fix=f"sudo kill -KILL {pids}")
    return len(ended)


def _ask(agent: RunningAgent) -> None:
    if agent.monitor is None:
        _send(agent.processes, signal.SIGTERM)
        return
    # The monitor passes it on, and ends whatever is left of the tree. One that was stopped has to go on to hear it.
    _send([agent.monitor], signal.SIGTERM)
    _send([agent.monitor], signal.SIGCONT)


def _send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):  # which knows a pid that somebody else has got meanwhile
            process.send_signal(number)


def _left_after(seconds: float, processes: Iterable[psutil.Process]) -> bool:
    """Whether any of them is still there after that time."""
    until = time.monotonic() + seconds
    while living(processes):
        if time.monotonic() >= until:
            return True
        time.sleep(POLL_SECONDS)
    return False


def _mark(paths: SessionPaths, run_id: str) -> dict[str, str]:
    return {"CRITIQOR_RUN_ID": run_id, "CRITIQOR_RUNS_DIR": str(paths.runs_dir)}


def _launched_pid(paths: SessionPaths, head: RunHead) -> int | None:
    """The pid that the monitor noted; None where the session was not begun by launching anything."""
    run_id = head.run_id
    with contextlib.suppress(CritiqorError, OSError, ValueError):
        if head.seal is None:
            log = [note for note in records.load(paths, run_id).event_log if isinstance(note, dict)]
            notes = [(note.get("event_type"), note.get("payload")) for note in log]
        else:
            events = islice(Run(run_id, paths).events(), FIRST_EVENTS)
            notes = [(event.event_type, event.payload) for event in events if event.source_layer == "supervisor"]
        for kind, payload in notes:
            pid = payload.get("pid") if kind == EventType.PROCESS_START and isinstance(payload, dict) else None
            if isinstance(pid, int):
                return pid
    return None


def _child_of(parent: int, pid: int | None) -> psutil.Process | None:
    """That process, if it lives and is a child of this one: a pid alone can belong to anybody by now."""
    if pid is None:
        return None
    with contextlib.suppress(psutil.Error, ValueError, OverflowError):
        process = psutil.Process(pid)
        return process if process.ppid() == parent and process.status() != psutil.STATUS_ZOMBIE else None
    return None


def _with_children(root: psutil.Process) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return [root, *living(root.children(recursive=True))]
    return []


def _age_order(process: psutil.Process) -> tuple[float, int]:
    with contextlib.suppress(psutil.Error):
        return process.create_time(), process.pid
    return float("inf"), process.pid
