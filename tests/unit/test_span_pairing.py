"""Starts and ends are paired by one set of rules, and everybody who uses them counts the same."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from critiqor.diagnosis.run_builder import RunBuilder
from critiqor.exporters.trace.activity import activity
from critiqor.model import Coverage, Event, Scope, event_id_for, iso_from_ms
from critiqor.model.trace import Slice
from critiqor.spans.pairing import Pairing, SpanPairer
from critiqor.storage.coverage import MAX_IDLE_RUNS, CoverageCounter
from critiqor.storage.redaction import Redactor
from critiqor.timeline import attribute_turns

START_MS = 1_794_000_000_000
SECOND_US = 1_000_000


class Stream:
    """Makes events one second apart."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.events: list[Event] = []

    def add(self, event_type: str, run: str | None = "r1", session: str | None = "s1", **fields: Any) -> Event:
        number = next(self._numbers)
        moment = START_MS + 1000 * number
        event = Event(
            event_id=event_id_for(moment, "test01", number),
            event_type=event_type,
            timestamp=iso_from_ms(moment),
            session_key=session,
            agent_run_id=run,
            **fields,
        )
        self.events.append(event)
        return event

    def second(self, event: Event) -> int:
        return (self.events.index(event) + 1) * SECOND_US + START_MS * 1000


def paired(stream: Stream) -> tuple[list[Pairing[None]], list[Pairing[None]]]:
    """Return what the events did, and what was cut at the end."""
    pairer = SpanPairer[None]()
    pairings = [pairer.observe(event, stream.second(event)) for event in stream.events]
    return [pairing for pairing in pairings if pairing is not None], list(pairer.finish())


def coverage_of(events: list[Event]) -> Coverage:
    counter = CoverageCounter()
    for event in events:
        counter.count(event)
    return counter.build_coverage(Redactor(b""))


IDS = st.sampled_from(["a", "b", "tool_search_code:a:read:1", None])
STEPS = st.tuples(
    st.sampled_from(
        [
            "agent_start",
            "agent_end",
            "turn_start",
            "turn_end",
            "before_provider_request",
            "token_usage",
            *2 * ["tool_call", "tool_output"],
            "memory_event",
            "compaction_start",
            "compaction_end",
            "message_end",
        ]
    ),
    st.sampled_from(["r1", "r2", None]),
    st.sampled_from(["s1", "s2"]),
    IDS,
    st.sampled_from([None, 1, 500, 3500, 1_000_000]),
)


def stream_of(steps: list[tuple[str, str | None, str, str | None, int | None]]) -> Stream:
    stream = Stream()
    for event_type, run, session, call_id, duration in steps:
        payload = {"callId": call_id, "lookup": "pending" if duration is None else "found", "usage": {"input": 1}}
        is_tool = event_type.startswith(("tool_", "memory_"))
        stream.add(
            event_type,
            run,
            session,
            tool_name="read" if is_tool else None,
            tool_call_id=call_id if is_tool else None,
            duration_ms=duration if event_type not in ("tool_call", "before_provider_request") else None,
            payload=payload,
        )
    return stream


@given(st.lists(STEPS, max_size=60))
def test_all_users_of_the_pairing_count_the_same_open_calls(
    steps: list[tuple[str, str | None, str, str | None, int | None]],
) -> None:
    stream = stream_of(steps)
    _, finished = paired(stream)
    open_tools = sum(span.kind == "tool" for pairing in finished for span in pairing.cut)
    open_models = sum(span.kind == "model" for pairing in finished for span in pairing.cut)

    coverage = coverage_of(stream.events)
    assert (coverage.calls_without_results, coverage.requests_without_responses) == (open_tools, open_models)

    builder = RunBuilder()
    for event in stream.events:
        builder.observe(event)
    calls = [call for run in builder.runs.values() for call in run.tool_calls]
    assert sum(call.result is None for call in calls) == open_tools
    assert sum(1 for run in builder.runs.values() for _ in run.open_calls("tool")) == open_tools

    slices = [part for part in activity(stream.events) if isinstance(part, Slice)]
    assert sum(part.category == "tool" and not part.finished for part in slices) == open_tools
    assert sum(part.category == "model" and not part.finished for part in slices) == open_models


@given(st.lists(STEPS, max_size=60))
def test_each_start_has_at_most_one_end_and_each_end_one_start(
    steps: list[tuple[str, str | None, str, str | None, int | None]],
) -> None:
    stream = stream_of(steps)
    pairings, finished = paired(stream)
    opened = [pairing.opened for pairing in pairings if pairing.opened is not None]
    closed = [pairing.closed for pairing in pairings if pairing.closed is not None]
    cut = [span for pairing in (*pairings, *finished) for span in pairing.cut]
    started = [span for span in (*closed, *cut) if span.has_start]
    assert len(started) == len({id(span) for span in started}) == len(opened)
    assert {id(span) for span in started} == {id(span) for span in opened}
    assert all(span.has_end for span in closed)
    assert not any(span.has_end for span in cut)
    for span in (*closed, *cut):
        assert span.end_us is None or span.start_us <= span.end_us
        assert span.start_us <= span.seen_us


@given(st.lists(STEPS, max_size=60))
def test_the_timeline_counts_each_finished_call_once(
    steps: list[tuple[str, str | None, str, str | None, int | None]],
) -> None:
    # An agent run id belongs to one session.
    stream = stream_of([(kind, run, f"s-{run}", call_id, duration) for kind, run, _, call_id, duration in steps])
    pairings, finished = paired(stream)
    for turn in attribute_turns([], stream.events):
        closed = [pairing.closed for pairing in pairings if pairing.run.scope.agent_run_id == turn.agent_run_id]
        open_calls = [
            span
            for pairing in finished
            for span in pairing.cut
            if pairing.run.scope.agent_run_id == turn.agent_run_id and not turn.ended
        ]
        for kind, counted in (("tool", turn.tools), ("model", turn.requests)):
            assert counted == sum(span is not None and span.kind == kind for span in (*closed, *open_calls))


