"""The runs that the MCP server shows: those of its tenants, as their visibility allows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from shlex import quote

from critiqor.dashboard.data.run_catalog import RunCatalog
from critiqor.errors import CritiqorError, UnknownRunError, UsageError
from critiqor.mcp.answers import MAX_NAME, ListedRun, untrusted
from critiqor.model.sanitize import sanitize_line
from critiqor.privacy.visibility import Viewer
from critiqor.run.store import RunStore
from critiqor.run.view import RunView


class VisibleRuns:
    """Opens and lists runs for a client. What it reads may be passed on, so anonymous runs stay anonymous."""

    def __init__(self, store: RunStore, tenants: Iterable[str] = ()) -> None:
        self._store = store
        self._catalog = RunCatalog(store)
        self._viewer = Viewer(is_user=True, is_export=True, tenants=frozenset(_tenants(self._catalog, tenants)))

    def open(self, run_id: str | None) -> RunView:
        """Open a run; without a name the one that is being recorded, else the latest one."""
        if run_id is not None:
            return self._catalog.open(run_id, self._viewer)
        for name in [*(run.id for run in self._store.all_active()), *self._names()]:
            try:
                return self._catalog.open(name, self._viewer)
            except CritiqorError:
                continue
        raise UnknownRunError("there is no run yet", fix="critiqor monitor openclaw")

    def listed(self) -> Iterator[ListedRun]:
        """Yield the visible runs, the newest first."""
        active = {run.id for run in self._store.all_active()}
        for name in self._names():
            try:
                view = self._catalog.open(name, self._viewer)
            except UnknownRunError:
                continue
            except CritiqorError as error:
                problem = sanitize_line(error.message)
                yield ListedRun(run=name, status="UNREADABLE", recorded_at="", problem=problem)
                continue
            yield _listed(view, is_active=name in active)

    def _names(self) -> list[str]:
        return self._store.paths.run_ids()[::-1]


def is_live(view: RunView) -> bool:
    """Return whether a run that clients see is not sealed yet."""
    return not view.is_sealed


def check_session(view: RunView, session: str) -> None:
    """Raise `UsageError` if a visible run has no event of the session that a client names."""
    if all(event.session_key != session for event in view.events()):
        raise UsageError(f"{view.run_id} has no session of that name", fix="leave out `session`")


def _listed(view: RunView, *, is_active: bool) -> ListedRun:
    head, brief = view.head, view.brief
    return ListedRun(
        run=view.run_id,
        status=head.status,
        recorded_at=head.timestamps.created_at,
        agent=untrusted(head.metadata.agent_id, MAX_NAME),
        is_active=is_active,
        readiness=None if brief is None else brief.verdict.readiness,
        trust=None if brief is None else brief.verdict.trust,
        headline=None if brief is None else untrusted(brief.verdict.headline, 300),
    )


def _tenants(catalog: RunCatalog, named: Iterable[str]) -> list[str]:
    """Return the tenants whose runs are shown: the given ones, else the only one in the folder."""
    wanted = list(dict.fromkeys(named))
    if wanted:
        return wanted
    found = catalog.tenants()
    if len(found) > 1:
        fix = "critiqor mcp --tenant " + quote(sanitize_line(found[0]))
        raise UsageError("the runs in this folder belong to several tenants; choose one with --tenant", fix=fix)
    return found or ["default"]
