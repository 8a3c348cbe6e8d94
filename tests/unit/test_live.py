"""The diagnosis of a recording in progress: the verdict so far, what is announced, and what is written."""

from __future__ import annotations

import contextlib
import io
import json
import random
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from live_replay import differences, looping, records_of, replay
from rich.console import Console
from story import START, Story, interleaved
from support import Cli, Runs, attached, line_of, recorded
from test_schemas import generator

from critiqor.cli.drawings.watch import LiveRun
from critiqor.cli.verbs import watch
from critiqor.diagnosis.cost import Ledger
from critiqor.live.announcements import RETRY_SECONDS, SETTLE_SECONDS, Announcement, Announcer
from critiqor.live.diagnosis import MAX_FINDINGS, MAX_LIMITS, MAX_SESSIONS
from critiqor.live.event_order import HOLD_SECONDS, EventOrder
from critiqor.live.recording import MAX_CREDIT, MIN_INTERVAL, LiveRecording
from critiqor.live.verdict import LIVE_SCHEMA, LiveFinding, LiveLimit, LiveVerdict, read_live
from critiqor.model import Event, event_id_for
from critiqor.run.store import Run
from critiqor.run.tail import Follower
from critiqor.session import abort_session

Record = dict[str, Any]


class Followed:
    """A run that is recorded while its live diagnosis follows it; time passes only when it is asked to."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.run_id = runs.start()
        self.run = Run.load(self.run_id, runs.folder)
        self.live = LiveRecording(self.run)
        self.now = 0.0
        runs.write(self.run_id, attached())

    def records(self, *records: Record | bytes) -> list[Announcement]:
        self.runs.write(self.run_id, *records)
        return self.passes()

    def passes(self, seconds: float = 2 * MIN_INTERVAL) -> list[Announcement]:
        self.live.read(self.now)
        self.now += seconds
        self.live.read(self.now)
        return self.live.publish(self.now)

    @property
    def verdict(self) -> LiveVerdict:
        verdict = read_live(self.run)
        assert verdict is not None
        return verdict


@pytest.fixture
def followed(runs: Runs) -> Followed:
    return Followed(runs)


def test_verdict_of_a_run_in_progress_names_findings_spend_and_last_words_of_each_session(followed: Followed) -> None:
    other = Story("agent:main:telegram:7", "run-2", start=START + 500).starts().model(cost=0.5).says("I look it up.")
    followed.records(*records_of(interleaved(looping().events, other.events)))
    verdict = followed.verdict
    assert (verdict.state, verdict.readiness) == ("recording", "review")
    assert [finding.type for finding in verdict.findings] == ["tool_loop"]
    worst, best = verdict.sessions
    assert (worst.session_key, worst.is_working, worst.tool_calls) == ("agent:main:main", True, 5)
    assert worst.findings == [verdict.findings[0].id] and worst.cost_usd == pytest.approx(0.05)
    assert (best.session_key, best.readiness, best.trust_score) == ("agent:main:telegram:7", "ready", 100)
    assert (best.last_words, best.cost_usd) == ("I look it up.", 0.5)
    assert verdict.cost_usd == pytest.approx(0.55)


def test_live_json_keeps_to_its_schema_and_the_shipped_schema_is_current(followed: Followed) -> None:
    followed.records(*records_of(looping().events))
    schema = generator().schema_text(LIVE_SCHEMA)
    document = json.loads(followed.runs.paths.live_path(followed.run_id).read_bytes())
    jsonschema.validate(document, json.loads(schema))
    shipped = files("critiqor.model") / "schemas" / f"{LIVE_SCHEMA}.json"
    assert shipped.read_text("utf-8") == schema, "python docs/schemas.py"


def test_live_json_is_bounded_however_many_sessions_and_findings_there_are(followed: Followed) -> None:
    events: list[Event] = []
    for number in range(MAX_SESSIONS + 50):
        events += looping(f"agent:main:chat:{number}", start=START + 3_600_000 * number).says("x" * 5000).events
    followed.records(*records_of(events))
    verdict = followed.verdict
    assert len(verdict.sessions) <= MAX_SESSIONS and len(verdict.findings) == MAX_FINDINGS
    assert len(verdict.sessions) + verdict.sessions_left_out == MAX_SESSIONS + 50
    assert len(verdict.findings) + verdict.findings_left_out == MAX_SESSIONS + 50
    assert followed.runs.paths.live_path(followed.run_id).stat().st_size < 500_000


def test_totals_of_a_run_that_is_followed_keep_nothing_of_each_agent_run() -> None:
    events = [event for number in range(20) for event in Story(run=f"run-{number}").starts().model(cost=0.5).events]
    listed, summed = Ledger(), Ledger(lists_turns=False)
    for event in events:
        listed.observe(event)
        summed.observe(event)
    assert len(listed.analysis([]).per_turn) == 20
    assert summed.analysis([]) == msgspec.structs.replace(listed.analysis([]), per_turn=[])


def test_limits_of_a_verdict_are_the_last_ones(followed: Followed) -> None:
    at = "2026-11-15T00:00:00.000Z"
    for number in range(MAX_LIMITS + 5):
        place = {"session_key": None, "agent_run_id": f"run-{number}", "event_id": None}
        followed.live.add_limit(LiveLimit(name="tokens", action="notify", text="too many", at=at, **place))
    assert [limit.agent_run_id for limit in followed.live.limits] == [
        f"run-{5 + number}" for number in range(MAX_LIMITS)
    ]


def test_finding_is_announced_once_and_names_the_command_to_type(followed: Followed) -> None:
    story = looping()
    assert followed.records(*records_of(story.events)) == []
    [announced] = followed.passes()
    assert (announced.kind, announced.finding.type, announced.finding.severity) == ("new", "tool_loop", "medium")
    assert (announced.run_id, announced.finding.session_key) == (followed.run_id, "agent:main:main")
    assert announced.command == f"critiqor watch {followed.run_id}"
    more = looping(calls=6).events[len(story.events) :]
    assert followed.records(*records_of(more)) == [] and followed.passes() == []


def test_finding_is_not_announced_again_by_another_process_that_follows_the_run(followed: Followed) -> None:
    followed.records(*records_of(looping().events))
    assert followed.passes() != []
    followed.live = LiveRecording(followed.run)
    assert followed.passes() == [] and followed.passes() == []
    assert [finding.type for finding in followed.verdict.findings] == ["tool_loop"]


def live_finding(severity: str = "medium", type_: str = "tool_loop") -> LiveFinding:
    facts: Record = {
        "id": "one",
        "type": type_,
        "cause": "c",
        "severity": severity,
        "confidence": 80,
        "title": "A loop",
    }
    facts |= {"explanation": "It repeats.", "recommendation": "Stop it."}
    place = {"session_key": "s", "agent_run_id": "r", "occurrences": 3, "first_event": "", "last_event": ""}
    return msgspec.convert({**facts, **place}, LiveFinding)


def verdict_of(*findings: LiveFinding, state: str = "recording", left_out: int = 0) -> LiveVerdict:
    cost = {"cost_usd": None, "cost_is_partial": False, "cost_is_estimated": False}
    counts = {"events": 1, "model_calls": 0, "tool_calls": 0, "tokens": 0, **cost}
    about: Record = {
        "run_id": "run_001",
        "updated_at": "",
        "state": state,
        "headline": None,
        "limits": [],
        "sessions": [],
    }
    scores = {"trust_score": 85, "readiness": "review", "findings": findings, "findings_left_out": left_out}
    lists: Record = {"limits": [], "sessions": [], "sessions_left_out": 0}
    return msgspec.convert({**about, **counts, **scores, **lists}, LiveVerdict, from_attributes=True)


def test_finding_that_vanishes_at_once_is_not_announced() -> None:
    announcer = Announcer("run_001")
    assert announcer.update(verdict_of(live_finding()), 0) == []
    assert announcer.update(verdict_of(), SETTLE_SECONDS) == []
    assert announcer.update(verdict_of(live_finding()), SETTLE_SECONDS + 1) == []
    assert [one.kind for one in announcer.update(verdict_of(live_finding()), 2 * SETTLE_SECONDS + 1)] == ["new"]


def test_finding_that_waits_is_looked_at_before_the_next_regular_verdict(followed: Followed) -> None:
    assert followed.records(*records_of(looping().events)) == []
    assert SETTLE_SECONDS < MIN_INTERVAL
    assert followed.passes(SETTLE_SECONDS / 2) == []
    assert [one.kind for one in followed.passes(SETTLE_SECONDS / 2)] == ["new"]


def test_change_of_severity_and_recovery_are_announced() -> None:
    announcer = Announcer("run_001")
    announcer.update(verdict_of(live_finding()), 0)
    announcer.update(verdict_of(live_finding()), SETTLE_SECONDS)
    [updated] = announcer.update(verdict_of(live_finding("high")), 10)
    assert (updated.kind, updated.finding.severity, updated.finding.id) == ("updated", "high", "one")
    [withdrawn] = announcer.update(verdict_of(), 11)
    assert (withdrawn.kind, withdrawn.finding.id) == ("withdrawn", "one")
    assert announcer.announced == [] and announcer.update(verdict_of(), 12) == []


def test_finding_that_did_not_fit_into_the_list_is_not_withdrawn() -> None:
    announcer = Announcer("run_001", [live_finding()])
    assert announcer.update(verdict_of(left_out=1), 0) == []


def test_failure_that_an_agent_usually_retries_must_last_longer_unless_the_run_is_over() -> None:
    failure = live_finding("high", "provider_failure")
    announcer = Announcer("run_001")
    assert announcer.update(verdict_of(failure), 0) == announcer.update(verdict_of(failure), SETTLE_SECONDS) == []
    assert [one.kind for one in announcer.update(verdict_of(failure), RETRY_SECONDS)] == ["new"]
    [announced] = Announcer("run_001").update(verdict_of(failure, state="ended"), 0)
    assert announced.command == "critiqor finalize run_001"


def test_claims_are_checked_when_the_agent_run_ends(followed: Followed) -> None:
    story = Story().starts().user("Run the tests.").calls("read", {"path": "plan.txt"}, "plan").says("All tests pass.")
    followed.records(*records_of(story.events))
    assert followed.verdict.findings == []
    before = len(story.events)
    followed.records(*records_of(story.finishes().events[before:]))
    assert [finding.type for finding in followed.verdict.findings] == ["unsupported_claim"]


def at(milliseconds: int, writer: str = "w", sequence: int = 1) -> Event:
    return Event(event_id=event_id_for(milliseconds, writer, sequence), event_type="input")


def test_events_that_arrive_a_little_late_are_put_in_order() -> None:
    order = EventOrder()
    late, early = at(2_000), at(1_000, "v")
    order.add([late], 0.0)
    order.add([early], 0.1)
    assert order.take(0.2) == []
    assert order.take(HOLD_SECONDS) == [early, late]
    assert not order.is_broken
    order.add([at(1_500)], 1.0)
    order.take(2.0)
    assert order.is_broken


def test_event_that_arrives_far_too_late_is_judged_in_its_place(followed: Followed) -> None:
    story = looping().says("Nothing.").finishes()
    records = records_of(story.events)
    result = next(number for number, record in enumerate(records) if record["event_type"] == "tool_output")
    followed.records(*records[:result], *records[result + 1 :])
    followed.passes(60)
    followed.records(records[result])
    followed.passes(60)
    live = followed.verdict
    followed.runs.finalize(followed.run_id)
    assert live.findings[0].occurrences == followed.run.diagnosis.failure_analysis.findings[0].occurrences


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_live_verdict_at_the_end_is_that_of_finalize(runs: Runs, seed: int, shuffled: bool, tmp_path: Path) -> None:
    one = looping().says("There are 12 apples in a.txt.").finishes()
    other = (
        Story("agent:main:b", "run-2", start=START + 500)
        .starts()
        .user("Deploy it.")
        .runs("sh deploy.sh", "no", exit_code=7)
    )
    events = interleaved(one.events, other.says("Deployed.").finishes().events)
    lines = [line_of(record) for record in records_of(events)]
    lines.insert(5, b'{"event_id":"evt_torn')
    runs.seal(attached(), *lines)
    replayed = replay(Run.load("run_001", runs.folder), tmp_path / "again", random.Random(seed), shuffled=shuffled)
    assert differences(replayed.live, replayed.diagnosis) == []
    assert replayed.live.state == "ended" and len(replayed.live.findings) >= 2


def test_verdicts_that_take_long_are_made_less_often(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = iter(range(0, 10_000, 1))
    monkeypatch.setattr("critiqor.live.recording.time.thread_time", lambda: next(spent))
    made = 0
    for number in range(100):
        before = followed.live.verdict
        followed.records(recorded(number + 2, "message_end", payload={"text": f"{number}"}))
        made += followed.live.verdict is not before
    assert 1 <= made <= 1 + MAX_CREDIT + 200 * 0.03 + 1


def two_sessions(followed: Followed) -> None:
    other = Story("agent:main:telegram:7", "run-2", start=START + 500).starts().model(cost=0.5).says("I look it up.")
    followed.records(*records_of(interleaved(looping().events, other.events)))
    followed.passes()


def test_runs_lists_the_verdict_so_far_of_a_run_in_progress(followed: Followed, cli: Cli) -> None:
    two_sessions(followed)
    [listed] = cli("runs", "--json").data
    assert (listed["status"], listed["so_far"], listed["verdict"], listed["trust"]) == (
        "MONITORING",
        True,
        "review",
        85,
    )
    assert listed["headline"] == followed.verdict.headline and listed["cost_usd"] == pytest.approx(0.55)
    assert "agent:main:main review, $0.0500, working; agent:main:telegram:7 ready, $0.5000" in listed["sessions"]
    assert "called 5 times" in cli("runs").out


def test_watch_prints_findings_words_and_the_session_of_each_event(followed: Followed, cli: Cli) -> None:
    two_sessions(followed)
    abort_session(followed.run_id, runs_dir=followed.runs.folder)
    follower = Follower(followed.run)
    lines = cli_lines(follower)
    assert any("[agent:main:telegram:7] “I look it up.”" in line for line in lines)
    [finding] = [line for line in lines if "finding, new" in line]
    assert "medium tool_loop: [agent:main:main]" in finding
    drawn = drawing_of(follower, followed.verdict)
    assert "review   85  agent:main:main  working  $0.0500" in drawn
    assert "ready   100  agent:main:telegram:7  working  $0.5000  “I look it up.”" in drawn
    assert "medium" in drawn and "called 5 times" in drawn


def cli_lines(follower: Follower) -> list[str]:
    """What `critiqor watch` prints into a pipe."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        watch._print(follower, as_json=False)
    return output.getvalue().splitlines()


def drawing_of(follower: Follower, verdict: LiveVerdict) -> str:
    """What `critiqor watch` draws on a terminal."""
    console = Console(width=120, height=40, file=io.StringIO(), color_system=None)
    with console.capture() as capture:
        console.print(LiveRun(follower.head, follower.totals(), [], 0, (), verdict))
    return capture.get()
