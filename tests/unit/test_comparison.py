from __future__ import annotations

from random import Random

import msgspec
import pytest
from diagnosed import diagnoses, diagnosis, finding
from hypothesis import given, strategies

from critiqor.comparison.causes import CauseChange
from critiqor.comparison.compare import Comparison, compare
from critiqor.model.diagnosis import Diagnosis, FailureAnalysis, Outcome, OutcomeState
from critiqor.model.timeline import TimelineSummary

BEFORE, AFTER = "run_001", "run_002"


def summaries(changes: list[CauseChange]) -> list[tuple[str, str | None, str | None, int, int]]:
    return [(c.cause, c.severity_before, c.severity_after, c.occurrences_before, c.occurrences_after) for c in changes]


def test_findings_that_are_gone_new_or_still_there_are_matched_by_cause() -> None:
    before = diagnosis(BEFORE, finding("a:x", id="finding_001"), finding("b", "medium", id="finding_002"), trust=55)
    after = diagnosis(AFTER, finding("b", "medium", id="finding_001"), finding("c", "low"), trust=80)
    result = compare(before, after)
    assert summaries(result.gone) == [("a:x", "high", None, 1, 0)]
    assert summaries(result.new) == [("c", None, "low", 0, 1)]
    assert summaries(result.still_there) == [("b", "medium", "medium", 1, 1)]
    assert result.verdict == "mixed"
    assert result.summary == "mixed: 1 problem gone, trust 55 → 80; but 1 problem new"


def test_findings_of_one_cause_are_one_group() -> None:
    before = diagnosis(BEFORE, finding("a", "low", occurrences=3), finding("a", "high"), finding("a", "medium"))
    after = diagnosis(AFTER, finding("a", "medium", occurrences=2, title="now"))
    [change] = compare(before, after).still_there
    assert (change.findings_before, change.findings_after) == (3, 1)
    assert summaries([change]) == [("a", "high", "medium", 5, 2)]
    assert change.title == "now"


@pytest.mark.parametrize(
    ("before", "after", "verdict", "reason"),
    [
        (diagnosis(BEFORE, finding()), diagnosis(AFTER), "better", "1 problem gone"),
        (diagnosis(BEFORE), diagnosis(AFTER, finding()), "worse", "1 problem new"),
        (diagnosis(BEFORE, finding(severity="high")), diagnosis(AFTER, finding(severity="low")), "better", "milder"),
        (diagnosis(BEFORE, finding()), diagnosis(AFTER, finding(occurrences=4)), "worse", "more frequent"),
        (diagnosis(BEFORE, trust=80), diagnosis(AFTER, trust=90), "better", "trust 80 → 90"),
        (
            diagnosis(BEFORE, finding(severity="low", occurrences=9)),
            diagnosis(AFTER, finding(severity="high")),
            "mixed",
            "1 problem milder or less frequent; but 1 problem worse or more frequent",
        ),
        (diagnosis(BEFORE), diagnosis(AFTER), "no difference", "no problems and the same trust"),
        (diagnosis(BEFORE, finding()), diagnosis(AFTER, finding()), "no difference", "the same problems"),
        (diagnosis(BEFORE, finding("n", "info")), diagnosis(AFTER), "no difference", "the same trust"),
    ],
)
def test_verdict(before: Diagnosis, after: Diagnosis, verdict: str, reason: str) -> None:
    result = compare(before, after)
    assert result.verdict == verdict
    assert reason in result.summary


def test_run_that_was_not_observed_cannot_be_compared_and_nothing_is_called_gone() -> None:
    result = compare(diagnosis(BEFORE, finding(), trust=70), diagnosis(AFTER, trust=None))
    assert result.verdict == "cannot be compared"
    assert f"the agent was not observed in {AFTER}" in result.summary
    assert f"critiqor show {AFTER}" in result.summary
    assert (result.gone, result.new, result.still_there) == ([], [], [])
    assert result.figures.trust.difference is result.figures.findings.difference is None


