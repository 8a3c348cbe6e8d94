"""The runs of a folder that a viewer may see: one of them, or the list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, NamedTuple

import msgspec

from critiqor.comparison.figures import figures_of
from critiqor.conversation.entries import is_user_message, message_text
from critiqor.dashboard.data.session_rows import SessionRow, judged_row
from critiqor.errors import BrokenRecordError, CritiqorError, UnknownRunError, UsageError
from critiqor.model import SessionDiagnosis, iso_from_ms
from critiqor.model.diagnosis import READINESSES
from critiqor.model.sanitize import excerpt
from critiqor.privacy.visibility import OWNER, Viewer
from critiqor.run.integrity import IntegrityCache, file_states
from critiqor.run.store import Run, RunStore
from critiqor.run.view import RunView
from critiqor.storage.annotations import read_annotations

UNREADABLE = "UNREADABLE"
"""Status of a run whose record cannot be read, as in `critiqor runs`."""


MAX_EVENTS_BEFORE_TASK = 100
"""Number of events in which the first message of a user is looked for."""
MAX_TASK = 160
"""Maximum length of the first words of a task in characters."""


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run in the list."""

    run_id: str
    created_at: str
    status: str
    agent_id: str
    tenant_id: str | None
    """None if the record cannot be read."""
    visibility: str
    task: str = ""
    """The first words of the first message of a user; empty if none was recorded early."""
    models: tuple[str, ...] = ()
    model_costs: tuple[tuple[str, float], ...] = ()
    """What the calls of each model cost, as far as it is known."""
    versions: tuple[str, ...] = ()
    """Versions of OpenClaw."""
    tags: tuple[str, ...] = ()
    note: str = ""
    headline: str | None = None
    sessions: str | None = None
    """The worst session, whose trust it is, and how the others are judged; None if there are not several."""
    trust: int | None = None
    confidence: int | None = None
    readiness: str | None = None
    problem: str | None = None
    """The type of the problem to look at first."""
    problems: tuple[str, ...] = ()
    """The types of all findings."""
    findings: int | None = None
    cost_usd: float | None = None
    """For the chart; None if a part of it is unknown."""
    cost_is_estimated: bool = False
    """Whether a part of the cost was computed from list prices."""
    wall_ms: int | None = None
    """For the chart, in milliseconds."""
    cost: str = ""
    time: str = ""
    judged_sessions: tuple[SessionRow, ...] = ()
    """Its sessions, the worst first."""


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter and order of the list; an empty text matches every run."""

    text: str = ""
    agent: str = ""
    verdict: str = ""
    model: str = ""
    version: str = ""
    tag: str = ""
    sort: str = ""
    """A key of `SORTS`, with a minus sign for the opposite order."""
    problem: str = ""
    tenant: str = ""
    since: str = ""
    """First day, such as 2026-11-16."""
    until: str = ""

    def matches(self, row: RunRow) -> bool:
        """Return whether a row of the catalog of runs matches."""
        named = (row.run_id, row.agent_id, row.task, row.note, row.headline or "", row.sessions or "", row.status)
        words = " ".join((*named, *row.tags, *row.problems)).lower()
        return (
            all(word in words for word in self.text.lower().split())
            and self.agent in ("", row.agent_id)
            and self.verdict in ("", row.readiness or row.status.lower())
            and self.model in ("", *row.models)
            and self.version in ("", *row.versions)
            and self.tag in ("", *row.tags)
            and self.problem in ("", *(row.problems or ("none",)))
            and self.tenant in ("", row.tenant_id)
            and (not self.since or row.created_at[:10] >= self.since)
            and (not self.until or row.created_at[:10] <= self.until)
        )

    def apply(self, rows: Iterable[RunRow]) -> list[RunRow]:
        """Return the matching runs in the wanted order. Without one, they keep theirs."""
        found = [row for row in rows if self.matches(row)]
        order = SORTS.get(self.sort.removeprefix("-"))
        return found if order is None else sorted(found, key=order, reverse=self.sort.startswith("-"))


SORTS: dict[str, Callable[[RunRow], tuple[float | str, ...]]] = {
    "run": lambda row: (row.created_at, row.run_id),
    "verdict": lambda row: (READINESSES.index(row.readiness) if row.readiness in READINESSES else 9, row.created_at),
    "trust": lambda row: (101 if row.trust is None else row.trust, row.created_at),
    "agent": lambda row: (row.agent_id, row.created_at),
    "created": lambda row: (row.created_at, row.run_id),
    "cost": lambda row: (row.cost_usd or 0.0, row.created_at),
    "time": lambda row: (row.wall_ms or 0, row.created_at),
}
"""What the list can be sorted by."""


class RunCatalog:
    """Opens runs and lists them. Files are read again only after they changed."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._integrity = IntegrityCache()
        self._rows: dict[str, tuple[object, RunRow]] = {}

    def open(self, run_id: str, viewer: Viewer) -> RunView:
        """Open a run. Raise `UnknownRunError` if it does not exist or the viewer may not see it.

        The tenant of a broken run is unknown, so it does not exist for a viewer who does not see all tenants.
        """
        try:
            return self._view(self._store.run(run_id), viewer)
        except (UsageError, UnknownRunError):
            pass
        except BrokenRecordError:
            if viewer.is_owner or (viewer.is_user and viewer.tenants.issuperset(self.tenants())):
                raise
        raise UnknownRunError("There is no such run here.", fix="critiqor runs")

    def rows(self, viewer: Viewer) -> list[RunRow]:
        """Return the runs of the viewer's tenants, newest first. Broken runs are listed too.

        The tenant of a broken run is unknown, so it is listed only for a viewer who sees the runs of all tenants.
        """
        rows, unreadable = [], []
        for run in self._store.runs():
            try:
                rows.append(self._row(run))
            except UnknownRunError:
                continue
            except (CritiqorError, OSError):
                unreadable.append(_unreadable_row(run))
        if viewer.tenants.issuperset(row.tenant_id for row in rows):
            rows += unreadable
        seen = [row for row in rows if row.tenant_id in (*viewer.tenants, None)]
        return sorted(seen, key=lambda row: row.created_at, reverse=True)

    def tenants(self) -> list[str]:
        """Return the tenants that have runs. For the user at the terminal only."""
        found = set()
        for run in self._store.runs():
            try:
                _refuse_links(run)
                found.add(run.head().metadata.tenant_id)
            except (CritiqorError, OSError):
                continue
        return sorted(found)

    def _view(self, run: Run, viewer: Viewer) -> RunView:
        _refuse_links(run)
        return RunView(run, viewer, self._integrity.check)

    def _row(self, run: Run) -> RunRow:
        state = file_states(run)
        known = self._rows.get(run.id)
        if known is None or known[0] != state:
            known = self._rows[run.id] = (state, _with_annotations(_read_row(self._view(run, OWNER)), run))
        return known[1]


