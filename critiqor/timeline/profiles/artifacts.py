"""The files of a profiles folder: what each of them is, whose it is, and whether it can be read.

Of each kind at most a gigabyte is read, and no profile beyond 128 MiB; what that leaves out is said. Profiles are in
memory one at a time: an hour of a busy thread takes some 120 MB, the worst file that can be made about 700. Trace
events are read as a stream. Heap snapshots are never opened.
"""

from __future__ import annotations

import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec

from critiqor.model.profiles import ArtifactFigures, ArtifactKind, ArtifactProblem, ArtifactTrouble

LARGEST_FILE = 128 << 20
"""Bytes of a file that is decoded as a whole."""
MOST_OBJECTS = 1_500_000
"""Objects in such a file: many small ones take far more memory than they have bytes."""
MOST_BYTES = 1 << 30
"""Bytes that are read of one kind."""
MOST_PROBLEMS = 20
LONGEST_NAME = 120
Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""Bytes that a file tells of."""
KINDS: tuple[ArtifactKind, ...] = (
    "cpu_profile",
    "heap_profile",
    "trace_events",
    "diagnostic_report",
    "heap_snapshot",
    "other",
)
TROUBLES: dict[ArtifactTrouble, str] = {
    "empty": "empty",
    "torn": "ends too early: the process was killed, or still writes it",
    "damaged": "damaged",
    "foreign": "not what its name says",
    "too_large": "too large to be read",
    "over_budget": "not read: there was too much of its kind",
    "not_a_file": "not a file",
    "unreadable": "cannot be opened",
}
"""In words."""
# As Node names what it writes: date and time, process, thread, and a count.
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
    """One file."""

    path: Path
    kind: ArtifactKind
    pid: int | None
    """By its name, as everything below."""
    thread: int | None
    rotation: int
    """Which of the files of trace events of its process, from 1; 0 for any other file."""
    named_at: str | None
    """Local time of when it was begun, in a time zone that is not told: YYYYMMDD.HHMMSS."""
    bytes: int
    written_at: float
    """Seconds since 1970 of the last change."""
    regular: bool
    """Whether it is a file, and no folder, link or pipe."""

    @property
    def name(self) -> str:
        """Of the file alone, and not endless."""
        name = self.path.name
        return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


class UnusableError(Exception):
    """A file cannot be used."""

    def __init__(self, trouble: ArtifactTrouble) -> None:
        super().__init__(trouble)
        self.trouble = trouble


def artifacts_in(folder: Path) -> list[Artifact]:
    """Everything in a folder, in the order of the names; nothing where there is no such folder."""
    try:
        paths = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [artifact for path in paths if (artifact := artifact_at(path)) is not None]


def artifact_at(path: Path) -> Artifact | None:
    """What a file is by its name; None where it is gone."""
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


class Ledger:
    """Which files were used, and what was wrong with the others."""

    def __init__(self) -> None:
        self._used: Counter[ArtifactKind] = Counter()
        self._read: Counter[ArtifactKind] = Counter()
        self.problems: list[ArtifactProblem] = []
        self.problems_total = 0

    def used(self, artifact: Artifact) -> None:
        """The figures come from this file, too."""
        self._used[artifact.kind] += 1

    def problem(self, artifact: Artifact, trouble: ArtifactTrouble) -> None:
        """Something is wrong with a file."""
        self.problems_total += 1
        if len(self.problems) < MOST_PROBLEMS:
            told = ArtifactProblem(file=artifact.name, kind=artifact.kind, trouble=trouble, bytes=artifact.bytes)
            self.problems.append(told)

    def readable(self, artifacts: Iterable[Artifact], *, largest: int | None = LARGEST_FILE) -> Iterator[Artifact]:
        """Those that are worth opening; what is wrong with the others is noted."""
        for artifact in artifacts:
            trouble = self._trouble(artifact, largest)
            if trouble is None:
                self._read[artifact.kind] += artifact.bytes
                yield artifact
            else:
                self.problem(artifact, trouble)

    def _trouble(self, artifact: Artifact, largest: int | None) -> ArtifactTrouble | None:
        if not artifact.regular:
            return "not_a_file"
        if not artifact.bytes:
            return "empty"
        if largest is not None and artifact.bytes > largest:
            return "too_large"
        return "over_budget" if self._read[artifact.kind] + artifact.bytes > MOST_BYTES else None

    def figures(self, artifacts: Iterable[Artifact]) -> list[ArtifactFigures]:
        """Files and bytes by kind, without kinds of which there are none."""
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


def content_of(artifact: Artifact) -> bytes:
    """The whole of a file that was found readable. Raises UnusableError."""
    try:
        with artifact.path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError:
        raise UnusableError("unreadable") from None
    if len(content) > LARGEST_FILE:
        raise UnusableError("too_large")
    if content.count(b"{") > MOST_OBJECTS:
        raise UnusableError("too_large")
    if not content.rstrip().endswith(b"}"):
        raise UnusableError("torn" if content.lstrip()[:1] == b"{" else "damaged")
    return content
