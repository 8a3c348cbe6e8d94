"""The runs of a folder, as far as a viewer may know of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, NamedTuple

import msgspec

from critiqor.comparison.figures import figures_of
from critiqor.dashboard.web.access import Level, Viewer, level
from critiqor.errors import CritiqorError, UnknownRunError, UsageError
from critiqor.model import Diagnosis, iso_from_ms
from critiqor.run.diagnosis import load_diagnosed
from critiqor.storage import SessionPaths
from critiqor.storage import run_record as records

UNREADABLE = "UNREADABLE"
"""The status of a run whose record is broken, as `critiqor runs` tells it."""


class OpenedRun(NamedTuple):
    """A run that somebody may see."""

    run_id: str
    head: dict[str, Any]
    """Its record without diagnosis and events."""
    level: Level
    folder: Path
    """The runs folder."""

    @property
    def is_sealed(self) -> bool:
        return self.head["seal"] is not None

    def diagnosis(self) -> Diagnosis:
        """What was concluded; the error names what to type where nothing was."""
        return load_diagnosed(self.run_id, self.folder)


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the list."""

    run_id: str
    created_at: str
    status: str
    agent_id: str
    tenant_id: str | None
    """None where nobody knows."""
    visibility: str
    headline: str | None = None
    trust: int | None = None
    confidence: int | None = None
    readiness: str | None = None
    problem: str | None = None
    """The type of the problem to look at first."""
    problems: tuple[str, ...] = ()
    """The types of all findings."""
    findings: int | None = None
    cost_usd: float | None = None
    wall_ms: int | None = None


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs of the list are wanted; an empty text wants all."""

    text: str = ""
    agent: str = ""
    problem: str = ""
    tenant: str = ""
    since: str = ""
    """A day, such as 2026-11-16."""
    until: str = ""

    def wants(self, row: RunRow) -> bool:
        words = " ".join((row.run_id, row.agent_id, row.headline or "", *row.problems, row.status)).lower()
        return (
            all(word in words for word in self.text.lower().split())
            and self.agent in ("", row.agent_id)
            and self.problem in ("", *(row.problems or ("none",)))
            and self.tenant in ("", row.tenant_id)
            and (not self.since or row.created_at[:10] >= self.since)
            and (not self.until or row.created_at[:10] <= self.until)
        )


class _State(NamedTuple):
    """What tells whether a file is still the one that was read."""

    modified_ns: int
    size: int
    mode: int
    """What kind of file it is: a link in its place is another state, and refused."""


class RunCatalog:
    """Runs by id, and the list of them, read again only where a file changed."""

    def __init__(self, paths: SessionPaths) -> None:
        self.paths = paths
        self._rows: dict[str, tuple[tuple[_State | None, ...], RunRow]] = {}

    def open(self, run_id: str, viewer: Viewer) -> OpenedRun:
        """A run that the viewer may see. One that he may not is as unknown as one that is not there."""
        unknown = UnknownRunError("There is no such run here.", fix="critiqor runs")
        try:
            self._refuse_detours(run_id)
            head = records.load_head(self.paths, run_id)
        except (UsageError, UnknownRunError):
            raise unknown from None
        seen = level(viewer, head)
        if seen is None:
            raise unknown
        return OpenedRun(run_id, head, seen, self.paths.runs_dir)

    def rows(self, viewer: Viewer) -> list[RunRow]:
        """The runs of the viewer's tenants, newest first. One that is broken hides no other, and is listed too.

        Nobody knows whose that one is: it is told only to whoever sees the runs of all tenants there are.
        """
        rows, unreadable = [], []
        for run_id in self.paths.run_ids():
            try:
                rows.append(self._row(run_id))
            except UnknownRunError:
                continue
            except (CritiqorError, OSError):
                unreadable.append(self._unreadable_row(run_id))
        if viewer.tenants.issuperset(row.tenant_id for row in rows):
            rows += unreadable
        seen = [row for row in rows if row.tenant_id in (*viewer.tenants, None)]
        return sorted(seen, key=lambda row: row.created_at, reverse=True)

    def tenants(self) -> list[str]:
        """Whose runs there are; to be told to the user alone, and only in the terminal."""
        found = set()
        for run_id in self.paths.run_ids():
            try:
                self._refuse_detours(run_id)
                found.add(str(records.load_head(self.paths, run_id)["metadata"]["tenant_id"]))
            except (CritiqorError, OSError):
                continue
        return sorted(found)

    def _refuse_detours(self, run_id: str) -> None:
        """A link in the place of a file would let a run show whatever it points to; a pipe would never be read."""
        paths = self.paths
        files = (
            paths.run_path(run_id),
            paths.evidence_summary_path(run_id),
            paths.diagnosis_path(run_id),
            paths.journal_path(run_id),
            paths.redaction_key_path(run_id),
            paths.timeline_path(run_id),
        )
        folders = (paths.run_folder(run_id), paths.openclaw_folder(run_id))
        if not (all(_is(S_ISREG, file) for file in files) and all(_is(S_ISDIR, folder) for folder in folders)):
            raise UnknownRunError(f"the files of {run_id} are links", fix="critiqor runs")

    def _row(self, run_id: str) -> RunRow:
        states = tuple(_state(path) for path in (self.paths.run_path(run_id), self.paths.diagnosis_path(run_id)))
        known = self._rows.get(run_id)
        if known is not None and known[0] == states:
            return known[1]
        row = self._read_row(run_id)
        self._rows[run_id] = (states, row)
        return row

    def _unreadable_row(self, run_id: str) -> RunRow:
        """Of a broken record nothing is told, and its time is that of the file."""
        state = _state(self.paths.run_path(run_id))
        changed = iso_from_ms(state.modified_ns // 1_000_000) if state is not None else ""
        return RunRow(run_id=run_id, created_at=changed, status=UNREADABLE, agent_id="", tenant_id=None, visibility="")

    def _read_row(self, run_id: str) -> RunRow:
        self._refuse_detours(run_id)
        head = records.load_head(self.paths, run_id)
        metadata = head["metadata"]
        told: dict[str, Any] = {name: metadata[name] for name in ("agent_id", "tenant_id", "visibility")}
        told |= {"run_id": run_id, "created_at": head["timestamps"]["created_at"], "status": head["status"]}
        try:
            diagnosis = load_diagnosed(run_id, self.paths.runs_dir)
        except CritiqorError:
            return RunRow(**told)
        figures = figures_of(diagnosis)
        primary = diagnosis.primary_diagnosis
        return RunRow(
            **told,
            headline=diagnosis.headline,
            trust=figures.trust,
            confidence=figures.confidence,
            readiness=diagnosis.readiness,
            problem=primary.type if primary else None,
            problems=tuple(sorted({finding.type for finding in diagnosis.failure_analysis.findings})),
            findings=figures.findings,
            cost_usd=figures.cost_usd,
            wall_ms=figures.wall_ms,
        )


def _is(kind: Callable[[int], bool], path: Path) -> bool:
    """Whether it is of that kind, or not there."""
    try:
        return kind(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True


def _state(path: Path) -> _State | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return _State(found.st_mtime_ns, found.st_size, found.st_mode)