def test_other_rules_cannot_be_compared_and_the_way_out_is_named() -> None:
    before = diagnosis(BEFORE, rules="1", wall_ms=5)
    result = compare(before, diagnosis(AFTER, finding(), trust=70, rules="2", wall_ms=9))
    assert result.verdict == "cannot be compared"
    assert f"critiqor diagnose {BEFORE}, critiqor diagnose {AFTER}" in result.summary
    assert result.new == []
    assert (result.figures.trust.before, result.figures.trust.after, result.figures.trust.difference) == (100, 70, None)
    assert result.figures.wall_ms.difference == 4


def test_unknown_is_not_zero() -> None:
    figures = compare(diagnosis(BEFORE, cost_usd=None, wall_ms=None), diagnosis(AFTER, cost_usd=0.5)).figures
    assert (figures.cost_usd.before, figures.cost_usd.after, figures.cost_usd.difference) == (None, 0.5, None)
    assert figures.wall_ms.difference is None
    both = compare(diagnosis(BEFORE, cost_usd=0.0), diagnosis(AFTER, cost_usd=0.3)).figures
    assert both.cost_usd.difference == 0.3


def test_incomplete_usage_is_unknown_and_noted() -> None:
    after = diagnosis(AFTER, cost_usd=0.1, model_calls_without_usage=1)
    result = compare(diagnosis(BEFORE, cost_usd=0.2), after)
    assert result.figures.cost_usd.after is None
    assert result.figures.tokens.after is None
    assert result.notes == [f"{AFTER}: tokens and cost are unknown, because 1 model call reported no usage"]
    assert compare(diagnosis(cost_usd=1), diagnosis(AFTER)).notes == [
        f"{AFTER}: cost is unknown, because no price is known"
    ]


def test_differences_of_cost_have_no_rounding_errors() -> None:
    assert compare(diagnosis(cost_usd=0.1), diagnosis(cost_usd=0.3)).figures.cost_usd.difference == 0.2


def test_one_pair_of_runs_decides_nothing_about_cost_and_time() -> None:
    result = compare(diagnosis(BEFORE, cost_usd=0.2, wall_ms=900), diagnosis(AFTER, cost_usd=0.1, wall_ms=500))
    assert result.verdict == "no difference"
    assert "only cost, time differ, which may be chance" in result.summary
    assert "sample" not in compare(diagnosis(BEFORE), diagnosis(AFTER)).summary


def test_a_note_warns_if_a_cause_is_gone_from_a_run_with_less_confidence() -> None:
    result = compare(diagnosis(BEFORE, finding(), confidence=100), diagnosis(AFTER, confidence=60))
    assert result.verdict == "better"
    assert "may be unrecorded" in result.notes[-1]


def test_problems_of_the_recorder_are_listed_and_do_not_change_the_verdict() -> None:
    result = compare(diagnosis(BEFORE, finding("inspection_incomplete", "high")), diagnosis(AFTER))
    assert [change.cause for change in result.gone] == ["inspection_incomplete"]
    assert result.verdict == "no difference"


@given(diagnoses)
def test_a_run_does_not_differ_from_itself(run: Diagnosis) -> None:
    result = compare(run, run)
    assert result.verdict == ("cannot be compared" if run.trust_score is None else "no difference")
    assert (result.gone, result.new) == ([], [])
    differences = msgspec.to_builtins(result.figures).values()
    assert {figure["difference"] for figure in differences} <= {0, None}


@given(diagnoses, diagnoses, strategies.randoms(use_true_random=False))
def test_order_of_findings_does_not_matter(before: Diagnosis, after: Diagnosis, random: Random) -> None:
    def shuffled(run: Diagnosis) -> Diagnosis:
        found = list(run.failure_analysis.findings)
        random.shuffle(found)
        return msgspec.structs.replace(run, failure_analysis=FailureAnalysis(found))

    assert compare(shuffled(before), shuffled(after)) == compare(before, after)


