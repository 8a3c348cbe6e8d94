"""Builds a diagnosis from events: one pass over the evidence, then the detectors, then the scores.

Every session is judged by its own findings, and by those of the process and the recording. Every lost trust point is
assigned to a finding. Gaps in the recording lower confidence, never trust; if nothing is known about what an agent did,
there is no trust score.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from critiqor.diagnosis.analyses import context_analysis, latency_analysis
from critiqor.diagnosis.causal_graph import causal_graph
from critiqor.diagnosis.cost import COST_EVENTS, Ledger
from critiqor.diagnosis.detection import Detection
from critiqor.diagnosis.detector import EventDetector
from critiqor.diagnosis.detectors import BUILT_IN
from critiqor.diagnosis.detectors.inspection_incomplete import TYPE as INSPECTION_INCOMPLETE
from critiqor.diagnosis.detectors.timeout import is_timeout
from critiqor.diagnosis.detectors.tool_misuse import with_true_advice
from critiqor.diagnosis.drafts.cited_events import cite_events
from critiqor.diagnosis.drafts.draft import Draft
from critiqor.diagnosis.drafts.explained_drafts import without_explained
from critiqor.diagnosis.drafts.merging import earliest_step
from critiqor.diagnosis.playbook import playbook
from critiqor.diagnosis.recording import Recording
from critiqor.diagnosis.registry import DetectorRegistry
from critiqor.diagnosis.runs.past_runs import PastRun
from critiqor.diagnosis.runs.totals import Totals
from critiqor.diagnosis.scoring import RECORDER_TYPES, Judgement, SessionFacts, confidence_lost, judge
from critiqor.diagnosis.waste import Waste, WastedCalls
from critiqor.model import (
    SEVERITIES,
    CausalStep,
    Claim,
    Coverage,
    Diagnosis,
    DiagnosisCoverage,
    Event,
    FailureAnalysis,
    Finding,
    Impact,
    Outcome,
    PrimaryDiagnosis,
    Scope,
)
from critiqor.model.event import USER_STOP
from critiqor.model.formatting import counted
from critiqor.model.sanitize import sanitize_line
from critiqor.model.timeline import TimelineSummary
from critiqor.model.usage import Cost
from critiqor.spans.agent_run import AgentRun

ENGINE_VERSION = "1.0.0"
RULE_SET_VERSION = "13"
# 1: first full set of detectors.
# 2: latency_stall, slow_startup, slow_provider and child_process_failure.
# 3: the cause of cost_explosion no longer depends on which calls it names; inspection_incomplete comes first if no
# agent was observed; for a run that was cut off, the recommendation is to run it again.
# 4: the agent's claims are checked against the recording, and the outcome of the task is judged; a verdict per session;
# findings are joined within a session only; the run has the trust of its worst session; imported evidence in which no
# work of an agent is understood has no trust score.
# 5: results that differ only in what changes by itself are the same; failures are grouped by cause; repetition that the
# user ordered is no failure; costs without a price are estimated from list prices; answers in unknown languages and
# hidden model calls lower the confidence; a run that was interrupted before an agent began has no trust score.
# 6: a claimed deed needs a call that can have done it; numbers are compared with the row, the label and the ranking
# that a sentence names; bad news about something else admits no failure; warnings, refusals and exclusions that were
# disregarded are failures; a check that passes because it was weakened does not show that the task was done.
# 7: every row, count and remark of a result that is in trouble must be mentioned; of several equal deeds, the one that
# failed must be named, counted or explained; contacts and looks need a call that can have made them; parts of a request
# are compared with what the calls touch; prohibitions and conditions of the user are compared with every call.
# 8: evidence_tampered and records_lost: what the monitor counted is compared with the journal; a process that is gone
# without a record of its end is not called running; a recording in which no agent run took place is no failure of the
# recorder, and records that could not be written are not blamed on a plugin that was not loaded.
# 9: failures whose outputs say the same have one cause, whatever it is; bad news about one failure admits no other one;
# a command that an answer quotes must have been run; dates, hosts and namesakes are compared; answers in XML are read.
# 10: calls of Critiqor's own tools, of its MCP server, are left out; what only an argument of the agent contains
# supports no number; weekdays and accounts of a list are compared with the request; a check is stale although something
# else of the same thing was looked at; numbers beside the point hide no loop; warnings that were disregarded, and
# conditions of the user, are not looked for any more.
# 11: a number that nearly any combination of many recorded ones equals is not supported by them; a call whose answer
# says that it failed is a failure in loops; a later reading of the same thing replaces an earlier one; that something
# is left to do admits no failure; eight checks that together found one lie in about 500 traces are gone.
# 12: what shows an outdated value is cited together with the earlier result; events without a recorded time have no
# duration, and the time of a tool within an agent run is the duration that the call reported; answers to SQL statements
# are read like those of a client; a number that a service changed is misreported; bad news about a call that worked
# admits no failure of another one; waste is an explosion from 400,000 tokens on.
# 13: after a compaction, a call is compared with at least the last 256 different results of its session, before 1,024;
# 200 looks in a row without anything new are reported although the user ordered repetition.
_RANKS = {type_: rank for rank, type_ in enumerate(BUILT_IN.meanings)}


class _Cause(NamedTuple):
    """What makes drafts one finding: the same cause in the same session."""

    cause: str
    session_key: str | None
    is_of_recording: bool
    """Whether it belongs to the process or the recording, and not to agent runs without a session."""


class Spending(NamedTuple):
    """The cost of model calls."""

    total: Cost
    sessions: dict[str | None, Cost]
    """That of each session with model calls."""


class Diagnoser:
    """Observes every event of a recording once, and diagnoses the recording."""

    def __init__(self, event_detectors: Sequence[EventDetector] = ()) -> None:
        """`event_detectors` also observe every event, and their findings count like all others."""
        self._event_detectors = event_detectors
        self._recording = Recording()
        self._ledger = Ledger()
        self._recording.on_removed = self._ledger.end_turn
        self._totals = Totals()
        self._detection = Detection(self._recording, BUILT_IN, self._totals)
        self._session_numbers: dict[str, int] = {}
        """The sessions in the order in which they appear."""
        self._sessions_of_runs: dict[str | None, None] = {}
        """Sessions with agent runs, in order of start."""
        self._latest: AgentRun | None = None
        """The agent run of the last event."""
        self._waste: dict[_Cause, Waste] = {}
        """Waste of each finding of the last call of `findings`, by cause."""
        self._carried: set[str] = set()
        """Ids of events before this recording."""

    def carry_over(self, events: Iterable[Event]) -> None:
        """Observe events from before this recording: they explain it, but what they show by themselves is no finding.

        It is called before the first event of the recording.
        """
        for event in events:
            self._carried.add(event.event_id)
            self._recording.observe(event)
            self._detection.observe()
        self._recording.first_event = None
        self._recording.carried_until = self._totals.carried_until = self._recording.builder.events

    def observe(self, event: Event) -> None:
        """Process the next event."""
        self._recording.observe(event)
        for detector in self._event_detectors:
            detector.observe(event)
        session_key = event.session_key
        if session_key is not None and session_key not in self._session_numbers:
            self._session_numbers[session_key] = len(self._session_numbers) + 1
        if event.source_layer != "supervisor":
            if event.event_type in COST_EVENTS:
                self._ledger.observe(event)
            self._detection.observe()
            latest = self._recording.builder.latest
            if latest is not self._latest and latest is not None:
                self._latest = latest
                self._sessions_of_runs.setdefault(latest.scope.session_key)
            if self._waste and event.event_type == "agent_end":
                for waste in self._waste.values():
                    waste.read_late_usage()

    def values_to_look_up(self) -> frozenset[str]:
        """Return values of the agent's claims that may be anywhere in the events. No more events may follow."""
        claims = self._recording.builder.claims
        claims.conclude()
        return claims.lookups.values

    def look_up(self, events: Iterable[Event]) -> None:
        """Decide the claims with such values by a second look at the events that contain them."""
        self._recording.builder.claims.look_up(events)

    def findings(self, coverage: Coverage) -> list[Finding]:
        """Return the findings so far, most severe first. Cheap enough to be called every few events.

        A tool call, and the spans that started after it, are judged once it has returned.
        """
        return self.judgement(coverage).findings

    def judgement(self, coverage: Coverage, *, is_recording: bool = False) -> Judgement:
        """Return the findings so far and the scores of the sessions, as if those under way had ended well.

        Findings about OpenClaw's timeline are made by `conclude` only. More events may follow. With `is_recording`, it
        is no finding that the recorder has not seen an agent yet, and claims are checked when an agent run has ended.
        """
        recording = self._recording
        recording.coverage = coverage
        claims = recording.builder.claims
        so_far = claims.drafts_so_far(is_recording=is_recording)
        drafts = without_explained([*self._detection.findings(), *so_far], self._detection.explained)
        if is_recording:
            drafts = [draft for draft in drafts if draft.type != INSPECTION_INCOMPLETE]
        drafts += self._drafts_of_events(is_over=False)
        causes = _by_cause(self._advised(drafts))
        self._waste = {cause: self._waste.get(cause) or Waste() for cause in causes}
        found = [_finding(cause, same, self._waste[cause]) for cause, same in causes.items()]
        is_observed = recording.can_be_judged
        lost = confidence_lost(coverage, self._understood(), hollow=recording.is_hollow)
        return judge(
            _ordered(found, is_observed=is_observed),
            self._sessions_so_far(),
            confidence=100 - sum(lost.values()),
            is_observed=is_observed,
            tasks=claims.tasks_so_far(),
        )

    def spending(self) -> Spending:
        """Return the cost of the model calls so far."""
        return Spending(self._ledger.total_cost, self._ledger.session_costs())

    def conclude(
        self,
        run_id: str,
        evidence_digest: str,
        coverage: Coverage,
        generated_at: str,
        timing: TimelineSummary | None = None,
    ) -> Diagnosis:
        """Return the diagnosis of all observed events, and of the timing in OpenClaw's timeline."""
        recording = self._recording
        recording.coverage = coverage
        recording.is_complete = True
        runs = [run for run in recording.runs if run.last_order > recording.carried_until]
        totals = self._totals
        checker = recording.builder.claims
        checker.conclude()
        detection = self._detection
        drafts = without_explained([*detection.conclude(timing), *checker.judged.all], detection.explained)
        drafts = self._without_carried([*drafts, *self._drafts_of_events(is_over=True)])
        waste = detection.waste_of(drafts)
        causes = _by_cause(self._advised(drafts))
        is_observed = recording.can_be_judged
        understood = self._understood()
        lost = confidence_lost(coverage, understood, hollow=recording.is_hollow)
        confidence = 100 - sum(lost.values())
        cost = self._ledger.analysis(runs, totals.tools)
        found = [_finding(cause, same, Waste()) for cause, same in causes.items()]
        verdict = judge(
            _ordered(found, is_observed=is_observed),
            self._session_facts(runs),
            confidence=confidence,
            is_observed=is_observed,
            tasks=checker.tasks,
        )
        findings, main = verdict.findings, verdict.main
        graph = causal_graph(findings, lambda finding: _scopes(causes[_cause_of(finding)]))
        cost.wasted_tokens, cost.wasted_usd = _wasted_tokens(waste, drafts), _rounded(waste.cost_usd)
        if cost.wasted_tokens is not None:
            cost.wasted_tokens = min(cost.wasted_tokens, cost.total_tokens)
        cost.wasted_usd_is_estimated = waste.is_estimated
        return Diagnosis(
            run_id=run_id,
            generated_at=generated_at,
            engine_version=ENGINE_VERSION,
            rule_set_version=RULE_SET_VERSION,
            evidence_digest=evidence_digest,
            outcome=msgspec.structs.replace(_outcome(recording), cut_short=recording.was_cut_short, task=verdict.task),
            trust_score=verdict.trust,
            confidence_score=confidence,
            confidence_lost=lost,
            coverage=understood,
            readiness=verdict.readiness,
            headline=main.title if main else f"No failure found in {counted(coverage.agent_events, 'agent event')}.",
            primary_diagnosis=PrimaryDiagnosis(main.type, main.id, main.severity, main.title) if main else None,
            sessions=verdict.sessions,
            sessions_left_out=verdict.sessions_left_out,
            claims=_numbered([claim for claim in checker.claims if claim.event_id not in self._carried]),
            failure_analysis=FailureAnalysis(findings, verdict.left_out),
            causal_graph=graph,
            cost_analysis=cost,
            memory_analysis=totals.memory,
            latency_analysis=latency_analysis(totals, recording.process_start, recording.process_end),
            context_analysis=context_analysis(totals, recording.builder.requests),
            timeline=timing,
            playbook=playbook(run_id, findings, main, graph, name_places=len(verdict.sessions) > 1),
        )

    def _understood(self) -> DiagnosisCoverage:
        """Return what could be read and checked of the answers so far."""
        builder = self._recording.builder
        found = builder.languages.coverage
        failed = builder.claims.not_checked
        if not failed:
            return found
        note = f"{counted(failed, 'answer')} could not be checked, because of an error in Critiqor."
        return msgspec.structs.replace(found, answers_not_checked=failed, notes=[*found.notes, note])

    def _without_carried(self, drafts: list[Draft]) -> list[Draft]:
        """Return the drafts that something in this recording shows."""
        carried = self._carried
        return [each for each in drafts if not each.evidence or not carried.issuperset(each.evidence)]

    def _drafts_of_events(self, *, is_over: bool) -> list[Draft]:
        return [draft for detector in self._event_detectors for draft in detector.findings(is_over=is_over)]

    def _advised(self, drafts: list[Draft]) -> list[Draft]:
        """Return drafts whose advice fits the whole recording: a detector of one agent run does not know the others."""
        return [with_true_advice(draft, self._recording.builder.tools) for draft in drafts]

    def _sessions_so_far(self) -> list[SessionFacts]:
        """Return what is known of the sessions without a look at each of their agent runs."""
        costs = self._ledger.session_costs()
        keys = list(self._sessions_of_runs)
        if len(keys) > 1 and None in keys and not self._has_runs_without_session():
            keys.remove(None)
        return [
            SessionFacts(
                session_key=key, number=None if key is None else self._session_numbers.get(key), cost=costs.get(key)
            )
            for key in keys
        ]

    def _has_runs_without_session(self) -> bool:
        # Stray events without a session are not a session.
        return any(run.has_history for run in self._recording.runs if run.scope.session_key is None)

    def _session_facts(self, runs: list[AgentRun]) -> list[SessionFacts]:
        """Return what is known of the sessions of these agent runs, in order of start."""
        costs = self._ledger.session_costs()
        cut_short = {run.scope.session_key for run in self._recording.cut_short_runs}
        past = self._recording.past_runs
        sessions: dict[str | None, list[AgentRun]] = {key: [] for key in self._sessions_of_runs}
        for run in runs:
            sessions.setdefault(run.scope.session_key, []).append(run)
        sessions = {key: members for key, members in sessions.items() if members or past.count(key)}
        if len(sessions) > 1 and None in sessions and not self._has_runs_without_session():
            del sessions[None]
        for key, members in sessions.items():
            # A request that was saved before its agent run was known is not an agent run.
            named = [run for run in members if run.scope.agent_run_id is not None or run.has_begun]
            sessions[key] = named if named or past.count(key) else members
        return [
            SessionFacts(
                session_key=key,
                number=None if key is None else self._session_numbers.get(key),
                agent_runs=_ids_of(past.of(key), members),
                agent_runs_total=past.count(key) + len(members),
                was_cut_short=key in cut_short,
                cost=costs.get(key),
            )
            for key, members in sessions.items()
        ]