def _refuse_links(run: Run) -> None:
    """Raise an error if a file of a run is a link or a pipe.

    A link could expose any file, and reading a pipe could block forever.
    """
    paths = run.paths
    files = (
        run.record_path,
        paths.visibility_path(run.id),
        paths.annotations_path(run.id),
        run.evidence_path,
        run.diagnosis_path,
        paths.journal_path(run.id),
        paths.redaction_key_path(run.id),
        run.timeline_path,
        paths.carried_path(run.id),
    )
    folders = (run.folder, paths.openclaw_folder(run.id))
    if not (all(_is(S_ISREG, file) for file in files) and all(_is(S_ISDIR, folder) for folder in folders)):
        raise UnknownRunError(f"the files of {run.id} are symbolic links and are not read", fix="critiqor runs")


def _unreadable_row(run: Run) -> RunRow:
    """Return the row of a broken record; its time is that of the file."""
    try:
        changed = iso_from_ms(run.record_path.lstat().st_mtime_ns // 1_000_000)
    except OSError:
        changed = ""
    return RunRow(run_id=run.id, created_at=changed, status=UNREADABLE, agent_id="", tenant_id=None, visibility="")


def _read_row(view: RunView) -> RunRow:
    head = view.head
    known: dict[str, Any] = {
        "run_id": view.run_id,
        "created_at": head.timestamps.created_at,
        "status": head.status,
        "agent_id": head.metadata.agent_id,
        "tenant_id": head.metadata.tenant_id,
        "visibility": head.metadata.visibility,
    }
    try:
        diagnosis = view.require_diagnosis()
    except CritiqorError:
        return RunRow(**known, task=_task_of(view, []).task)
    figures, primary, verdict = figures_of(diagnosis), diagnosis.primary_diagnosis, view.verdict
    texts = view.figure_texts()
    tasks = _task_of(view, diagnosis.sessions)
    return RunRow(
        **known,
        task=tasks.task,
        models=tuple(sorted({usage.model for usage in diagnosis.cost_analysis.per_model if usage.model})),
        model_costs=tuple(
            (usage.model or "unknown", usage.cost_usd)
            for usage in diagnosis.cost_analysis.per_model
            if usage.cost_usd is not None
        ),
        versions=_versions(view),
        headline=diagnosis.headline,
        sessions=None if verdict is None else verdict.sessions,
        trust=None if verdict is None else verdict.trust,
        confidence=figures.confidence,
        readiness=diagnosis.readiness,
        problem=primary.type if primary else None,
        problems=tuple(sorted({finding.type for finding in diagnosis.failure_analysis.findings})),
        findings=figures.findings,
        cost_usd=figures.cost_usd,
        cost_is_estimated=diagnosis.cost_analysis.cost_is_estimated,
        wall_ms=figures.wall_ms,
        cost=texts["cost_usd"],
        time=texts["wall_ms"],
        judged_sessions=tuple(
            judged_row(
                view.run_id,
                head.metadata.agent_id,
                head.timestamps.created_at,
                session,
                is_proven=verdict is not None and verdict.trust is not None,
            )._replace(asked=tasks.by_session.get(session.session_key, ""))
            for session in diagnosis.sessions
        ),
    )


def _versions(view: RunView) -> tuple[str, ...]:
    """Return the versions of OpenClaw that were recorded; empty if the evidence cannot be read."""
    try:
        recorders = view.run.coverage().recorders if view.is_sealed else []
    except (CritiqorError, OSError):
        return ()
    return tuple(sorted({each.openclaw_version for each in recorders if each.openclaw_version}))


def _with_annotations(row: RunRow, run: Run) -> RunRow:
    try:
        found = read_annotations(run.paths, run.id)
    except BrokenRecordError:
        return row  # its page says so
    return msgspec.structs.replace(row, tags=tuple(found.tags), note=found.note) if found else row


class _Tasks(NamedTuple):
    """What users asked for, as far as it is at the beginning of a run."""

    task: str
    """That of the worst session, else of any."""
    by_session: dict[str | None, str]


def _task_of(view: RunView, sessions: Sequence[SessionDiagnosis]) -> _Tasks:
    """Return the first words of the user in the worst session, else in any, and in each session."""
    wanted = {session.session_key for session in sessions}
    found: dict[str | None, str] = {}
    try:
        for event in islice(view.run.events(), MAX_EVENTS_BEFORE_TASK):
            if event.event_type in ("input", "message_end") and is_user_message(event):
                found.setdefault(event.session_key, excerpt(message_text(event), MAX_TASK))
                if sessions and wanted <= found.keys():
                    break
    except (CritiqorError, OSError):
        pass  # the list shows the run without it
    worst = sessions[0].session_key if sessions else None
    return _Tasks(found.get(worst) or next(iter(found.values()), ""), found)


def _is(kind: Callable[[int], bool], path: Path) -> bool:
    """Return whether a path is of the given kind or does not exist."""
    try:
        return kind(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
