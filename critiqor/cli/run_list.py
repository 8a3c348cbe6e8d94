"""The list of runs: the head of each record, and the verdict of its diagnosis.

The verdict holds only if the evidence is unchanged, and digesting the evidence of a month takes seconds. The lines of
finished runs are therefore kept in a file, and a run is read again only if one of its files changed. No other verb uses
that file, and without it the list is the same.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any, Literal

import msgspec

from critiqor.cli.hints import add_runs_dir
from critiqor.errors import CritiqorError
from critiqor.live.verdict import LiveSession, LiveVerdict, read_live
from critiqor.model.diagnosis import Readiness
from critiqor.model.formatting import format_cost, format_session
from critiqor.model.timestamps import ms_from_iso
from critiqor.model.usage import Cost
from critiqor.run.integrity import FileState, file_states
from critiqor.run.owner import is_abandoned
from critiqor.run.store import Run, RunStore
from critiqor.run.view import RunView
from critiqor.storage.annotations import read_annotations
from critiqor.storage.atomic import open_regular_file, write_bytes

_KEPT_VERSION = 1
"""Raised when the same files lead to another row."""
_MAX_KEPT_BYTES = 1 << 27
_SETTLED_NS = 2_000_000_000
MAX_SESSIONS = 3
"""Maximum number of sessions that are named of a run in progress, the worst ones."""


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a folder. Null means unknown, or not known yet."""

    run_id: str
    status: str
    """Status in its record; UNREADABLE if the record cannot be read, LOST if there is none."""
    created_at: str | None = None
    agent_id: str | None = None
    events: int | None = None
    trust: int | float | None = None
    confidence: int | float | None = None
    verdict: Readiness | None = None
    outcome: str | None = None
    """How the agent ended."""
    cost_usd: float | None = None
    cost_is_whole: bool = False
    """Whether `cost_usd` is the complete cost of the run, as far as usage was reported."""
    cost_is_estimated: bool = False
    """Whether a part of `cost_usd` was computed from list prices."""
    ended: bool = False
    """Whether the recording ended although the run is not finalized."""
    headline: str | None = None
    sessions: str | None = None
    """The worst session, whose trust it is, and how the others are judged; null if there are not several."""
    slot: str | None = None
    """The slot of its recording; null for the default one."""
    continues: str | None = None
    """The segment before this one; null if there is none."""
    so_far: bool = False
    """Whether it is still being recorded, and the verdict is that of what was recorded so far."""

    @property
    def description(self) -> str:
        """The headline of a run in the list of runs, and the session that it is about if there are several."""
        return f"{self.headline or ''} ({self.sessions})" if self.sessions else self.headline or ""


