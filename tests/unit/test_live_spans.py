"""Spans of a run are streamed to a collector while it is recorded: nothing is lost while the collector is away."""

from __future__ import annotations

import random
import socket
from collections import Counter
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from collectors import Answer, Collector, answering, collector
from live_replay import records_of
from otlp import ReadTrace
from story import START, Story
from support import Cli, Runs, attached, wait_until

from critiqor.errors import UsageError
from critiqor.exporters.otlp import otlp
from critiqor.exporters.otlp.evaluations import EVALUATION
from critiqor.exporters.otlp.span_builder import SpanBuilder
from critiqor.live import span_sender, span_stream
from critiqor.live.messages import StreamReport, StreamTarget
from critiqor.live.recording import LiveRecording
from critiqor.live.span_sender import waiting_runs
from critiqor.live.span_stream import SpanStream, resume_streams
from critiqor.model import Event
from critiqor.recording.live_worker import LiveWorker
from critiqor.recording.run_witness import RunWitness
from critiqor.recording.segments.monitored import SegmentParts
from critiqor.run.store import Run, RunStore
from critiqor.session import create_session

PATIENCE = 30.0


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting times of milliseconds instead of seconds."""
    monkeypatch.setattr(span_sender, "back_off_ms", lambda failures: 10)
    monkeypatch.setattr(span_stream, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(span_stream, "BATCH_SECONDS", 0.02)


def looping(number: int, calls: int = 5) -> Story:
    story = Story(f"agent:main:{number}", f"run-{number}", start=START + 1_000_000 * number).starts()
    story.user("What is in the list?")
    for _ in range(calls):
        story.asks(model="m").model(model="m").calls("read", {"path": "a.txt"}, "apples")
    return story.says("It has apples.").finishes()


def streamed(runs: Runs, run_id: str, url: str, *, content: bool = True) -> SpanStream:
    stream = SpanStream(Run.load(run_id, runs.folder), StreamTarget(url=f"{url}/v1/traces", content=content))
    stream.start()
    return stream


def concluded(stream: SpanStream) -> StreamReport:
    """Conclude a stream as the worker does it."""
    live = LiveRecording(stream.run)
    live.finish(0.0)
    stream.conclude(live.diagnosis)
    return stream.finish(PATIENCE)


def spans_of(made: Collector) -> Counter[str]:
    accepted = ReadTrace(*made.bodies)
    return Counter(span.span_id for span in accepted.spans)


def exported(cli: Cli, folder: Path) -> ReadTrace:
    assert cli("export", "run_001", "--format", "otlp", "--content", "-o", str(folder / "whole.json")).code == 0
    return ReadTrace((folder / "whole.json").read_bytes())


def test_what_is_streamed_has_the_spans_of_the_export_and_the_findings(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    run_id = runs.start()
    with collector() as made:
        stream = streamed(runs, run_id, made.url)
        chance = random.Random(1)
        lines = [attached(at=START), *records_of(looping(0).events), *records_of(looping(1).events)]
        while lines:
            count = chance.randint(1, 6)
            runs.write(run_id, *lines[:count])
            del lines[:count]
        wait_until(lambda: bool(made.requests))
        report = concluded(stream)
    assert (report.is_complete, report.refused, report.reason) == (True, 0, None)
    runs.finalize(run_id)
    live, whole = ReadTrace(*made.bodies), exported(cli, tmp_path)
    assert Counter(span.span_id for span in live.spans) == Counter(span.span_id for span in whole.spans)
    kinds = [span.attributes for span in live.spans if span.name.startswith(("chat", "execute_tool", "invoke_agent"))]
    assert sorted(map(str, kinds)) == sorted(
        str(span.attributes) for span in whole.spans if not span.name.startswith("run ")
    )

    def found(trace: ReadTrace) -> set[tuple[str, str]]:
        events = [event for span in trace.spans for event in span.of(EVALUATION)]
        return {(event["gen_ai.evaluation.name"], event["gen_ai.evaluation.explanation"]) for event in events}

    assert found(live) == found(whole)
    assert "tool_loop" in {name for name, _ in found(live)}
    assert waiting_runs(runs.paths) == []


def away(times: int, then: Answer | None = None) -> Answer:
    """A collector that refuses for some time, in every way that is temporary."""
    refusals = iter([(503, {"Retry-After": "0"}), (429, {}), (502, {}), (401, {}), (404, {})] * times)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        status, headers = next(refusals, (200, {}))
        (answering(status, b"{}", **headers) if status != 200 else then or answering())(handler)

    return answer


def test_nothing_is_lost_or_sent_twice_while_the_collector_is_away(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MAX_SPANS", 5)
    run_id = runs.start()
    refused = 10
    with collector(away(refused // 5)) as made:
        stream = streamed(runs, run_id, made.url)
        for number in range(10):
            runs.write(run_id, *records_of(looping(number).events))
        report = concluded(stream)
    assert report.is_complete
    accepted = Counter(span.span_id for span in ReadTrace(*made.bodies[refused:]).spans)
    assert set(accepted.values()) == {1}
    assert len(accepted) == report.sent == 10 * 11 + 1


def test_nothing_is_read_while_the_collector_is_away(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The recording is what waits, so that memory does not grow."""
    monkeypatch.setattr(otlp, "MAX_SPANS", 5)
    observed = 0
    observe = SpanBuilder.observe

    def counted(self: SpanBuilder, event: Event) -> None:
        nonlocal observed
        observed += 1
        observe(self, event)

    monkeypatch.setattr(SpanBuilder, "observe", counted)
    run_id = runs.start()
    with collector(answering(503)) as made:
        stream = streamed(runs, run_id, made.url)
        runs.write(run_id, *records_of(looping(0).events))
        wait_until(lambda: len(made.requests) > 2)
        for number in range(1, 30):
            runs.write(run_id, *records_of(looping(number).events))
        before, tries = observed, len(made.requests)
        wait_until(lambda: len(made.requests) > tries + 3)
        assert observed == before
        assert len(set(made.bodies)) == 1, "the same spans"
        stream.stop()
        assert not stream.finish(PATIENCE).is_complete