def test_time_of_a_profiled_run_is_never_compared() -> None:
    profiled = msgspec.structs.replace(
        diagnosis("run_002", wall_ms=9000), timeline=TimelineSummary(present=True, profiled=True)
    )
    result = compare(diagnosis(), profiled)
    assert (result.figures.wall_ms.after, result.figures.wall_ms.difference) == (None, None)
    assert "run_002 was recorded with deep profiling: its time is not comparable" in result.notes


@given(diagnoses, diagnoses)
def test_comparing_the_other_way_round_is_the_mirror_image(before: Diagnosis, after: Diagnosis) -> None:
    forth, back = compare(before, after), compare(after, before)
    mirrored = {"better": "worse", "worse": "better"}
    assert back.verdict == mirrored.get(forth.verdict, forth.verdict)
    assert [c.cause for c in back.new] == [c.cause for c in forth.gone]
    assert [c.cause for c in back.gone] == [c.cause for c in forth.new]
    assert [(c[0], c[2], c[1], c[4], c[3]) for c in summaries(back.still_there)] == summaries(forth.still_there)
    for name in forth.figures.__struct_fields__:
        one, other = getattr(forth.figures, name), getattr(back.figures, name)
        assert (other.before, other.after) == (one.after, one.before)
        assert other.difference == (None if one.difference is None else -one.difference)


@given(diagnoses, diagnoses)
def test_every_cause_is_in_exactly_one_list(before: Diagnosis, after: Diagnosis) -> None:
    result: Comparison = compare(before, after)
    listed = [change.cause for changes in (result.gone, result.new, result.still_there) for change in changes]
    causes = {found.cause for run in (before, after) for found in run.failure_analysis.findings}
    assert sorted(listed) == (sorted(causes) if result.verdict != "cannot be compared" else [])


def ended(run: Diagnosis, state: OutcomeState, *, cut_short: bool | None = None) -> Diagnosis:
    return msgspec.structs.replace(run, outcome=Outcome(state, "what was seen", cut_short))


@pytest.mark.parametrize("side", [BEFORE, AFTER])
@pytest.mark.parametrize(
    ("state", "cut_short"), [("still_running", True), ("interrupted", True), ("completed", True), ("unknown", False)]
)
def test_of_a_run_that_was_cut_off_no_verdict_is_possible(state: OutcomeState, cut_short: bool, side: str) -> None:
    runs = {
        BEFORE: diagnosis(BEFORE, finding("a"), finding("b"), trust=0, cost_usd=0.4),
        AFTER: diagnosis(AFTER, finding("a"), trust=10, cost_usd=0.1),
    }
    runs[side] = ended(runs[side], state, cut_short=cut_short)
    result = compare(runs[BEFORE], runs[AFTER])
    assert (result.verdict, result.summary) == ("cannot tell", f"cannot tell: {side} did not finish")
    assert [change.cause for change in result.gone] == ["b"], "what was seen is still listed"
    assert (result.figures.cost_usd.before, result.figures.cost_usd.after) == (0.4, 0.1)
    assert {figure.difference for figure in msgspec.structs.astuple(result.figures)} == {None}
    assert result.notes[0] == f"{side} did not finish: its cost and time cover only a part of the task"


@pytest.mark.parametrize("state", ["timed_out", "failed"])
def test_a_run_that_broke_down_can_be_compared_with_one_that_came_to_its_end(state: OutcomeState) -> None:
    broken = ended(diagnosis(BEFORE, finding("timeout"), trust=70), state, cut_short=True)
    whole = diagnosis(AFTER)
    result = compare(broken, whole)
    assert (result.verdict, result.figures.trust.difference) == ("better", 30)
    assert result.figures.cost_usd.difference is result.figures.wall_ms.difference is None
    assert compare(whole, broken).verdict == "worse"
    again = ended(diagnosis(AFTER, trust=90), state, cut_short=True)
    assert compare(broken, again).summary == f"cannot tell: {BEFORE} did not finish; {AFTER} did not finish"


def test_a_gateway_that_was_stopped_at_rest_came_to_its_end() -> None:
    before = ended(diagnosis(BEFORE, finding()), "interrupted", cut_short=False)
    assert compare(before, ended(diagnosis(AFTER), "still_running", cut_short=False)).verdict == "better"