def _ids_of(past: list[PastRun], members: list[AgentRun]) -> list[str]:
    """Return the ids of agent runs of a session in order of start."""
    runs = sorted([*past, *(PastRun(run.number, run.scope.agent_run_id) for run in members)])
    return [run.agent_run_id for run in runs if run.agent_run_id is not None]


def _numbered(claims: list[Claim]) -> list[Claim]:
    """Return the claims with their ids."""
    return [msgspec.structs.replace(claim, id=f"claim_{number:03d}") for number, claim in enumerate(claims, 1)]


def diagnose_with(recording: Recording, detectors: DetectorRegistry) -> list[Finding]:
    """Diagnose a complete recording with the given detectors alone: findings that are neither scored nor numbered."""
    causes = _by_cause(Detection(recording, detectors).conclude(None))
    return [_finding(cause, same, Waste()) for cause, same in causes.items()]


def _by_cause(drafts: list[Draft]) -> dict[_Cause, list[Draft]]:
    """Group drafts by cause: the same cause in several agent runs of a session is one finding."""
    causes: dict[_Cause, list[Draft]] = {}
    for draft in drafts:
        name = sanitize_line(":".join((draft.type, *draft.about)))
        cause = _Cause(name, draft.scope.session_key, draft.scope == Scope())
        causes.setdefault(cause, []).append(draft)
    return causes


