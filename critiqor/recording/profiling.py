"""Request diagnostic reports and heap snapshots from the Node processes of a deeply profiled run.

Requests are signals, which end a process without a handler: a shell between two Node processes inherits their options
but not their handlers. So a process gets a signal only if it has the environment variables of the run, its executable
is Node, its options enable this signal and, where the system reports it, a handler is installed.
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

TIMEOUT_SECONDS = 60.0
"""How long a process may take to write. It does nothing else while it writes a heap snapshot."""
POLL_SECONDS = 0.2

RequestKind = Literal["diagnostic_report", "heap_snapshot"]

_NODE = re.compile(r"node(js)?[-\d.v]*")
_HANDLED = (signal.SIGUSR1, signal.SIGUSR2)
_STATUS = Path("/proc")


class _Request(NamedTuple):
    signal: signal.Signals
    option: str
    """Node's option that names the signal."""
    noun: str


_REQUESTS: dict[RequestKind, _Request] = {
    "diagnostic_report": _Request(signal.SIGUSR1, "--report-signal", "report"),
    "heap_snapshot": _Request(signal.SIGUSR2, "--heapsnapshot-signal", "heap snapshot"),
}


def request_artifacts(
    run_id: str, kind: RequestKind, runs_dir: str | Path, say: Callable[[str], None], timeout: float = TIMEOUT_SECONDS
) -> ArtifactRequest:
    """Request an artifact from every Node process of a run, and wait until they are written.

    `say` is called with one-line messages for the user.
    """
    request = _REQUESTS[kind]
    paths = paths_for(runs_dir)
    processes = _processes_of(paths, run_id)
    targets = [process for process in processes if _accepts_request(process, request)]
    if not targets:
        message = f"none of the {len(processes)} processes of {run_id} is a Node process that accepts this request"
        raise CritiqorError(message, fix=f"critiqor profile {run_id}   shows what has been written so far")
    folder = paths.profiles_folder(run_id)
    known = {artifact.path.name for artifact in list_artifacts(folder)}
    targets = [process for process in targets if _send(process, request.signal)]
    pids = sorted(process.pid for process in targets)
    say(f"requested a {request.noun} from {', '.join(map(str, pids))}; waiting at most {timeout:g} seconds")
    written = _NewArtifacts(folder, kind, known)
    written.wait(targets, timeout)
    if not written.complete:
        message = f"no process of {run_id} wrote a {request.noun} within {timeout:g} seconds"
        raise CritiqorError(message, fix=f"critiqor profile {run_id}   shows what is written later")
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
    """Return the living processes of a deeply profiled run."""
    records.load_head(paths, run_id)
    if not paths.profiles_folder(run_id).is_dir():
        raise CritiqorError(
            f"{run_id} was not recorded with --deep-profile", fix="critiqor monitor openclaw --deep-profile"
        )
    processes = marked_processes({"CRITIQOR_RUN_ID": run_id, "CRITIQOR_RUNS_DIR": str(paths.runs_dir)})
    if not processes:
        fix = f"critiqor profile {run_id}   shows what it wrote"
        raise NoActiveSessionError(f"{run_id} is not running", fix=fix)
    return processes


def _accepts_request(process: psutil.Process, request: _Request) -> bool:
    try:
        # By the executable: Node and OpenClaw rename their processes, and a script can be named node.
        is_node = _NODE.fullmatch(Path(process.exe()).name) is not None
        options = process.environ().get("NODE_OPTIONS", "").split()
    except (psutil.Error, OSError):
        return False
    # If an option is given twice, Node uses the last one.
    chosen = [option for option in options if option.startswith(f"{request.option}=")]
    is_enabled = chosen[-1:] == [f"{request.option}={request.signal.name}"]
    if request.signal == signal.SIGUSR1:
        is_enabled = is_enabled and "--report-on-signal" in options
    return is_node and is_enabled and _has_handlers(process.pid)


def _has_handlers(pid: int) -> bool:
    """Whether a process has handlers for both signals; True on a system without /proc.

    Both are needed: before Node has processed its options, SIGUSR1 has a handler that opens the debugger.
    """
    try:
        status = (_STATUS / str(pid) / "status").read_text("ascii", "replace")
    except OSError:
        return not _STATUS.is_dir()
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return caught is not None and all(int(caught[1], 16) >> (number - 1) & 1 for number in _HANDLED)


def _send(process: psutil.Process, number: signal.Signals) -> bool:
    with contextlib.suppress(psutil.Error):
        process.send_signal(number)  # psutil refuses if the pid was reused
        return True
    return False


def _has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


class _NewArtifacts:
    """Artifacts that appear in the folder, and whether they are complete."""

    def __init__(self, folder: Path, kind: RequestKind, known: Iterable[str]) -> None:
        self._folder = folder
        self._kind = kind
        self._known = set(known)
        self._sizes: dict[str, int] = {}
        self.complete: dict[int, SignalledArtifact] = {}
        """By pid."""

    def wait(self, processes: Iterable[psutil.Process], timeout: float) -> None:
        """Wait until each process has written or ended, at most `timeout` seconds."""
        until = time.monotonic() + timeout
        waiting = list(processes)
        while waiting and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
            # A process can write just before it ends, so the folder is read after this check.
            ended = {process.pid for process in waiting if _has_ended(process)}
            self._read_folder()
            waiting = [process for process in waiting if process.pid not in ended | self.complete.keys()]

    def _read_folder(self) -> None:
        for artifact in list_artifacts(self._folder):
            if artifact.kind == self._kind and artifact.pid is not None and artifact.path.name not in self._known:
                if self._is_complete(artifact):
                    written = SignalledArtifact(file=artifact.name, pid=artifact.pid, bytes=artifact.bytes)
                    self.complete.setdefault(artifact.pid, written)
                self._sizes[artifact.path.name] = artifact.bytes

    def _is_complete(self, artifact: Artifact) -> bool:
        """Whether a file has not grown since the last poll and ends like a complete one."""
        if not artifact.bytes or artifact.bytes != self._sizes.get(artifact.path.name):
            return False
        try:
            with artifact.path.open("rb") as file:
                file.seek(max(artifact.bytes - 8, 0))
                return file.read(8).rstrip().endswith(b"}")
        except OSError:
            return False
