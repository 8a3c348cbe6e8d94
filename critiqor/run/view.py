"""What one viewer sees of a run: integrity, visibility and verdict, decided once for every output.

Terminal commands, dashboard pages, reports and exports take the diagnosis and the verdict of a run from a `RunView`,
so that none of them shows a verdict that the evidence does not prove, or more than the viewer may see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import NamedTuple

import msgspec

from critiqor.errors import BrokenRecordError, CritiqorError, UnknownRunError
from critiqor.model import Coverage, Diagnosis, Event, Metadata, RunHead, Seal
from critiqor.model.diagnosis import BriefDiagnosis
from critiqor.model.report import RunSummary
from critiqor.model.verdict import Check, Integrity, Verdict, verdict_on, with_verdict
from critiqor.privacy.visibility import OWNER, Level, Viewer, visible_level
from critiqor.run.integrity import IntegrityCheck, check_run_integrity
from critiqor.run.store import Run, RunStore
from critiqor.storage import run_record as records


class RunView:
    """A run as one viewer sees it."""

    def __init__(self, run: Run, viewer: Viewer = OWNER, check: IntegrityCheck = check_run_integrity) -> None:
        """Open a run. Raise `UnknownRunError` if it does not exist or the viewer may not see it."""
        head = run.head()
        level = visible_level(viewer, head)
        if level is None:
            raise UnknownRunError(f"there is no run {run.id} in this runs folder", fix="critiqor runs")
        self.run = run
        self.level: Level = level
        self._head = head
        self._check = check

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self.run.id

    @property
    def is_anonymous(self) -> bool:
        """Whether the viewer sees structure and numbers only."""
        return self.level == "anonymous"

    @property
    def seal(self) -> Seal | None:
        """The seal of the evidence; None before it is sealed."""
        return self._head.seal

    @property
    def is_sealed(self) -> bool:
        """Whether the evidence is sealed."""
        return self._head.seal is not None

    @cached_property
    def head(self) -> RunHead:
        """The head of the record, as far as the viewer may see it."""
        if not self.is_anonymous:
            return self._head
        from critiqor.privacy.record import anonymous_head

        return anonymous_head(self._head)

    @property
    def diagnosed_head(self) -> RunHead:
        """The head of the record with headline and scores from the diagnosis: the record has copies, not sealed."""
        found = self.diagnosis
        return msgspec.structs.replace(
            self.head,
            headline=found.headline if found is not None else None,
            trust_score=found.trust_score if found is not None else None,
            confidence_score=found.confidence_score if found is not None else None,
        )

    @cached_property
    def integrity(self) -> Integrity:
        """Whether the evidence is still what was sealed and diagnosed; an anonymous viewer does not see which file."""
        return self._integrity(None if isinstance(self._stored, CritiqorError) else self._stored.evidence_digest)

    def _integrity(self, diagnosed: str | None) -> Integrity:
        found = self._check(self.run, self._head, diagnosed)
        if not self.is_anonymous or found.state in ("intact", "not sealed"):
            return found
        return Integrity(state=found.state, explanation="the evidence was changed after sealing")

    def verify(self, *, rediagnose: bool = False) -> Integrity:
        """Return the integrity with everything that `critiqor verify` checks; it takes longer than `integrity`."""
        integrity = self.integrity
        if not self.is_sealed:
            return integrity
        found = self.run.verify(rediagnose=rediagnose)
        if integrity.is_intact and not found.intact:
            text = "the evidence was changed after sealing" if self.is_anonymous else "; ".join(found.problems)
            integrity = Integrity(state="other", explanation=text)
        checks = [self._visible_check(check) for check in found.checks]
        return msgspec.structs.replace(integrity, checks=checks)

    def _visible_check(self, check: Check) -> Check:
        """Return a check; an anonymous viewer does not see which file differs and who signed."""
        return Check(name=check.name, state=check.state, explanation=check.state) if self.is_anonymous else check

    @cached_property
    def _stored(self) -> Diagnosis | CritiqorError:
        """The diagnosis on disk, or why it cannot be used."""
        try:
            if self._head.seal is None:
                return self.run.diagnosis  # raises an error that names the next command
            return records.load_diagnosis(self.run.paths, self.run_id)
        except CritiqorError as error:
            return error

    @cached_property
    def _judged(self) -> _Judged | None:
        if isinstance(self._stored, CritiqorError):
            return None
        diagnosis = self._stored
        if self.is_anonymous:
            from critiqor.privacy.diagnosis import anonymous_diagnosis

            diagnosis = anonymous_diagnosis(diagnosis)
        verdict = verdict_on(diagnosis, self.integrity)
        return _Judged(with_verdict(diagnosis, verdict), verdict)

    @property
    def diagnosis(self) -> Diagnosis | None:
        """The diagnosis as far as the viewer may see it, with the readiness and headline of the verdict.

        None if there is no diagnosis that can be read.
        """
        return None if self._judged is None else self._judged.diagnosis

    @property
    def verdict(self) -> Verdict | None:
        """The verdict on the run; None if there is no diagnosis."""
        return None if self._judged is None else self._judged.verdict

    @cached_property
    def brief(self) -> Brief | None:
        """What a list shows of the diagnosis, and the verdict, read without the rest. None if there is no diagnosis."""
        if self.is_anonymous or self._head.seal is None:
            return self._judged and Brief(*self._judged)
        try:
            diagnosis = records.load_brief_diagnosis(self.run.paths, self.run_id)
        except CritiqorError:
            return None
        if diagnosis.trust_score is None:
            return self._judged and Brief(*self._judged)  # the findings say why
        return Brief(diagnosis, verdict_on(diagnosis, self._integrity(diagnosis.evidence_digest)))

    @cached_property
    def problem(self) -> CritiqorError | None:
        """Why there is no diagnosis of the sealed evidence, with the command that makes one; None if there is one."""
        if isinstance(self._stored, CritiqorError):
            return self._stored
        if self._head.seal is not None and self._stored.evidence_digest != self._head.seal.digest:
            message = f"the diagnosis of {self.run_id} does not match its sealed evidence"
            return BrokenRecordError(message, fix=f"critiqor diagnose {self.run_id}")
        return None

    @property
    def unproven(self) -> CritiqorError | None:
        """Why the verdict is not proven, with the command that locates the change; None if it is proven."""
        if self.integrity.is_intact:
            return None
        return BrokenRecordError(f"{self.run_id}: {self.integrity.explanation}", fix=f"critiqor verify {self.run_id}")

    def require_diagnosis(self) -> Diagnosis:
        """Return the diagnosis of the sealed evidence. Raise an error that names the next command if there is none."""
        if self.problem is not None or self.diagnosis is None:
            raise self.problem or BrokenRecordError(f"{self.run_id} has no diagnosis")
        return self.diagnosis

    def require_proof(self) -> Diagnosis:
        """Return the diagnosis, like `require_diagnosis`. Raise an error if the evidence no longer matches its seal."""
        diagnosis = self.require_diagnosis()
        if self.unproven is not None:
            raise self.unproven
        return diagnosis

    def figure_texts(self) -> dict[str, str]:
        """Return trust, cost and time of the run as text, by the names of these figures; empty without a diagnosis."""
        from critiqor.comparison.figures import format_figures  # lists of runs show fewer figures

        return {} if self._judged is None else format_figures(*self._judged)

    def coverage(self) -> Coverage | None:
        """Return the coverage of the evidence as far as the viewer may see it; None if it cannot be read."""
        try:
            coverage = self.run.coverage()
        except (OSError, BrokenRecordError):
            return None
        if not self.is_anonymous:
            return coverage
        from critiqor.privacy.events import anonymous_coverage

        return anonymous_coverage(coverage)

    def events(self) -> Iterator[Event]:
        """Yield the events as far as the viewer may see them, in true order."""
        try:
            yield from map(self.event_filter(), self.run.events()) if self.is_anonymous else self.run.events()
        except FileNotFoundError as error:
            message = f"the evidence of {self.run_id} cannot be read: {error}"
            raise BrokenRecordError(message, fix=f"critiqor verify {self.run_id}") from error

    def event_filter(self) -> Callable[[Event], Event]:
        """Return a function that removes from each event what the viewer may not see; it remembers the names of ids."""
        if not self.is_anonymous:
            return lambda event: event
        from critiqor.privacy.events import anonymous_event
        from critiqor.privacy.replacements import Aliases

        return partial(anonymous_event, aliases=Aliases())


class Brief(NamedTuple):
    """What a list shows of a diagnosis, with the verdict on its run."""

    diagnosis: BriefDiagnosis | Diagnosis
    verdict: Verdict


class _Judged(NamedTuple):
    diagnosis: Diagnosis
    verdict: Verdict


def summarize_runs(store: RunStore) -> list[RunSummary]:
    """Return what the user sees of every run of a folder in short, in order of time. A broken run has its problem."""
    return sorted(map(_summarize, store.runs()), key=lambda summary: summary.created_at or "")


def _summarize(run: Run) -> RunSummary:
    created_at: str | None = None
    metadata: Metadata | None = None
    try:
        view = RunView(run)
        created_at, metadata = view.head.timestamps.created_at, view.head.metadata
        return RunSummary(run_id=run.id, created_at=created_at, metadata=metadata, diagnosis=view.require_proof())
    except CritiqorError as error:
        problem, fix = error.message, error.fix
    except OSError as error:
        problem, fix = str(error), None
    return RunSummary(run_id=run.id, created_at=created_at, metadata=metadata, undiagnosed=problem, fix=fix)