def _cause_of(finding: Finding) -> _Cause:
    return _Cause(finding.cause, finding.session_key, finding.is_of_recording)


def _finding(cause: _Cause, drafts: list[Draft], waste: Waste) -> Finding:
    """Return one finding for all drafts with the same cause, described by the most severe of them."""
    worst = min(drafts, key=_severity_key)
    runs = _scopes(drafts)
    first_steps = [step for draft in drafts if (step := earliest_step(draft)) is not None]
    waste.update(_wasted_calls(drafts))
    occurrences = sum(draft.occurrences for draft in drafts)
    where = ""
    if len(runs) > 1:
        where = f" This happened in {len(runs)} agent runs; the worst one is shown."
    elif len(drafts) > 1:
        where = f" It is the worst of {len(drafts)} such cases, {occurrences} occurrences in all."
    return Finding(
        type=worst.type,
        cause=cause.cause,
        severity=worst.severity,
        confidence=worst.confidence,
        title=sanitize_line(worst.title),
        explanation=sanitize_line(worst.explanation) + where,
        evidence=cite_events(event for draft in drafts for event in draft.evidence),
        occurrences=occurrences,
        session_key=worst.scope.session_key,
        agent_run_id=worst.scope.agent_run_id,
        first_bad_step=min(first_steps, default=None),
        causal_chain=[CausalStep(step.event_id, sanitize_line(step.happened), step.relation) for step in worst.chain],
        impact=_impact(waste, drafts),
        recommendation=sanitize_line(worst.recommendation),
        verification=sanitize_line(worst.verification),
    )


