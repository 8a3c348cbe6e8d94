"""Find and stop the processes of a run.

A run that was launched by `critiqor monitor` is stopped through its monitor, which records how it ended. If the monitor
is gone or does not react, the processes themselves are ended. Processes are identified before a signal is sent: the
monitor by its pid and start time, the agent as its child or by its environment variables.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import psutil

from critiqor.errors import CritiqorError, UsageError
from critiqor.live.stop_request import StoppedSession, is_stop_taken, request_stop, withdraw_stop
from critiqor.model import EventType, RunHead
from critiqor.model.formatting import list_names
from critiqor.model.sanitize import sanitize
from critiqor.processes import LeftProcess, left_processes, living, marked_processes
from critiqor.recording.supervisor import GRACE_SECONDS, POLL_SECONDS
from critiqor.run.owner import is_owner_alive, process_mark
from critiqor.run.store import DEFAULT_RUNS_DIR, Run
from critiqor.storage import SessionPaths, paths_for
from critiqor.storage import run_record as records

WRITING_SECONDS = 10.0
"""How long a monitor may take to record the end of the process it launched."""
TAKING_SECONDS = 3.0
"""How long a request to stop waits for the live diagnosis of the recording, which looks for it often."""
FIRST_EVENTS = 50
"""Events at the beginning of the evidence that are searched for the launch of the process."""


class AgentProcesses(NamedTuple):
    """The living processes of the agent of a run."""

    pid: int
    """Pid of the launched process, or of the oldest one that is left."""
    is_launched: bool
    """Whether the launched process itself is alive, and not only processes that it has started."""
    processes: list[psutil.Process]
    monitor: psutil.Process | None
    """The process that launched it and waits for its end; None if it is gone."""


def find_agent_processes(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR) -> AgentProcesses | None:
    """Return the living processes of a launched agent; None if there are none, or if it was only attached to."""
    paths = paths_for(runs_dir)
    head = records.load_head(paths, run_id)
    if head.owner is None:
        return None
    found = {process.pid: process for process in marked_processes(process_mark(paths, head))}
    monitor, launched = None, None
    launched_pid = _launched_pid(paths, head)
    if is_owner_alive(head):
        launched = _child_of(head.owner.pid, launched_pid)
        monitor = psutil.Process(head.owner.pid) if launched is not None else None
    for root in [*found.values(), *([launched] if launched is not None else [])]:
        found |= {process.pid: process for process in _with_children(root)}
    found.pop(psutil.Process().pid, None)
    if not found:
        return None
    is_launched = launched_pid in found
    pid = launched_pid if launched_pid is not None and is_launched else min(found.values(), key=_age_order).pid
    return AgentProcesses(pid, is_launched, list(found.values()), monitor)


def describe_running(agent: AgentProcesses) -> str:
    """Return which processes of a run there are to stop, as a clause."""
    if agent.is_launched:
        return f"OpenClaw (pid {agent.pid}) is still running"
    left = describe_left(left_processes(agent.processes))
    return f"OpenClaw has ended, but {left}"


def describe_left(left: Sequence[LeftProcess]) -> str:
    """Return which processes are left to be stopped after the launched one has ended, as a clause."""
    names = list_names(f"{process.pid} ({sanitize(process.name)})" for process in left)
    are = "process that it started is" if len(left) == 1 else "processes that it started are"
    return f"{len(left)} {are} still running: {names}"


def stop_agent(run_id: str, runs_dir: str | Path = DEFAULT_RUNS_DIR, grace: float = GRACE_SECONDS) -> int:
    """End all processes of a run and return their number.

    They get TERM first and are killed after `grace` seconds. Raises `UsageError` for an OpenClaw that was attached to,
    and `CritiqorError` for processes that cannot be ended.
    """
    if records.load_head(paths_for(runs_dir), run_id).owner is None:
        raise UsageError(
            f"{run_id} was recorded from an attached OpenClaw, which Critiqor did not launch and does not stop",
            fix="stop OpenClaw where it runs: Ctrl-C, or its service manager",
        )
    agent = find_agent_processes(run_id, runs_dir)
    if agent is None:
        return 0
    _terminate(agent)
    ended = {process.pid for process in agent.processes}
    if _left_after(grace, agent.processes):
        # Including processes that were started in the meantime.
        agent = find_agent_processes(run_id, runs_dir) or agent
        ended |= {process.pid for process in agent.processes}
        _send(agent.processes, signal.SIGKILL)
        _left_after(grace, agent.processes)
    if agent.monitor is not None:
        with contextlib.suppress(psutil.Error):
            agent.monitor.wait(WRITING_SECONDS)
    left = find_agent_processes(run_id, runs_dir)
    if left is not None:
        _send(left.processes, signal.SIGKILL)  # started while the others were ended
        if _left_after(grace, left.processes):
            pids = " ".join(str(process.pid) for process in living(left.processes))
            raise CritiqorError(f"processes of {run_id} cannot be ended: {pids}", fix=f"sudo kill -KILL {pids}")
    return len(ended)


def stop_recorded(run: Run, sessions: Sequence[StoppedSession] = ()) -> None:
    """Stop sessions of a run that is being recorded, or all of it, as a limit with the action `stop` does.

    If nobody diagnoses the recording, and all of it is to be stopped, the processes that were launched for it are ended
    as `stop_agent` does. Other sessions of a gateway would end with them, so this is not done to stop some of them.
    """
    request_stop(run, sessions)
    until = time.monotonic() + TAKING_SECONDS
    while not is_stop_taken(run):
        if time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        elif withdraw_stop(run):
            if run.head().owner is None:
                raise CritiqorError(
                    f"{run.id} was not stopped: no guard follows this recording of an attached OpenClaw",
                    fix="start `critiqor guard` and try again, or stop OpenClaw where it runs",
                )
            if sessions:
                raise CritiqorError(
                    f"nobody took the request to stop a session of {run.id}: no live diagnosis reacts",
                    fix=f"try again, or end OpenClaw with all its sessions: critiqor abort --stop {run.id}",
                )
            if not stop_agent(run.id, run.paths.runs_dir):
                raise CritiqorError(f"no process of {run.id} was found", fix=f"critiqor finalize {run.id}")
            return


def _terminate(agent: AgentProcesses) -> None:
    if agent.monitor is None:
        _send(agent.processes, signal.SIGTERM)
        return
    # The monitor forwards the signal and ends the rest of the tree. A stopped monitor must be continued first.
    _send([agent.monitor], signal.SIGTERM)
    _send([agent.monitor], signal.SIGCONT)


def _send(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):  # psutil refuses if the pid was reused
            process.send_signal(number)


def _left_after(seconds: float, processes: Iterable[psutil.Process]) -> bool:
    """Whether any of the processes is still running after that time."""
    until = time.monotonic() + seconds
    while living(processes):
        if time.monotonic() >= until:
            return True
        time.sleep(POLL_SECONDS)
    return False


def _launched_pid(paths: SessionPaths, head: RunHead) -> int | None:
    """Return the pid that the monitor recorded; None if the session was started without launching a process."""
    with contextlib.suppress(CritiqorError, OSError, ValueError):
        if head.recording is not None:
            head = records.load_head(paths, head.recording)
        run_id = head.run_id
        if head.seal is None:
            log = [entry for entry in records.load(paths, run_id).event_log if isinstance(entry, dict)]
            entries = [(entry.get("event_type"), entry.get("payload")) for entry in log]
        else:
            events = islice(Run(run_id, paths).events(), FIRST_EVENTS)
            entries = [(event.event_type, event.payload) for event in events if event.source_layer == "supervisor"]
        for kind, payload in entries:
            pid = payload.get("pid") if kind == EventType.PROCESS_START and isinstance(payload, dict) else None
            if isinstance(pid, int):
                return pid
    return None


def _child_of(parent: int, pid: int | None) -> psutil.Process | None:
    """Return the process if it is alive and a child of `parent`; the pid alone may have been reused."""
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