class RunRow(msgspec.Struct, frozen=True):
    """A listed run with its cost as text, and with what it can be found by."""

    run: ListedRun
    cost: str
    session_keys: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs a list shows. What is empty or None shows all."""

    agent: str | None = None
    """A pattern of agent ids, such as `release-*`."""
    session: str | None = None
    """A part of a session key."""
    verdicts: tuple[str, ...] = ()
    since_ms: int | None = None
    """The earliest beginning of a run, in milliseconds since 1970."""
    tags: tuple[str, ...] = ()
    """Tags that a run must have, all of them."""

    def shows(self, row: RunRow) -> bool:
        """Return whether a list shows a run."""
        run = row.run
        began = ms_from_iso(run.created_at) if run.created_at else None
        return (
            (self.agent is None or fnmatchcase(run.agent_id or "", self.agent))
            and (self.session is None or any(self.session in key for key in row.session_keys))
            and (not self.verdicts or run.verdict in self.verdicts)
            and (self.since_ms is None or (began is not None and began >= self.since_ms))
            and set(self.tags) <= set(row.tags)
        )


SortKey = Literal["created", "trust", "cost", "events"]


def sort_rows(rows: list[RunRow], key: SortKey) -> list[RunRow]:
    """Return rows, which are the newest first, in another order: lowest trust, highest cost or most events first."""
    if key == "created":
        return rows
    if key == "trust":
        return sorted(rows, key=lambda row: math.inf if row.run.trust is None else row.run.trust)
    return sorted(rows, key=lambda row: -((row.run.cost_usd if key == "cost" else row.run.events) or 0))


class _KeptRow(msgspec.Struct, frozen=True, array_like=True):
    """The row of a finished run, and the state of the files that it was read from."""

    states: tuple[FileState | None, ...]
    row: RunRow


class _KeptRows(msgspec.Struct, frozen=True):
    version: int
    rows: dict[str, _KeptRow]


def list_runs(store: RunStore) -> list[RunRow]:
    """Return the rows of all runs that `critiqor runs` prints, newest first, then those whose record is missing."""
    kept = _read_kept(store)
    rows, keeps = [], {}
    for run in reversed(store.runs()):
        states = file_states(run)
        known = kept.get(run.id)
        if known is None or known.states != states:
            known = _KeptRow(states, list_run(run))
        if _can_be_kept(known):
            keeps[run.id] = known
        rows.append(known.row)
    if keeps != kept:
        # A folder that cannot be written to is listed all the same.
        with suppress(OSError):
            file = _KeptRows(_KEPT_VERSION, keeps)
            write_bytes(store.paths.run_list_path, msgspec.json.encode(file), synced=False)
    return [*rows, *map(list_lost_run, store.paths.lost_run_ids())]


def _read_kept(store: RunStore) -> dict[str, _KeptRow]:
    try:
        with open_regular_file(store.paths.run_list_path, follow_links=False) as file:
            kept = msgspec.json.decode(file.read(_MAX_KEPT_BYTES), type=_KeptRows)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return kept.rows if kept.version == _KEPT_VERSION else {}


def _can_be_kept(kept: _KeptRow) -> bool:
    """Return whether a row stays right until one of the files changes.

    A file that changed just now can change again without a later time of change.
    """
    is_finished = kept.row.run.verdict is not None and not kept.row.run.so_far
    newest = max((state.changed_ns for state in kept.states if state is not None), default=0)
    return is_finished and newest < time.time_ns() - _SETTLED_NS


def list_run(run: Run) -> RunRow:
    """Return the row of a run in the list that `critiqor runs` prints.

    A broken record is listed with its problem, so that the other runs are listed too.
    """
    try:
        return _list_readable(RunView(run))
    except (CritiqorError, OSError) as error:
        return RunRow(ListedRun(run_id=run.id, status="UNREADABLE", headline=str(error)), "-")


def list_lost_run(run_id: str) -> RunRow:
    """Return the row of a run in the list that `critiqor runs` prints, if only its record is missing."""
    headline = f"its record is missing: {add_runs_dir(f'critiqor recover {run_id}')}"
    return RunRow(ListedRun(run_id=run_id, status="LOST", headline=headline), "-")


def _list_readable(view: RunView) -> RunRow:
    head, brief = view.head, view.brief
    known: dict[str, Any] = {
        "run_id": view.run_id,
        "status": head.status,
        "created_at": head.timestamps.created_at,
        "agent_id": head.metadata.agent_id,
        "slot": head.slot,
        "continues": head.continues,
        "events": head.seal.events if head.seal is not None else None,
    }
    tags = _tags(view.run)
    if brief is None:
        # `critiqor show` says why there is no diagnosis. The headline in the record is only a copy of it.
        return _list_live(ListedRun(**known, ended=is_abandoned(head)), read_live(view.run), tags)
    diagnosis, verdict = brief
    cost: Cost = diagnosis.cost_analysis.cost
    listed = ListedRun(
        **known,
        trust=verdict.trust,
        confidence=verdict.confidence,
        verdict=verdict.readiness,
        outcome=diagnosis.outcome.state,
        cost_usd=diagnosis.cost_analysis.cost_usd,
        cost_is_whole=not cost.is_partial,
        cost_is_estimated=cost.is_estimated,
        headline=verdict.headline,
        sessions=verdict.sessions,
    )
    keys = tuple(session.session_key or "" for session in diagnosis.sessions)
    return RunRow(listed, format_cost(cost), keys, tags)


def _tags(run: Run) -> tuple[str, ...]:
    try:
        return tuple(read_annotations(run.paths, run.id).tags)
    except CritiqorError:
        return ()  # the page of the run says that the file is damaged


def _list_live(listed: ListedRun, live: LiveVerdict | None, tags: tuple[str, ...]) -> RunRow:
    """Return the row of a run without a diagnosis, with what its live verdict says of it so far."""
    if live is None or listed.status not in ("MONITORING", "FINALIZING"):
        return RunRow(listed, "-", tags=tags)
    several = len(live.sessions) + live.sessions_left_out > 1
    known = msgspec.structs.replace(
        listed,
        events=live.events,
        trust=live.trust_score,
        verdict=live.readiness,
        cost_usd=live.cost_usd,
        cost_is_whole=not live.cost_is_partial,
        cost_is_estimated=live.cost_is_estimated,
        headline=live.headline or "no finding so far",
        sessions="; ".join(map(_describe_session, live.sessions[:MAX_SESSIONS])) if several else None,
        so_far=True,
    )
    keys = tuple(session.session_key or "" for session in live.sessions)
    return RunRow(known, format_cost(live.cost), keys, tags)


def _describe_session(session: LiveSession) -> str:
    state = "working" if session.is_working else "idle"
    return f"{format_session(session.session_key)} {session.readiness}, {format_cost(session.cost)}, {state}"