def _scopes(drafts: list[Draft]) -> set[Scope]:
    """Return the agent runs that drafts are about."""
    return {scope for draft in drafts for scope in draft.merged or (draft.scope,)}


def _wasted_calls(drafts: list[Draft]) -> list[WastedCalls | Waste]:
    series: list[WastedCalls | Waste] = [draft.wasted_tool_calls for draft in drafts]
    return series + [draft.wasted_model_calls for draft in drafts]


def _wasted_tokens(waste: Waste, drafts: list[Draft]) -> int | None:
    resent = sum(draft.resent_tokens for draft in drafts)
    return (waste.tokens or 0) + resent if resent else waste.tokens


def _impact(waste: Waste, drafts: list[Draft]) -> Impact:
    return Impact(
        wasted_tokens=_wasted_tokens(waste, drafts),
        wasted_usd=_rounded(waste.cost_usd),
        wasted_usd_is_estimated=waste.is_estimated,
        wasted_ms=waste.duration_ms,
    )


def _rounded(cost_usd: float | None) -> float | None:
    return None if cost_usd is None else round(cost_usd, 6)


def _severity_key(draft: Draft | Finding) -> tuple[int, int, int, str]:
    """Return a sort key: most severe first, then by failure type, confidence and place."""
    place = draft.first_bad_step or ""
    return (SEVERITIES.index(draft.severity), _RANKS.get(draft.type, len(_RANKS)), -draft.confidence, place)


