"""Shared by tests of several folders: a runs folder, records as the recorder writes them, and the command line."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import psutil

from critiqor.model import event_id_for, iso_from_ms, now_ms
from critiqor.session import create_session, finalize_session, load_record, paths_for

BIN = Path(sys.executable).parent
STANDIN = Path(__file__).with_name("standin_openclaw.mjs")
Fields = dict[str, Any]
"""Fields of a JSON record."""
PATIENCE_SECONDS = 120.0
"""How long a test waits for what must happen, however busy the machine is; never how long it takes."""

_moment: int | None = None


def let_time_pass() -> None:
    """The next record that is made, and those after it, are of a new moment."""
    global _moment
    _moment = None


def _this_moment() -> int:
    global _moment
    if _moment is None:
        _moment = now_ms()
    return _moment


def recorded(
    sequence: int, event_type: str = "agent_start", *, writer: str = "w", at: int | None = None, **fields: Any
) -> dict[str, Any]:
    """A record in the envelope of the recorder.

    Records of one run have the same time unless `at` is given; their sequence numbers define their order.
    """
    moment = _this_moment() if at is None else at
    return {
        "event_id": event_id_for(moment, writer, sequence),
        "event_type": event_type,
        "raw_event_type": event_type,
        "timestamp": iso_from_ms(moment),
        "source_layer": "tool_hooks" if event_type.startswith(("tool_", "memory_")) else "extension_api",
        "session_key": "agent:main:main",
        "agent_run_id": "run-1",
        "tool_name": None,
        "tool_call_id": None,
        "status": "ok",
        "error": None,
        "duration_ms": None,
        "payload": {},
        **fields,
    }


def attached(sequence: int = 1, **fields: Any) -> dict[str, Any]:
    """The record by which a recorder announces itself."""
    payload = {"mode": "full", "pid": 4711, "sources": {"hooks": True}, "openclaw_version": "2026.9.6"}
    return recorded(sequence, "recorder_attached", payload=payload, **fields)


def line_of(record: Mapping[str, Any]) -> bytes:
    """A record as it stands in the journal."""
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


class Runs:
    """A runs folder to play with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths = paths_for(folder)

    def start(self, **metadata: str) -> str:
        run_id: str = create_session(runs_dir=self.folder, **metadata)["run_id"]
        let_time_pass()
        return run_id

    def write(self, run_id: str, *records: Mapping[str, Any] | bytes) -> None:
        """Append to the journal, as a recorder does; bytes go in as they are."""
        with self.paths.journal_path(run_id).open("ab") as journal:
            for record in records:
                journal.write(record if isinstance(record, bytes) else line_of(record))

    def finalize(self, run_id: str | None = None) -> dict[str, Any]:
        return finalize_session(run_id, runs_dir=self.folder)

    def seal(self, *records: Mapping[str, Any] | bytes) -> dict[str, Any]:
        """A whole run with these journal records; returns its sealed evidence."""
        run_id = self.start()
        self.write(run_id, *records)
        self.finalize(run_id)
        return self.evidence(run_id)

    def evidence(self, run_id: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.evidence_bytes(run_id))
        return document

    def evidence_bytes(self, run_id: str) -> bytes:
        return self.paths.evidence_summary_path(run_id).read_bytes()

    def record(self, run_id: str) -> dict[str, Any]:
        return load_record(run_id, runs_dir=self.folder)

    def status(self, run_id: str) -> str:
        status: str = self.record(run_id)["status"]
        return status

    def lifecycle(self, run_id: str) -> list[str]:
        return [step["state"] for step in self.record(run_id)["lifecycle"]]

    def notes(self, run_id: str, event_type: str) -> list[dict[str, Any]]:
        """The events of one type in the run record."""
        return [event for event in self.record(run_id)["event_log"] if event["event_type"] == event_type]


class Answer(NamedTuple):
    """What a verb gave back."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out)
        assert document["schema_version"] == "critiqor.output.v1"
        return document

    @property
    def data(self) -> Any:
        return self.document["data"]

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = self.document["error"]
        return error


class Cli(Protocol):
    """The command line; the fixture of that name makes one."""

    def __call__(self, *arguments: str | Path) -> Answer: ...


def from_recorder(evidence: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The events that are not the supervisor's."""
    return [event for event in evidence["events"] if event["source_layer"] != "supervisor"]


def environment(home: Path, **extra: str) -> dict[str, str]:
    """What a process of a test gets: this Python's commands (node among them) and a home of its own."""
    path = os.pathsep.join((str(BIN), os.environ.get("PATH", os.defpath)))
    return {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "TERM": "xterm", **measured(), **extra}


def measured() -> dict[str, str]:
    """The variables by which `make coverage` measures a process that a test starts."""
    return {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}


def critiqor_command(*arguments: str | Path) -> list[str]:
    return [str(BIN / "critiqor"), *map(str, arguments)]


def run_critiqor(*arguments: str | Path, home: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a verb in a process of its own, to its end."""
    extra = options.pop("extra", {})
    return subprocess.run(
        critiqor_command(*arguments),
        **{"env": environment(home, **extra), "cwd": home, "capture_output": True, "text": True, **options},
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def start_python(code: str, *arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
    """A Python process that runs `code`, with `arguments` in sys.argv[1:]."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


def wait_until(condition: Callable[[], object]) -> None:
    """Wait for what must happen."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("it never happened")
        time.sleep(0.01)


def script(path: Path, text: str) -> Path:
    """An executable file."""
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def kill_tree(pid: int) -> None:
    """End a process of a test, if it is still there, and all that it has started."""
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        for process in (*root.children(recursive=True), root):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def fork(work: Callable[[], object]) -> int:
    """A child process of this very state that does `work`; returns its pid."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def exit_code_of(pid: int) -> int:
    """How a forked child ended; negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