def test_a_repeated_id_gives_the_first_result_to_the_first_call() -> None:
    stream = Stream()
    first, second = (stream.add("tool_call", tool_call_id="a") for _ in range(2))
    stream.add("tool_output", tool_call_id="a")
    stream.add("tool_output", tool_call_id="a")
    pairings, _ = paired(stream)
    assert [pairing.closed.event_id for pairing in pairings if pairing.closed] == [first.event_id, second.event_id]


def test_a_response_belongs_to_the_request_with_its_id_else_to_the_oldest() -> None:
    stream = Stream()
    requests = [stream.add("before_provider_request", payload={"callId": name}) for name in ("1", "2", "3")]
    for name in ("2", None, "unknown"):
        stream.add("token_usage", payload={"callId": name})
    pairings, _ = paired(stream)
    answered = [pairing.closed.event_id for pairing in pairings if pairing.closed]
    assert answered == [requests[1].event_id, requests[0].event_id, requests[2].event_id]


def test_an_inner_call_belongs_to_the_newest_open_call_of_the_outer_id() -> None:
    stream = Stream()
    stream.add("tool_call", tool_call_id="outer")
    newest = stream.add("tool_call", tool_call_id="outer")
    stream.add("tool_call", tool_call_id="x", payload={"parent_tool_call_id": "outer"})
    stream.add("tool_call", tool_call_id="tool_search_code:outer:read:1")
    stream.add("tool_call", tool_call_id="self", payload={"parent_tool_call_id": "self"})
    stream.add("tool_output", tool_call_id="late", payload={"parent_tool_call_id": "outer"})
    pairings, _ = paired(stream)
    spans = [pairing.opened or pairing.closed for pairing in pairings]
    outers = [span.outer.event_id if span is not None and span.outer else None for span in spans]
    assert outers == [None, None, newest.event_id, newest.event_id, None, newest.event_id]
    assert [span is not None and span.is_inner for span in spans] == [False, False, True, True, True, True]


def test_a_call_without_a_result_lasts_until_its_session_goes_on() -> None:
    stream = Stream()
    stream.add("agent_start", "r1")
    stream.add("tool_call", "r1", tool_call_id="a")
    following = stream.add("agent_start", "r2")
    stream.add("tool_call", "r2", tool_call_id="a")
    stream.add("agent_start", "r3", "s2")
    _, finished = paired(stream)
    ends = {pairing.run.scope.agent_run_id: {span.end_us for span in pairing.cut} for pairing in finished}
    assert ends == {"r1": {stream.second(following)}, "r2": {None}, "r3": {None}}


def test_a_start_moves_back_by_the_duration_but_not_behind_what_had_ended() -> None:
    stream = Stream()
    stream.add("tool_call", tool_call_id="a")
    ended = stream.add("tool_output", tool_call_id="a", duration_ms=1500)
    stream.add("tool_call", tool_call_id="b")
    stream.add("tool_output", tool_call_id="b", duration_ms=60_000)
    stream.add("tool_output", tool_call_id="c", duration_ms=2500)
    pairings, _ = paired(stream)
    starts = [(pairing.closed.start_us - START_MS * 1000) / SECOND_US for pairing in pairings if pairing.closed]
    assert starts == [0.5, (stream.second(ended) - START_MS * 1000) / SECOND_US, 2.5]


def test_a_new_attempt_cuts_the_one_before_it_with_its_turn() -> None:
    stream = Stream()
    attempt, turn = stream.add("agent_start"), stream.add("turn_start")
    again = stream.add("agent_start")
    pairings, _ = paired(stream)
    cut = pairings[-1].cut
    assert [(span.event_id, span.end_us) for span in cut] == [
        (turn.event_id, stream.second(again)),
        (attempt.event_id, stream.second(again)),
    ]


def test_a_response_without_a_request_does_not_answer_a_later_one() -> None:
    stream = Stream()
    stream.add("token_usage", payload={"usage": {"input": 1}})
    stream.add("before_provider_request")
    assert coverage_of(stream.events).requests_without_responses == 1


def test_an_agent_run_that_is_forgotten_supersedes_nothing_and_starts_again() -> None:
    pairer = SpanPairer[None]()
    stream = Stream()
    first = pairer.observe(stream.add("tool_call", tool_call_id="a"))
    assert first is not None
    assert [span.kind for span in pairer.forget(first.run).cut] == ["tool"]
    again = pairer.observe(stream.add("tool_output", tool_call_id="a"))
    assert again is not None and again.closed is not None
    assert not again.closed.has_start
    assert list(pairer.runs) == [Scope("s1", "r1")]


def test_coverage_forgets_idle_agent_runs_but_no_open_call() -> None:
    stream = Stream()
    runs = 3 * MAX_IDLE_RUNS
    counter = CoverageCounter()
    for number in range(runs):
        counter.count(stream.add("tool_call", f"r{number}", f"s{number}", tool_call_id="a"))
        if number % 100:
            counter.count(stream.add("tool_output", f"r{number}", f"s{number}", tool_call_id="a"))
    assert len(counter._pairer.runs) < runs / 2
    coverage = counter.build_coverage(Redactor(b""))
    assert coverage.calls_without_results == runs / 100
    assert coverage.results_without_calls == 0
