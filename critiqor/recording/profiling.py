"""Asks the Node processes of a deeply profiled run, while it goes on, for a report or a heap snapshot.

It is done by signals, which end a process that does not wait for them: a shell between two Node processes inherits
their options and not their handlers. So a process is asked only if it is marked as one of the run, its executable is
Node, its options make it answer this very signal, and, where the system tells, if it waits for it by now.
"""

from __future__ import annotations

import contextlib
import re
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, NamedTuple

import psutil

from critiqor.errors import CritiqorError, NoActiveSessionError
from critiqor.model.profiles import ArtifactRequest, SignalledArtifact
from critiqor.processes import marked_processes
from critiqor.storage import SessionPaths, paths_for
from critiqor.storage import run_record as records
from critiqor.timeline.profiles.artifacts import Artifact, list_artifacts

PATIENCE_SECONDS = 60.0
"""How long an answer may take. A process does nothing else while it writes a heap snapshot."""
POLL_SECONDS = 0.2

RequestKind = Literal["diagnostic_report", "heap_snapshot"]

_NODE = re.compile(r"node(js)?[-\d.v]*")
_HANDLED = (signal.SIGUSR1, signal.SIGUSR2)
_STATUS = Path("/proc")


class _Request(NamedTuple):
    signal: signal.Signals
    option: str
    """Of Node; names the signal."""
    noun: str


_REQUESTS: dict[RequestKind, _Request] = {
    "diagnostic_report": _Request(signal.SIGUSR1, "--report-signal", "report"),
    "heap_snapshot": _Request(signal.SIGUSR2, "--heapsnapshot-signal", "heap snapshot"),
}


def request_artifacts(
    run_id: str, kind: RequestKind, runs_dir: str | Path, say: Callable[[str], None], patience: float = PATIENCE_SECONDS
) -> ArtifactRequest:
    """Ask every Node process of a running run for an artifact, and wait until they are written.

    `say` gets one-line messages for the user.
    """
    request = _REQUESTS[kind]
    paths = paths_for(runs_dir)
    processes = _processes_of(paths, run_id)
    asked = [process for process in processes if _can_be_asked(process, request)]
    if not asked:
        message = f"none of the {len(processes)} processes of {run_id} is a Node that waits to be asked"
        raise CritiqorError(message, fix=f"critiqor profile {run_id}   shows what was written so far")
    folder = paths.profiles_folder(run_id)
    known = {artifact.path.name for artifact in list_artifacts(folder)}
    asked = [process for process in asked if _send(process, request.signal)]
    pids = sorted(process.pid for process in asked)
    say(f"asked {', '.join(map(str, pids))} for a {request.noun}; waiting for {patience:g} seconds at most")
    written = _Written(folder, kind, known)
    written.wait(asked, patience)
    if not written.complete:
        message = f"no process of {run_id} wrote a {request.noun} within {patience:g} seconds"
        raise CritiqorError(message, fix=f"critiqor profile {run_id}   shows what was written in the end")
    appeared = sorted(written.complete.values(), key=lambda artifact: artifact.pid)
    return ArtifactRequest(
        run_id=run_id,
        kind=kind,
        asked=pids,
        appeared=appeared,
        silent=[pid for pid in pids if pid not in written.complete],
        left_alone=len(processes) - len(pids),
    )


def _processes_of(paths: SessionPaths, run_id: str) -> list[psutil.Process]:
    """Every living process of a run that is profiled deeply."""
    records.load_head(paths, run_id)
    if not paths.profiles_folder(run_id).is_dir():
        raise CritiqorError(f"{run_id} is not profiled deeply", fix="critiqor monitor openclaw --deep-profile")
    processes = marked_processes({"CRITIQOR_RUN_ID": run_id, "CRITIQOR_RUNS_DIR": str(paths.runs_dir)})
    if not processes:
        fix = f"critiqor profile {run_id}   shows what it wrote"
        raise NoActiveSessionError(f"{run_id} is not running: nobody can be asked", fix=fix)
    return processes


def _can_be_asked(process: psutil.Process, request: _Request) -> bool:
    try:
        # By the executable: Node and OpenClaw change their names, and a script can be called node.
        is_node = _NODE.fullmatch(Path(process.exe()).name) is not None
        options = process.environ().get("NODE_OPTIONS", "").split()
    except (psutil.Error, OSError):
        return False
    # Where an option is given twice, Node takes the later one.
    chosen = [option for option in options if option.startswith(f"{request.option}=")]
    answers = chosen[-1:] == [f"{request.option}={request.signal.name}"]
    if request.signal == signal.SIGUSR1:
        answers = answers and "--report-on-signal" in options
    return is_node and answers and _waits_for_signals(process.pid)


def _waits_for_signals(pid: int) -> bool:
    """Whether a process has handlers for what Node is told to answer; where the system does not tell, it is believed.

    It must have both: Node has another handler for the first one, that opens a debugger, until it has read its options.
    """
    try:
        status = (_STATUS / str(pid) / "status").read_text("ascii", "replace")
    except OSError:
        return not _STATUS.is_dir()
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return caught is not None and all(int(caught[1], 16) >> (number - 1) & 1 for number in _HANDLED)


def _send(process: psutil.Process, number: signal.Signals) -> bool:
    with contextlib.suppress(psutil.Error):
        process.send_signal(number)  # not to another one that has got its pid meanwhile
        return True
    return False


def _has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


class _Written:
    """What appears in the folder, and whether it is complete."""

    def __init__(self, folder: Path, kind: RequestKind, known: Iterable[str]) -> None:
        self._folder = folder
        self._kind = kind
        self._known = set(known)
        self._sizes: dict[str, int] = {}
        self.complete: dict[int, SignalledArtifact] = {}
        """By pid."""

    def wait(self, asked: Iterable[psutil.Process], patience: float) -> None:
        """Until every one of them has written, or has ended, or it takes too long."""
        until = time.monotonic() + patience
        waiting = list(asked)
        while waiting and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
            # Who has ended can have written before: the look comes after the question.
            ended = {process.pid for process in waiting if _has_ended(process)}
            self._look()
            waiting = [process for process in waiting if process.pid not in ended | self.complete.keys()]

    def _look(self) -> None:
        for artifact in list_artifacts(self._folder):
            if artifact.kind == self._kind and artifact.pid is not None and artifact.path.name not in self._known:
                if self._is_complete(artifact):
                    told = SignalledArtifact(file=artifact.name, pid=artifact.pid, bytes=artifact.bytes)
                    self.complete.setdefault(artifact.pid, told)
                self._sizes[artifact.path.name] = artifact.bytes

    def _is_complete(self, artifact: Artifact) -> bool:
        """Not grown since the last look, and with an end."""
        if not artifact.bytes or artifact.bytes != self._sizes.get(artifact.path.name):
            return False
        try:
            with artifact.path.open("rb") as file:
                file.seek(max(artifact.bytes - 8, 0))
                return file.read(8).rstrip().endswith(b"}")
        except OSError:
            return False