def _ordered(findings: list[Finding], *, is_observed: bool) -> list[Finding]:
    """Return the findings, the worst first. If no agent was observed at work, the finding about that comes first."""
    ordered = sorted(findings, key=lambda finding: (*_severity_key(finding), finding.cause, finding.session_key or ""))
    if not is_observed:
        ordered.sort(key=lambda finding: finding.type not in RECORDER_TYPES)
    return ordered


_SUPERVISED = "the supervisor observed it"
_REPORTED = "the agent reported it"


def _outcome(recording: Recording) -> Outcome:
    if recording.error_of("timeout") is not None:
        return Outcome("timed_out", _SUPERVISED)
    if (limit := recording.error_of("limit")) is not None:
        is_of_user = limit.payload.get("limit") == USER_STOP
        return Outcome("interrupted", "the user stopped it" if is_of_user else "Critiqor stopped it because of a limit")
    if recording.was_asked_to_stop:
        return Outcome("interrupted", _SUPERVISED)
    if recording.process_errors:
        return Outcome("failed", _SUPERVISED)
    if recording.process_end is not None:
        code = recording.exit_code
        return Outcome("completed" if code == 0 else "failed", f"the process ended with exit code {code}")
    if recording.coverage.end_not_recorded:
        return Outcome("unknown", "the process and its monitor have ended, and nothing was recorded about how")
    if recording.process_start is not None:
        return Outcome("still_running", "the end of the process was not observed")
    ended = recording.ended_run
    if ended is None or ended.last_end is None:
        return Outcome("unknown", "no process was supervised, and the recording contains no end of an agent run")
    if is_timeout(ended.last_end):
        return Outcome("timed_out", _REPORTED)
    if ended.was_stopped:
        return Outcome("interrupted", _REPORTED)
    return Outcome("failed" if ended.last_end.status == "error" else "completed", _REPORTED)
