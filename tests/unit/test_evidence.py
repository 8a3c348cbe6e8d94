from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import Runs, attached, from_recorder, line_of, recorded

from critiqor.model import event_id_for, iso_from_ms
from critiqor.session import normalize_plugin_event
from critiqor.storage.bounds import MAX_RECORD_DEPTH
from critiqor.storage.coverage import MAX_EXAMPLES
from critiqor.storage.journal import MAX_LINE
from critiqor.storage.redaction import rules_digest

AT = 1_780_000_000_000
ENVELOPE = {
    "event_id",
    "event_type",
    "raw_event_type",
    "timestamp",
    "source_layer",
    "session_key",
    "agent_run_id",
    "tool_name",
    "tool_call_id",
    "status",
    "error",
    "duration_ms",
    "payload",
}


def nested(levels: int) -> bytes:
    return b'{"event_type":"x","payload":{"deep":' + b"[" * levels + b"]" * levels + b"}}\n"


DAMAGE = {
    "garbage": (b"this is no record\n", "invalid_json"),
    "binary": (b"\x00\x01\x02\n", "invalid_json"),
    "half a record": (b'{"event_type":"x","payl\n', "invalid_json"),
    "nan": (b'{"event_type":"x","payload":{"n":NaN}}\n', "invalid_json"),
    "infinity": (b'{"event_type":"x","duration_ms":-Infinity}\n', "invalid_json"),
    "nan beside an escaped pair": (b'{"event_type":"x","payload":{"n":NaN,"s":"\\ud83d\\ude00"\n', "invalid_json"),
    "number beyond floats": (b'{"event_type":"x","payload":{"n":1e999}}\n', "number_out_of_range"),
    "5,000 digits": (b'{"event_type":"x","payload":{"n":%s}}\n' % (b"9" * 5000), "number_out_of_range"),
    "5,000 digits in duration": (b'{"event_type":"x","duration_ms":%s}\n' % (b"9" * 5000), "number_out_of_range"),
    "invalid utf-8": (b'{"event_type":"x","payload":{"s":"\xff\xfe"}}\n', "invalid_utf8"),
    "encoded surrogate": (b'{"event_type":"x","payload":{"s":"\xed\xa0\x80"}}\n', "invalid_utf8"),
    "lone surrogate": (b'{"event_type":"x","payload":{"s":"a\\ud800b"}}\n', "lone_surrogate"),
    "lone surrogate at the end": (b'{"event_type":"x","payload":{"s":"\\ud800"}}\n', "lone_surrogate"),
    "lone low surrogate": (b'{"event_type":"x","payload":{"\\uDC00":1}}\n', "lone_surrogate"),
    "10,000 levels": (nested(10_000), "too_deep"),
    "500 levels": (nested(500), "too_deep"),
    "9 MB": (b'{"event_type":"x","payload":{"s":"' + b"a" * 9_000_000 + b'"}}\n', "too_long"),
    "a list": (b"[1, 2]\n", "not_an_object"),
    "a number": (b"17\n", "not_an_object"),
    "null": (b"null\n", "not_an_object"),
    "no type": (b'{"payload":{}}\n', "wrong_type"),
    "type is a number": (b'{"event_type":5}\n', "wrong_type"),
    "id is a list": (b'{"event_id":[],"event_type":"x"}\n', "wrong_type"),
    "time is a number": (b'{"event_type":"x","timestamp":1780000000}\n', "wrong_type"),
    "payload is text": (b'{"event_type":"x","payload":"text"}\n', "wrong_type"),
    "duration is text": (b'{"event_type":"x","duration_ms":"12"}\n', "wrong_type"),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damaged_record_costs_itself_and_is_named_by_line_and_kind(runs: Runs, damage: tuple[bytes, str]) -> None:
    line, kind = damage
    before, after = [attached(), recorded(2)], recorded(3)
    evidence = runs.seal(*before, line, after)
    assert [event["event_id"] for event in from_recorder(evidence)] == [r["event_id"] for r in (*before, after)]
    coverage = evidence["coverage"]
    assert coverage["damaged_records"] == 1
    assert coverage["damage_by_kind"] == {kind: 1}
    offset = sum(len(line_of(record)) for record in before)
    assert coverage["damage"] == [{"line": 3, "offset": offset, "kind": kind}]
    assert coverage["journal_lines"] == 4
    assert any("could not be read" in note for note in coverage["notes"])


@pytest.mark.parametrize("tail", [b'{"event_id":"evt_', b"\xe2\x82", b"{", line_of(recorded(9))[:-2]])
def test_torn_tail_is_counted_as_one(runs: Runs, tail: bytes) -> None:
    coverage = runs.seal(attached(), recorded(2), tail)["coverage"]
    assert coverage["damage_by_kind"] == {"torn_tail": 1}
    assert coverage["damage"][0]["line"] == 3


def test_whole_record_without_its_line_break_counts(runs: Runs) -> None:
    evidence = runs.seal(attached(), line_of(recorded(2)).rstrip())
    assert len(from_recorder(evidence)) == 2
    assert evidence["coverage"]["damaged_records"] == 0


def test_record_behind_a_torn_one_of_another_writer_is_kept(runs: Runs) -> None:
    torn = line_of(recorded(2, writer="killed"))[:150]
    evidence = runs.seal(attached(), torn, recorded(1, writer="alive"), recorded(2, writer="alive"))
    assert len(from_recorder(evidence)) == 3
    assert evidence["coverage"]["damage_by_kind"] == {"invalid_json": 1}


def test_empty_lines_are_no_damage(runs: Runs) -> None:
    evidence = runs.seal(b"\n\n", attached(), b"\r\n  \n\t\n", recorded(2), b"\n")
    assert len(from_recorder(evidence)) == 2
    assert evidence["coverage"]["damaged_records"] == 0


def test_only_the_first_damaged_records_are_named_and_all_are_counted(runs: Runs) -> None:
    coverage = runs.seal(*[b"garbage\n"] * (MAX_EXAMPLES + 5))["coverage"]
    assert coverage["damaged_records"] == MAX_EXAMPLES + 5
    assert [damage["line"] for damage in coverage["damage"]] == list(range(1, MAX_EXAMPLES + 1))


@pytest.mark.parametrize("size", [-1, 0, 1])
def test_line_at_the_limit_costs_at_most_itself(runs: Runs, size: int) -> None:
    frame = b'{"event_type":"x","payload":{"s":""}}\n'
    line = frame.replace(b'""', b'"' + b"a" * (MAX_LINE - len(frame) + size) + b'"')
    evidence = runs.seal(attached(), line, recorded(2))
    readable = len(from_recorder(evidence))
    assert readable + evidence["coverage"]["damaged_records"] == 3
    assert readable >= 2


def test_nesting_that_is_allowed_survives_redaction_and_reading(runs: Runs) -> None:
    levels = MAX_RECORD_DEPTH - 3
    line = nested(levels).replace(b"[]", b'["password=hunter2hunter2"]')
    event = from_recorder(runs.seal(line))[0]
    assert json.dumps(event).count("[") >= levels
    assert "hunter2" not in json.dumps(event)


def test_duplicate_is_kept_once_and_counted(runs: Runs) -> None:
    record = recorded(2)
    evidence = runs.seal(attached(), record, recorded(3), record)
    assert len(from_recorder(evidence)) == 3
    assert evidence["coverage"]["duplicate_records"] == 1


def test_readable_one_of_two_with_the_same_id_is_kept(runs: Runs) -> None:
    record = recorded(2)
    evidence = runs.seal(attached(), {**record, "payload": 5}, record)
    assert len(from_recorder(evidence)) == 2
    assert evidence["coverage"]["damage_by_kind"] == {"wrong_type": 1}


def test_unreadable_repetition_of_a_record_is_a_duplicate(runs: Runs) -> None:
    record = recorded(2)
    coverage = runs.seal(attached(), record, {**record, "payload": 5}, recorded(3))["coverage"]
    assert (coverage["duplicate_records"], coverage["damaged_records"]) == (1, 0)


@pytest.mark.parametrize("first", [1, 2])
def test_order_in_the_journal_does_not_change_what_is_counted(runs: Runs, first: int) -> None:
    records = [recorded(number, at=AT + number) for number in (first, 3 - first, 3, 3)]
    damaged = {**recorded(4, at=AT + 4), "payload": 5}
    coverage = runs.seal(*records, damaged)["coverage"]
    assert coverage["journal_lines"] == 5
    assert coverage["duplicate_records"] == 1
    assert coverage["damage"] == [
        {"line": 5, "offset": sum(len(line_of(record)) for record in records), "kind": "wrong_type"}
    ]
    assert coverage["missing_by_writer"] == {}


def test_records_without_id_or_time_keep_their_place(runs: Runs) -> None:
    evidence = runs.seal(
        recorded(1, "first", at=AT),
        {"event_type": "second", "timestamp": iso_from_ms(AT + 5)},
        {"event_type": "third"},
        {"event_type": "fourth", "timestamp": "no time"},
        {"event_type": "fifth", "event_id": "number five", "timestamp": "2026-05-28T22:26:40.007+02:00"},
        recorded(2, "sixth", at=AT + 7_200_000, timestamp=""),
    )
    events = from_recorder(evidence)
    assert [event["event_type"] for event in events] == ["first", "second", "third", "fourth", "fifth", "sixth"]
    assert [event["timestamp"] for event in events] == [
        iso_from_ms(AT + offset) for offset in (0, 5, 5, 5, 7, 7_200_000)
    ]
    assert len({event["event_id"] for event in events}) == 6
    assert evidence["coverage"]["timestamps_replaced"] == 3


def test_every_event_has_the_whole_envelope(runs: Runs) -> None:
    evidence = runs.seal(attached(), {"event_type": "sparse", "surplus": 1}, recorded(2))
    assert all(event.keys() == ENVELOPE for event in evidence["events"])
    assert evidence.keys() == {"schema_version", "run_id", "session_id", "events", "metrics", "coverage"}
    assert evidence["schema_version"] == "critiqor.session.v1"
    assert evidence["run_id"] == evidence["session_id"] == "run_001"


def test_journal_cannot_speak_for_the_supervisor(runs: Runs) -> None:
    forged = recorded(2, "process_end", source_layer="supervisor", payload={"exit_code": 0})
    evidence = runs.seal(attached(), forged)
    assert evidence["metrics"]["by_source_layer"] == {"extension_api": 2, "supervisor": 2}
    assert runs.record("run_001")["diagnosis"]["outcome"]["state"] == "unknown"


CANONICAL = {
    "tool_call": "tool_call",
    "tool_result": "tool_output",
    "tool_execution_end": "tool_output",
    "memory_search": "memory_event",
    "memory_get": "memory_event",
    "after_provider_response": "token_usage",
    "before_provider_request": "before_provider_request",
    "agent_start": "agent_start",
    "something_new": "something_new",
}


@pytest.mark.parametrize(("raw", "canonical"), CANONICAL.items())
def test_names_are_normalised_alike_by_function_and_seal(runs: Runs, raw: str, canonical: str) -> None:
    record = recorded(1, raw)
    by_function = normalize_plugin_event(record)
    assert (by_function["event_type"], by_function["raw_event_type"]) == (canonical, raw)
    assert from_recorder(runs.seal(record)) == [by_function]
    assert normalize_plugin_event(by_function) == by_function


def test_sparse_and_odd_plugin_events_are_normalised() -> None:
    assert normalize_plugin_event({"type": "tool_result"})["event_type"] == "tool_output"
    assert normalize_plugin_event({})["event_type"] == "unknown"
    assert normalize_plugin_event({"event_type": "x", "payload": [1]})["payload"] == {"value": [1]}
    assert normalize_plugin_event({"event_type": "x", "duration_ms": None}).keys() == ENVELOPE


def test_what_the_envelope_lacks_is_taken_from_the_payload() -> None:
    payload = {"toolCallId": 7, "toolName": "exec", "isError": True, "runId": "r", "sessionKey": "s"}
    event = normalize_plugin_event({"event_type": "tool_result", "payload": payload, "error": {"message": "no"}})
    assert (event["tool_call_id"], event["tool_name"], event["status"], event["error"]) == ("7", "exec", "error", "no")
    assert (event["agent_run_id"], event["session_key"], event["source_layer"]) == ("r", "s", "tool_hooks")


def test_memory_events_keep_query_and_outcome_and_are_no_second_tool_call(runs: Runs) -> None:
    payload = {"observed_as": "tool_result", "query": "where", "outcome": "empty"}
    evidence = runs.seal(
        attached(),
        recorded(2, "tool_call", tool_name="memory_search", tool_call_id="m"),
        recorded(3, "memory_search", payload={**payload, "observed_as": "tool_call"}),
        recorded(4, "tool_result", tool_name="memory_search", tool_call_id="m"),
        recorded(5, "memory_search", payload=payload),
    )
    memory = [event for event in evidence["events"] if event["event_type"] == "memory_event"]
    assert [event["raw_event_type"] for event in memory] == ["memory_search"] * 2
    assert memory[1]["payload"] == payload
    assert evidence["metrics"]["tool_calls"] == 1
    assert evidence["coverage"]["calls_without_results"] == 0


def test_calls_and_results_are_paired_by_occurrence_within_a_run(runs: Runs) -> None:
    def call(number: int, kind: str, **fields: Any) -> dict[str, Any]:
        return recorded(number, kind, at=AT + number, tool_name="exec", **fields)

    evidence = runs.seal(
        call(1, "tool_call", tool_call_id="a"),
        call(2, "tool_call", tool_call_id="a"),
        call(3, "tool_result", tool_call_id="a"),
        call(4, "tool_call", tool_call_id="b"),
        call(5, "tool_execution_end", tool_call_id="b"),
        call(6, "tool_result", tool_call_id="b", agent_run_id="run-2"),
        call(7, "tool_result", tool_call_id="never called"),
    )
    coverage = evidence["coverage"]
    assert coverage["calls_without_results"] == 1
    assert coverage["open_calls"] == [
        {"event_id": event_id_for(AT + 2, "w", 2), "tool_name": "exec", "tool_call_id": "a"}
    ]
    assert coverage["results_without_calls"] == 2
    assert evidence["metrics"]["tool_calls"] == 3


def test_model_calls_without_response_or_usage_are_said(runs: Runs) -> None:
    coverage = runs.seal(
        attached(),
        recorded(2, "before_provider_request"),
        recorded(3, "after_provider_response", payload={"usage": {"input": 1}}),
        recorded(4, "before_provider_request"),
        recorded(5, "after_provider_response"),
        recorded(6, "before_provider_request"),
    )["coverage"]
    assert (coverage["requests_without_responses"], coverage["responses_without_usage"]) == (1, 1)


def test_holes_in_numbering_are_missing_records(runs: Runs) -> None:
    coverage = runs.seal(attached(), recorded(2), recorded(5), recorded(3, writer="v"))["coverage"]
    assert coverage["missing_by_writer"] == {"v": 2, "w": 2}
    assert coverage["missing_records"] == 4
    assert any("4 records were lost" in note for note in coverage["notes"])


@pytest.mark.parametrize("sequence", ["zzzzz", "z" * 30, "z" * 5000, "-5", "+5", " 5", "1_000"])
def test_absurd_numbering_does_not_stop_the_seal(runs: Runs, sequence: str) -> None:
    odd = recorded(2) | {"event_id": f"evt_0mwiaewcq_w_{sequence}"}
    assert len(from_recorder(runs.seal(attached(), odd))) == 2


@pytest.mark.parametrize("number", [10**18, 10**400, -5, 1.7e308, True, "many"], ids=lambda n: str(n)[:8])
def test_absurd_usage_does_not_stop_the_seal(runs: Runs, number: Any) -> None:
    usage = {"input": number, "output": 7, "cost": {"total": number}}
    responses = [recorded(index, "after_provider_response", payload={"usage": usage}) for index in range(2, 15)]
    runs.seal(attached(), *responses)
    cost = runs.record("run_001")["cost_analysis"]
    assert cost["output_tokens"] == 91
    assert cost["model_calls"] == 13
    assert 0 <= cost["input_tokens"] < 2**60


def test_metrics_count_what_is_in_the_evidence(runs: Runs) -> None:
    evidence = runs.seal(
        attached(),
        recorded(2, "tool_call", tool_call_id="a"),
        recorded(3, "tool_result", tool_call_id="a", status="error", error="exit 1"),
        recorded(4, "after_provider_response", payload={"usage": {"input": 1}}),
    )
    assert evidence["metrics"] == {
        "total_events": 6,
        "by_event_type": {
            "recorder_attached": 1,
            "state_transition": 2,
            "token_usage": 1,
            "tool_call": 1,
            "tool_output": 1,
        },
        "by_source_layer": {"extension_api": 2, "supervisor": 2, "tool_hooks": 2},
        "error_events": 1,
        "tool_calls": 1,
    }


def test_coverage_names_recorders_sources_cuts_and_secrets(runs: Runs) -> None:
    cut = {"cut": True, "size": 9, "excerpt": "x"}
    redacted = {"text": "[redacted:jwt:0123abcd] and [redacted:jwt:0123abcd]"}
    coverage = runs.seal(
        attached(),
        recorded(1, "recorder_attached", writer="v", payload={"pid": "no", "sources": 5}),
        recorded(2, payload={"a": cut, "b": cut}),
        recorded(3, payload=redacted),
        recorded(4, payload={"password": "hunter22"}),
    )["coverage"]
    assert coverage["recorder_attached"] is True
    assert {recorder["pid"] for recorder in coverage["recorders"]} == {4711, None}
    assert coverage["sources"] == {"hooks": True}
    assert coverage["values_cut"] == 2
    assert coverage["secrets_redacted"] == {"field": 1, "jwt": 2}
    assert coverage["agent_events"] == 3


def test_announced_rules_spare_a_second_look_only_to_the_writer_who_announced_them(runs: Runs) -> None:
    secret = {"text": "password=hunter2hunter2"}
    announcement = {"redaction": rules_digest()}
    evidence = runs.seal(
        recorded(1, "recorder_attached", writer="same", payload=announcement),
        recorded(1, "recorder_attached", writer="older", payload={"redaction": "of other rules"}),
        {"event_type": "recorder_attached", "payload": announcement},
        recorded(2, "by_older", writer="older", payload=secret),
        {"event_type": "by_nobody", "payload": secret},
        recorded(2, "by_other", writer="other", payload=secret),
    )
    assert "hunter2" not in json.dumps(evidence)
    assert evidence["coverage"]["secrets_redacted"] == {"assignment": 3}


def test_run_without_recorder_gets_no_score_and_no_clean_bill(runs: Runs) -> None:
    for records in ((), (attached(),), (b"garbage\n",)):
        runs.seal(*records)
        record = runs.record(runs.paths.run_ids()[-1])
        assert record["trust_score"] is None
        assert record["confidence_score"] == 0
        assert record["diagnosis"]["readiness"] == "unknown"
        assert record["diagnosis"]["primary_diagnosis"]["type"] == "inspection_incomplete"


def test_damage_lowers_confidence_and_never_trust(runs: Runs) -> None:
    runs.seal(attached(), recorded(2), b"garbage\n", recorded(9))
    record = runs.record("run_001")
    assert record["trust_score"] == 100
    assert record["confidence_score"] < 100


def seal_in_fresh_folder(*records: Any) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return Runs(Path(folder)).seal(*records)


FRAGMENTS = st.sampled_from(
    [
        b"\n",
        b"{",
        b"}",
        b'"',
        b"\\ud800",
        b"\xff",
        b'{"event_type":"x"}\n',
        b'{"event_id":"evt_',
        b'{"event_type":"tool_result","payload":{"usage":{"cost":{"total":1e400}}}}\n',
        line_of(recorded(2, at=AT)),
    ]
)


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=40) | FRAGMENTS, max_size=12))
def test_any_bytes_as_journal_give_valid_evidence(pieces: list[bytes]) -> None:
    evidence = seal_in_fresh_folder(*pieces)
    lines = [line for line in b"".join(pieces).split(b"\n") if line.strip()]
    coverage = evidence["coverage"]
    assert coverage["journal_lines"] == len(lines)
    kept = len(from_recorder(evidence))
    assert kept <= len(lines)
    assert kept + coverage["damaged_records"] + coverage["duplicate_records"] >= len(lines)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60)
