"""Files of a profiles folder: their kind, process and thread, and whether they can be read.

At most a gigabyte of each kind is read, and no profile beyond 128 MiB; files left out are listed as problems. One
profile is in memory at a time: an hour of a busy thread takes some 120 MB, the worst possible file about 700. Trace
events are read as a stream. Heap snapshots are never opened.
"""

from __future__ import annotations

import re
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar

import msgspec

from critiqor.model.profiles import ArtifactFigures, ArtifactKind, ArtifactProblem, ArtifactTrouble

_Result = TypeVar("_Result")

MAX_FILE_BYTES = 128 << 20
"""Largest file that is decoded as a whole."""
MAX_OBJECTS = 1_500_000
"""Objects in such a file: many small ones take far more memory than their bytes."""
MAX_BYTES_PER_KIND = 1 << 30
"""Bytes read per kind of file."""
MAX_PROBLEMS = 20
MAX_NAME_LENGTH = 120
Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""A number of bytes stated in a file."""
KINDS: tuple[ArtifactKind, ...] = (
    "cpu_profile",
    "heap_profile",
    "trace_events",
    "diagnostic_report",
    "heap_snapshot",
    "other",
)
TROUBLE_TEXTS: dict[ArtifactTrouble, str] = {
    "empty": "empty",
    "torn": "ends too early: the process was killed or is still writing it",
    "damaged": "damaged",
    "foreign": "its content does not match its name",
    "too_large": "too large to read",
    "over_budget": "not read: the size limit for files of this kind is reached",
    "not_a_file": "not a file",
    "unreadable": "cannot be opened",
}
# Node's file names: date and time, process, thread and a count.
_NAMED = re.compile(
    r"(?:CPU|Heap|report)\.(?P<when>\d{8}\.\d{6})\.(?P<pid>\d{1,10})\.(?P<thread>\d{1,10})\.\d+"
    r"\.(?P<suffix>cpuprofile|heapprofile|heapsnapshot|json)"
)
_TRACE = re.compile(r"node-trace-(?P<pid>\d{1,10})-(?P<rotation>\d{1,10})\.json")
_SUFFIXES: dict[str, ArtifactKind] = {
    ".cpuprofile": "cpu_profile",
    ".heapprofile": "heap_profile",
    ".heapsnapshot": "heap_snapshot",
}


class Artifact(NamedTuple):
    """One file of the folder."""

    path: Path
    kind: ArtifactKind
    pid: int | None
    """From the file name, like the following fields up to `named_at`."""
    thread: int | None
    rotation: int
    """Number of a trace-event file within its process, from 1; 0 for any other file."""
    named_at: str | None
    """Local time of its start in an unknown time zone: YYYYMMDD.HHMMSS."""
    bytes: int
    written_at: float
    """Time of the last change, in seconds since 1970."""
    regular: bool
    """Whether it is a regular file, not a folder, link or pipe."""

    @property
    def name(self) -> str:
        """The file name without its folder, shortened."""
        name = self.path.name
        return name if len(name) <= MAX_NAME_LENGTH else name[: MAX_NAME_LENGTH - 1] + "…"


class UnusableError(Exception):
    """A file cannot be used."""

    def __init__(self, trouble: ArtifactTrouble) -> None:
        super().__init__(trouble)
        self.trouble = trouble


def list_artifacts(folder: Path) -> list[Artifact]:
    """Return everything in a folder, sorted by name; empty if there is no such folder."""
    try:
        paths = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [artifact for path in paths if (artifact := read_artifact(path)) is not None]


def read_artifact(path: Path) -> Artifact | None:
    """Return the artifact at a path, identified by its file name; None if it is gone."""
    try:
        found = path.lstat()
    except OSError:
        return None
    named, trace = _NAMED.fullmatch(path.name), _TRACE.fullmatch(path.name)
    match = named or trace
    return Artifact(
        path=path,
        kind=_kind_of(path, named, trace),
        pid=int(match["pid"]) if match else None,
        thread=int(named["thread"]) if named else None,
        rotation=int(trace["rotation"]) if trace else 0,
        named_at=named["when"] if named else None,
        bytes=found.st_size,
        written_at=found.st_mtime,
        regular=stat.S_ISREG(found.st_mode),
    )


def _kind_of(path: Path, named: re.Match[str] | None, trace: re.Match[str] | None) -> ArtifactKind:
    if trace:
        return "trace_events"
    if named and named["suffix"] == "json" and path.name.startswith("report."):
        return "diagnostic_report"
    return _SUFFIXES.get(path.suffix, "other")


class ArtifactLog:
    """The files that were used, and the problems with the others."""

    def __init__(self) -> None:
        self._used: Counter[ArtifactKind] = Counter()
        self._read: Counter[ArtifactKind] = Counter()
        self.problems: list[ArtifactProblem] = []
        self.problems_total = 0

    def add_used(self, artifact: Artifact) -> None:
        """Count a file that contributed to the figures."""
        self._used[artifact.kind] += 1

    def add_problem(self, artifact: Artifact, trouble: ArtifactTrouble) -> None:
        """Note a problem with a file."""
        self.problems_total += 1
        if len(self.problems) < MAX_PROBLEMS:
            problem = ArtifactProblem(file=artifact.name, kind=artifact.kind, trouble=trouble, bytes=artifact.bytes)
            self.problems.append(problem)

    def readable(self, artifacts: Iterable[Artifact], *, largest: int | None = MAX_FILE_BYTES) -> Iterator[Artifact]:
        """Yield the files that can be opened, and note the problems with the others."""
        for artifact in artifacts:
            trouble = self._trouble(artifact, largest)
            if trouble is None:
                self._read[artifact.kind] += artifact.bytes
                yield artifact
            else:
                self.add_problem(artifact, trouble)

    def read_each(self, artifacts: Iterable[Artifact], read: Callable[[Artifact], _Result]) -> Iterator[_Result]:
        """Yield the content of the files that can be used, and note the problems with the others."""
        for artifact in self.readable(artifacts):
            try:
                result = read(artifact)
            except UnusableError as error:
                self.add_problem(artifact, error.trouble)
                continue
            self.add_used(artifact)
            yield result

    def _trouble(self, artifact: Artifact, largest: int | None) -> ArtifactTrouble | None:
        if not artifact.regular:
            return "not_a_file"
        if not artifact.bytes:
            return "empty"
        if largest is not None and artifact.bytes > largest:
            return "too_large"
        return "over_budget" if self._read[artifact.kind] + artifact.bytes > MAX_BYTES_PER_KIND else None

    def figures(self, artifacts: Iterable[Artifact]) -> list[ArtifactFigures]:
        """Return the files and bytes of each kind that occurs."""
        files: Counter[ArtifactKind] = Counter()
        sizes: Counter[ArtifactKind] = Counter()
        for artifact in artifacts:
            files[artifact.kind] += 1
            sizes[artifact.kind] += artifact.bytes if artifact.regular else 0
        return [
            ArtifactFigures(kind=kind, files=files[kind], bytes=sizes[kind], used=self._used[kind])
            for kind in KINDS
            if files[kind]
        ]


def read_content(artifact: Artifact) -> bytes:
    """Return the content of an artifact. Raises UnusableError."""
    try:
        with artifact.path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError:
        raise UnusableError("unreadable") from None
    if len(content) > MAX_FILE_BYTES:
        raise UnusableError("too_large")
    if content.count(b"{") > MAX_OBJECTS:
        raise UnusableError("too_large")
    if not content.rstrip().endswith(b"}"):
        raise UnusableError("torn" if content.lstrip()[:1] == b"{" else "damaged")
    return content


def artifacts_of_kind(artifacts: list[Artifact], kind: ArtifactKind) -> list[Artifact]:
    """Return the artifacts of one kind."""
    return [artifact for artifact in artifacts if artifact.kind == kind]


def largest_artifacts(artifacts: list[Artifact], kind: ArtifactKind) -> list[Artifact]:
    """Return the artifacts of one kind, the largest first."""
    return sorted(artifacts_of_kind(artifacts, kind), key=lambda artifact: -artifact.bytes)
