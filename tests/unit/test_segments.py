"""Segments of a recording: when it is cut, what a killed cut leaves behind, and what is carried over."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from live_replay import looping
from recordings import Source
from support import Cli, Runs, attached, line_of, recorded

from critiqor.agentloop.recording.recorder import attach_recorder
from critiqor.agentloop.recording.run_recording import AttemptEnd
from critiqor.diagnosis import Diagnoser
from critiqor.errors import UsageError
from critiqor.model import Coverage, Event, Metadata
from critiqor.policy.retention import Retention
from critiqor.run.diagnosis import diagnose
from critiqor.run.finalization import finalize
from critiqor.run.lifecycle import abort, start_session
from critiqor.run.retention.pruning import prune
from critiqor.run.segments import handover
from critiqor.run.segments.carried import MAX_EVENTS, CarriedEvents, read_carried
from critiqor.run.segments.cutter import SegmentCutter
from critiqor.run.segments.handover import hand_over, have_recorders_left, successor_of, unfinished_before
from critiqor.run.segments.rule import SegmentRule, parse_segment
from critiqor.run.store import Run, RunStore
from critiqor.storage.session_document import encode


def start(runs: Runs, segment: str = "1KB") -> Run:
    store = RunStore(runs.folder)
    run = store.run(start_session(store, Metadata(), owned=False, segment=segment).run_id)
    runs.write(run.id, attached(), *(recorded(number) for number in range(2, 6)))
    return run


def cut(run: Run) -> Run:
    done = hand_over(run, lambda new: {"note": "prepared"})
    assert done is not None
    return done.run


def test_the_rule_says_when_a_segment_is_over() -> None:
    assert parse_segment("24h") == SegmentRule(max_age_ms=24 * 3_600_000)
    assert parse_segment("500MB") == SegmentRule(max_bytes=500_000_000)
    assert (parse_segment("off"), parse_segment(None)) == (None, None)
    idle = parse_segment("idle")
    assert idle is not None and idle.is_due(age_ms=0, size=0, idle_ms=600_000)
    assert not idle.is_due(age_ms=10**12, size=10**12, idle_ms=599_999)
    with pytest.raises(UsageError, match="does not say when to cut"):
        parse_segment("sometimes")


def test_the_recorder_of_the_embedded_loop_goes_on_in_the_next_run(runs: Runs) -> None:
    store = RunStore(runs.folder)
    run = store.run(start_session(store, Metadata(), owned=False, segment="1KB").run_id)
    slot = str(run.paths.slot_path(None))
    environment = {"CRITIQOR_RUN_ID": run.id, "CRITIQOR_RUNS_DIR": str(runs.folder), "CRITIQOR_SLOT_FILE": slot}
    recorder = attach_recorder(Source(), Source(), environment)
    begun = recorder.open_run("r1", "agent:main:main")
    begun.attempt_started("main")
    following = cut(run)
    recorder.open_run("r2", "agent:main:other").attempt_started("main")
    begun.attempt_ended(AttemptEnd(None, "stop", is_aborted=False))
    assert recorded_names(run) == ["recorder_attached", "agent_start", "agent_end"]
    assert recorded_names(following) == ["recorder_attached", "agent_start"]
    assert not have_recorders_left(run)
    recorder.follow()
    recorder.follow()
    assert have_recorders_left(run) and not have_recorders_left(following)
    begun.notice("message_sent", {})
    late = attach_recorder(Source(), Source(), environment)
    late.close()
    recorder.close()
    assert recorded_names(following)[2:] == ["message_sent", "recorder_attached"]
    assert len(recorded_names(run)) == 3 and have_recorders_left(following)


def recorded_names(run: Run) -> list[str]:
    lines = run.paths.journal_path(run.id).read_bytes().splitlines()
    return [msgspec.json.decode(line)["event_type"] for line in lines]


def test_only_a_segment_in_which_an_agent_did_something_is_cut(runs: Runs) -> None:
    run = start(runs)
    said: list[str] = []
    assert SegmentCutter(run, said.append).is_due()
    following = cut(run)
    runs.write(following.id, attached(1), *(b"{broken\n" for _ in range(300)))
    assert not SegmentCutter(following, said.append).is_due()


def test_a_cut_passes_the_slot_on_and_leaves_the_run_before_without_an_end(runs: Runs) -> None:
    run = start(runs)
    following = cut(run)
    assert RunStore(runs.folder).active() == following
    assert (run.head().status, run.head().cut) == ("FINALIZING", None)
    head = following.head()
    assert (head.status, head.continues, head.recording, head.segment) == ("MONITORING", run.id, run.id, "1KB")
    third = cut(following)
    assert (third.head().continues, third.head().recording) == (following.id, run.id)
    assert hand_over(run, lambda new: {}) is None


def test_finalizing_the_last_segment_completes_those_before_it(runs: Runs) -> None:
    first = start(runs)
    second = cut(first)
    third = cut(second)
    finalize(None, RunStore(runs.folder))
    assert {run.head().status for run in (first, second, third)} == {"COMPLETED"}
    assert all(run.verify(rediagnose=True).intact for run in (first, second, third))
    assert RunStore(runs.folder).all_active() == []


def test_a_cut_that_was_killed_before_the_slot_was_passed_on_is_made_again(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(runs)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    for step in ("write_slot", "leave_segment"):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(handover, step, killed)
            hand_over(run, lambda new: {})
        if step == "write_slot":
            assert RunStore(runs.folder).active() == run
    following = successor_of(run)
    assert following is not None and runs.paths.run_ids() == [run.id, following.id]
    assert RunStore(runs.folder).active() == following
    finalize(None, RunStore(runs.folder))
    assert {each.head().status for each in (run, following)} == {"COMPLETED"}


def test_a_run_that_a_killed_cut_has_reserved_is_removed_when_the_recording_ends(
    runs: Runs,
) -> None:
    run = start(runs)

    def killed(new: Run) -> dict[str, str]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hand_over(run, killed)
    assert len(runs.paths.run_ids()) == 2
    finalize(None, RunStore(runs.folder))
    assert runs.paths.run_ids() == [run.id]
    assert RunStore(runs.folder).all_active() == []


def test_a_recording_that_ends_during_a_cut_is_not_continued(runs: Runs) -> None:
    run = start(runs)

    def ended(new: Run) -> dict[str, str]:
        abort(run, RunStore(runs.folder), "ended meanwhile")
        return {}

    assert hand_over(run, ended) is None
    assert runs.paths.run_ids() == [run.id]
    assert RunStore(runs.folder).all_active() == []


def test_recorders_have_left_when_their_closing_records_are_complete_or_they_are_gone(runs: Runs) -> None:
    run = start(runs)
    assert have_recorders_left(run)
    closing = runs.paths.closing_path(run.id, "w1")
    closing.write_text(f'{{"writer":"w1","pid":{os.getpid()}}}'.ljust(511) + "\n")
    assert not have_recorders_left(run)
    closing.write_text(f'{{"writer":"w1","pid":{os.getpid()},"produced":5,"lost":0}}'.ljust(511) + "\n")
    assert have_recorders_left(run)
    closing.write_text('{"writer":"w1","pid":4194303}'.ljust(511) + "\n")
    assert have_recorders_left(run)


def test_a_pipe_in_the_place_of_a_closing_record_is_not_waited_for(runs: Runs) -> None:
    run = start(runs)
    os.mkfifo(runs.paths.closing_path(run.id, "w1"))
    runs.paths.closing_path(run.id, "w2").write_text('{"writer":"w2"')
    assert have_recorders_left(run)


def rewrite(run: Run, **members: Any) -> None:
    """Change the record of a run, as a program of the same user can."""
    record = msgspec.json.decode(run.record_path.read_bytes())
    run.record_path.write_bytes(msgspec.json.encode({**record, **members}))


def test_a_run_that_continues_itself_or_a_later_one_has_no_segments_before_it(runs: Runs) -> None:
    first = start(runs)
    second = cut(first)
    assert unfinished_before(second) == [first]
    rewrite(first, continues=second.id, recording=first.id)
    assert unfinished_before(second) == [first]
    rewrite(second, continues=second.id)
    assert unfinished_before(second) == []
    finalize(None, RunStore(runs.folder))
    assert second.head().status == "COMPLETED"


def test_a_run_of_another_recording_or_slot_is_no_segment_of_this_one(runs: Runs) -> None:
    store = RunStore(runs.folder)
    other = store.run(start_session(store, Metadata(), owned=False, slot="work", segment="1KB").run_id)
    run = start(runs)
    for forged in ({"recording": None}, {"recording": other.id}, {"recording": other.id, "segment": None}):
        rewrite(run, continues=other.id, **forged)
        assert unfinished_before(run) == []
        assert successor_of(other) is None
    finalize(run, store)
    assert (run.head().status, other.head().status) == ("COMPLETED", "MONITORING")


def test_the_first_segment_stays_while_its_recording_goes_on(runs: Runs) -> None:
    first = start(runs)
    second = cut(first)
    third = cut(second)
    finalize(second, RunStore(runs.folder))
    removed = [each.run_id for each in prune(RunStore(runs.folder), Retention(max_age="0m")).removed]
    assert first.id not in removed and third.id not in removed
    assert first.record_path.exists() and third.record_path.exists()


def test_what_is_carried_over_is_bounded_and_has_whole_agent_runs(tmp_path: Path) -> None:
    carried = CarriedEvents()
    for number in range(30):
        for part in range(100):
            scope: dict[str, Any] = {"session_key": f"s{number}", "agent_run_id": f"r{number}"}
            moment: dict[str, Any] = {"timestamp": "2026-11-18T00:00:00.000Z", **scope}
            event_id = f"evt_{number:09d}_w_{part:05d}"
            carried.add(Event(event_id=event_id, event_type="tool_call", payload={"text": "x" * 500}, **moment))
    carried.write(tmp_path / "carried.jsonl")
    events = list(read_carried(tmp_path / "carried.jsonl"))
    assert len(events) == MAX_EVENTS
    assert {event.agent_run_id for event in events} == {f"r{number}" for number in range(10, 30)}
    assert [event.event_id for event in events] == sorted(event.event_id for event in events)


def test_nothing_and_broken_lines_are_carried_without_harm(tmp_path: Path) -> None:
    assert list(read_carried(tmp_path / "none.jsonl")) == []
    (tmp_path / "carried.jsonl").write_bytes(b"{broken\n" + line_of(recorded(2)) + b"\xff\n")
    assert len(list(read_carried(tmp_path / "carried.jsonl"))) == 1


def test_what_only_earlier_segments_show_is_no_finding_claim_or_cost_of_a_segment() -> None:
    diagnoser = Diagnoser()
    diagnoser.carry_over(looping().events)
    diagnosis = diagnoser.conclude("run_002", "", Coverage(recorder_attached=True), "")
    assert diagnosis.failure_analysis.findings == []
    assert (diagnosis.claims, diagnosis.sessions, diagnosis.cost_analysis.total_tokens) == ([], [], 0)


def test_a_loop_that_began_in_an_earlier_segment_is_found_in_the_one_in_which_it_goes_on() -> None:
    events = looping().events
    middle = len(events) // 2
    alone, continued = Diagnoser(), Diagnoser()
    continued.carry_over(events[:middle])
    for event in events[middle:]:
        alone.observe(event)
        continued.observe(event)
    coverage = Coverage(recorder_attached=True, agent_events=len(events))
    found = continued.conclude("run_002", "", coverage, "").failure_analysis.findings
    assert "tool_loop" in [finding.type for finding in found]
    loop = next(finding for finding in found if finding.type == "tool_loop")
    assert loop.evidence[0] < events[middle].event_id <= loop.evidence[-1]
    assert alone.conclude("run_002", "", coverage, "").trust_score is not None


def test_a_changed_carried_file_is_noticed_and_not_diagnosed(cli: Cli, runs: Runs) -> None:
    first = start(runs)
    second = cut(first)
    scope: dict[str, Any] = {"session_key": "s1", "agent_run_id": "r2"}
    runs.write(second.id, attached(), recorded(2, "tool_call", **scope))
    finalize(None, RunStore(runs.folder))
    carried = runs.paths.carried_path(second.id)
    assert second.coverage().carried is not None
    carried.write_bytes(carried.read_bytes() + b" ")
    assert second.verify().intact  # what follows after the sealed part is no evidence
    carried.write_bytes(carried.read_bytes().replace(b"evt_", b"EVT_", 1))
    assert not second.verify().intact
    assert "changed after sealing" in cli("diagnose", second.id).err


def forged_events() -> bytes:
    """Return the lines of a loop that no segment has recorded."""
    return b"".join(encode(event) + b"\n" for event in looping().events)


def diagnosed_anew(run: Run) -> dict[str, Any]:
    """Return the diagnosis of a run that is made now, without the moment."""
    return {**msgspec.to_builtins(diagnose(run)), "generated_at": None}


def test_events_added_after_sealed_carried_ones_change_no_diagnosis(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start(runs)
    second = cut(first)
    runs.write(second.id, attached(), recorded(2, "tool_call"))
    finalize(None, RunStore(runs.folder))
    assert second.coverage().carried is not None
    before, seen = diagnosed_anew(second), carried_ids(monkeypatch)
    carried = runs.paths.carried_path(second.id)
    carried.write_bytes(carried.read_bytes() + forged_events())
    assert diagnosed_anew(second) == before
    assert seen and seen.isdisjoint(event.event_id for event in looping().events)
    assert second.verify(rediagnose=True).intact


def test_a_carried_file_in_a_run_that_was_sealed_without_one_is_not_read(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(runs)
    finalize(None, RunStore(runs.folder))
    before, seen = diagnosed_anew(run), carried_ids(monkeypatch)
    runs.paths.carried_path(run.id).write_bytes(forged_events())
    assert diagnosed_anew(run) == before
    assert run.verify(rediagnose=True).intact
    assert seen == set()


def test_a_run_that_continues_no_other_carries_nothing_over(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    run = start(runs)
    following = cut(run)
    seen = carried_ids(monkeypatch)
    runs.paths.carried_path(run.id).write_bytes(forged_events())
    finalize(run, RunStore(runs.folder))
    assert run.coverage().carried is None
    assert seen == set()
    passed_on = {event.event_id for event in read_carried(runs.paths.carried_path(following.id))}
    assert passed_on and passed_on.isdisjoint(event.event_id for event in looping().events)


def carried_ids(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the ids of the events that diagnoses read from earlier segments, from now on."""
    seen: set[str] = set()
    original = Diagnoser.carry_over

    def carry_over(self: Diagnoser, events: Iterable[Event]) -> None:
        found = list(events)
        seen.update(event.event_id for event in found)
        original(self, found)

    monkeypatch.setattr(Diagnoser, "carry_over", carry_over)
    return seen