def test_the_next_stream_sends_what_is_left(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    run_id = runs.start()
    runs.write(run_id, *records_of(looping(0).events))
    with collector() as made:
        stream = streamed(runs, run_id, made.url)
        wait_until(lambda: stream.report.sent >= 9)
        stream.stop()
        assert not stream.finish(PATIENCE).is_complete
        runs.write(run_id, *records_of(looping(1).events))
        again = streamed(runs, run_id, made.url)
        wait_until(lambda: again.report.sent >= 9)
        again.stop()
        again.finish(PATIENCE)
        # The run is sealed, and its journal deleted, before the rest was sent.
        runs.finalize(run_id)
        runs.paths.journal_path(run_id).unlink()
        assert [each.run_id for each in waiting_runs(runs.paths)] == [run_id]
        [third] = resume_streams(RunStore(runs.folder), again.target)
        assert third.finish(PATIENCE).is_complete
    whole = exported(cli, tmp_path)
    assert spans_of(made) == Counter(span.span_id for span in whole.spans)
    [run] = ReadTrace(*made.bodies).all("run run_001")
    assert "tool_loop" in {event["gen_ai.evaluation.name"] for event in run.of(EVALUATION)}
    assert resume_streams(RunStore(runs.folder), again.target) == []


def test_a_run_that_is_sealed_while_its_spans_wait_is_sent_from_its_evidence(
    cli: Cli, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "MAX_SPANS", 5)
    run_id = runs.start()
    runs.write(run_id, *records_of([event for number in range(5) for event in looping(number).events]))
    is_away = True
    accepted: list[bytes] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        refuses = is_away
        if not refuses:
            accepted.append(made.bodies[-1])
        answering(503 if refuses else 200)(handler)

    with collector(answer) as made:
        stream = streamed(runs, run_id, made.url)
        wait_until(lambda: bool(made.requests))
        runs.finalize(run_id)
        stream.conclude(None)
        is_away = False
        assert stream.finish(PATIENCE).is_complete
    sent = Counter(span.span_id for span in ReadTrace(*accepted).spans)
    assert sent == Counter(span.span_id for span in exported(cli, tmp_path).spans)


@pytest.mark.parametrize("slot", [None, "work"], ids=str)
def test_a_run_that_is_recorded_is_left_to_the_stream_of_its_own_recording(runs: Runs, slot: str | None) -> None:
    run_id = create_session(runs_dir=runs.folder, slot=slot)["run_id"]
    runs.write(run_id, *records_of(looping(0).events))
    with collector() as made:
        stream = streamed(runs, run_id, made.url)
        wait_until(lambda: waiting_runs(runs.paths))
        assert resume_streams(RunStore(runs.folder), stream.target) == []
        assert concluded(stream).is_complete
    assert set(spans_of(made).values()) == {1}


def test_all_spans_of_a_segment_are_sent_when_it_is_sealed_and_the_user_is_told(
    cli: Cli, runs: Runs, tmp_path: Path
) -> None:
    said: list[str] = []
    run_id = runs.start()
    runs.write(run_id, *records_of(looping(0).events))
    run = Run.load(run_id, runs.folder)
    parts = SegmentParts(run, RunWitness(run))
    with collector() as made:
        target = StreamTarget(url=f"{made.url}/v1/traces", content=True)
        parts.live = LiveWorker(run, None, lambda news: None, lambda limit: None, target)
        parts.live.start()
        wait_until(lambda: waiting_runs(runs.paths))
        runs.finalize(run_id)
        parts.end(said.append)
    # At least once: a request is sent again if its answer comes late, as on a busy machine.
    assert spans_of(made).keys() == {span.span_id for span in exported(cli, tmp_path).spans}
    assert said == [f"12 spans of run_001 were sent to {made.url}/v1/traces"]
    assert waiting_runs(runs.paths) == []


def test_a_request_that_is_too_large_is_split_and_one_that_is_invalid_is_counted(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        spans = ReadTrace(made.bodies[-1]).spans
        is_bad = any(span.name == "execute_tool read" for span in spans)
        answering(413 if len(spans) > 1 else 400 if is_bad else 200, b"too much")(handler)

    run_id = runs.start()
    runs.write(run_id, *records_of(looping(0).events))
    with collector(answer) as made:
        report = concluded(streamed(runs, run_id, made.url))
    assert (report.sent, report.refused, report.is_complete) == (7, 5, True)
    assert "answered 400" in report.describe(run_id, made.url)


def test_an_anonymous_run_is_streamed_without_names_and_texts(runs: Runs) -> None:
    run_id = runs.start(visibility="anonymous")
    runs.write(run_id, *records_of(looping(0).events))
    with collector() as made:
        assert concluded(streamed(runs, run_id, made.url)).is_complete
    data = b"".join(made.bodies)
    assert [word for word in (b"apples", b"agent:main", b"a.txt", b"What is") if word in data] == []
    assert len(ReadTrace(*made.bodies).spans) == 12


def test_without_content_no_text_is_streamed(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, *records_of(looping(0).events))
    with collector() as made:
        concluded(streamed(runs, run_id, made.url, content=False))
    data = b"".join(made.bodies)
    assert b"apples" not in data and b"a.txt" not in data


def test_a_collector_that_is_not_there_is_named_with_the_command_that_sends_the_rest(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, *records_of(looping(0).events))
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        stream = streamed(runs, run_id, url)
        wait_until(lambda: stream.report.reason is not None)
        stream.conclude(None)
        report = stream.finish(0.1)
    text = report.describe(run_id, stream.target.url)
    assert "cannot be reached" in text
    assert f"critiqor export {run_id} --format otlp --endpoint {url}" in text


def test_a_damaged_list_of_sent_spans_only_repeats_them(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, *records_of(looping(0).events))
    with collector() as made:
        first = streamed(runs, run_id, made.url)
        wait_until(lambda: first.report.sent >= 9)
        first.stop()
        first.finish(PATIENCE)
        sent = runs.paths.streams_folder / f"{run_id}.sent"
        sent.write_bytes(sent.read_bytes()[:-3])
        assert concluded(streamed(runs, run_id, made.url)).is_complete
    assert len(spans_of(made)) == 12


def test_a_file_in_the_runs_folder_cannot_have_content_sent_that_the_user_does_not_send(runs: Runs) -> None:
    runs.seal(*records_of(looping(0).events))
    folder = runs.paths.streams_folder
    folder.mkdir(parents=True)
    with collector() as made, collector() as other:
        for url, run_id in ((made.url, "run_001"), (other.url, "run_002")):
            (folder / f"{run_id}.json").write_text(f'{{"url": "{url}/v1/traces", "content": true}}')
        for stream in resume_streams(RunStore(runs.folder), StreamTarget(url=f"{made.url}/v1/traces")):
            assert stream.finish(PATIENCE).is_complete
    assert other.requests == []
    assert len(ReadTrace(*made.bodies).spans) == 12
    assert b"apples" not in b"".join(made.bodies)


def test_what_is_known_of_a_run_that_was_removed_is_forgotten(runs: Runs) -> None:
    folder = runs.paths.streams_folder
    runs.start()
    folder.mkdir(parents=True)
    (folder / "run_007.json").write_text('{"url": "http://127.0.0.1:1/v1/traces"}')
    (folder / "run_008.json").write_text("nonsense")
    assert resume_streams(RunStore(runs.folder), StreamTarget(url="http://127.0.0.1:1/v1/traces")) == []
    assert [path.name for path in folder.iterdir()] == ["run_008.json"]


@pytest.mark.parametrize(
    "options", [("--otlp-endpoint", "nonsense"), ("--otlp-endpoint", "http://localhost:4318", "--no-live")]
)
def test_options_that_cannot_work_are_refused_before_anything_is_recorded(
    cli: Cli, runs: Runs, options: tuple[str, ...]
) -> None:
    answer = cli("monitor", "openclaw", *options)
    assert (answer.code, "--otlp-endpoint" in answer.err) == (2, True)
    assert not runs.folder.exists() or not list(runs.folder.iterdir())


def test_the_settings_of_a_folder_cannot_send_recordings_elsewhere(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "critiqor.toml").write_text('otlp_endpoint = "http://example.com"\n')
    answer = cli("runs")
    assert (answer.code, "otlp_endpoint" in answer.err) == (UsageError.exit_code, True)