@given(st.lists(st.dictionaries(st.sampled_from(sorted(ENVELOPE)), JSON, max_size=6), max_size=6))
def test_any_json_as_journal_gives_valid_evidence(records: list[dict[str, Any]]) -> None:
    evidence = seal_in_fresh_folder(*records)
    assert len(from_recorder(evidence)) + evidence["coverage"]["damaged_records"] <= len(records)
    assert evidence["metrics"]["total_events"] == len(evidence["events"])


WRITERS = [
    recorded(number, f"kind_{number}", writer=name, at=AT + number // 2) for name in "ab" for number in range(1, 7)
]


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.permutations(WRITERS))
def test_any_interleaving_of_writers_gives_the_same_events(records: list[dict[str, Any]]) -> None:
    events = from_recorder(seal_in_fresh_folder(*records))
    assert [event["event_id"] for event in events] == sorted(record["event_id"] for record in WRITERS)
    assert {event["event_id"]: event["event_type"] for event in events} == {
        record["event_id"]: record["event_type"] for record in WRITERS
    }


@pytest.mark.parametrize("name", ["journal.jsonl", "session.json", "witness.json", "recorder-abc.json"])
def test_a_pipe_in_place_of_a_file_does_not_block_finalize(runs: Runs, name: str) -> None:
    run_id = runs.start()
    path = runs.paths.run_folder(run_id) / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert runs.finalize(run_id)["status"] == "COMPLETED"
