"""Payloads of the embedded loop's records are bounded and redacted, whatever an agent or a tool hands over."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from critiqor.agentloop.sessions.messages import Text
from critiqor.storage.bounds import MAX_DEPTH, MAX_EXCERPT, MAX_ITEMS, MAX_KEY, MAX_PAYLOAD, MAX_TEXT
from critiqor.storage.record_filter import RecordFilter
from critiqor.storage.redaction import Redactor

FILLER = "word " * 8000
SECRET = "sk-" + "a1B2" * 6


def record(payload: dict[str, Any], **fields: Any) -> dict[str, Any]:
    envelope = {"event_id": "e", "session_key": "agent:main:main", "tool_name": None, "tool_call_id": None}
    return {**envelope, "status": "ok", "error": None, **fields, "payload": payload}


def written(payload: dict[str, Any], **fields: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(RecordFilter(Redactor(b"key")).journal_line(record(payload, **fields)))
    return document


def bounded(**payload: Any) -> dict[str, Any]:
    kept: dict[str, Any] = written(payload)["payload"]
    return kept


def test_a_small_record_is_written_as_it_is() -> None:
    payload = {"text": "Größe 日本語 😀", "n": [1, 2.5, None, True], "o": {}}
    line = RecordFilter(Redactor(b"key")).journal_line(record(payload))
    assert json.loads(line) == record(payload)
    assert b"\\u" not in line and b"\n" not in line and b": " not in line


def test_money_and_times_do_not_make_a_record_take_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = {"cost": {"total": 0.0010400000000000001, "output": 3.9999999999999996e-05}, "at": 1_794_785_001_265}
    monkeypatch.delattr("critiqor.storage.record_filter.PayloadBounds")
    assert json.loads(RecordFilter(Redactor(b"key")).journal_line(record(payload))) == record(payload)


def test_a_long_text_becomes_its_size_its_digest_and_an_excerpt() -> None:
    text = "grün " * 10_000
    digest = f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:32]}"
    assert bounded(text=text)["text"] == {"cut": True, "size": 60_000, "digest": digest, "excerpt": text[:MAX_EXCERPT]}


def test_a_text_of_exactly_the_limit_is_kept_in_a_record_that_is_cut_elsewhere() -> None:
    assert bounded(text="x" * MAX_TEXT, filler=FILLER)["text"] == "x" * MAX_TEXT
    assert bounded(text="x" * (MAX_TEXT + 1), filler=FILLER)["text"]["cut"] is True


def test_small_things_beside_a_large_one_are_kept() -> None:
    result = {"content": [{"type": "text", "text": "x" * 500_000}], "details": {"exitCode": 3}}
    kept = bounded(result=result, exit_code=3)
    assert (kept["result"]["details"], kept["exit_code"]) == ({"exitCode": 3}, 3)
    assert kept["result"]["content"][0]["text"]["size"] == 500_000


def test_long_lists_and_wide_objects_say_how_long_they_were() -> None:
    kept = bounded(items=["item"] * 5000, wide={f"k{number}": 1 for number in range(900)}, filler=FILLER)
    assert len(kept["items"]) == MAX_ITEMS + 1
    assert kept["items"][-1] == {"cut": True, "reason": "items", "size": 5000}
    assert kept["wide"]["…"] == {"cut": True, "reason": "items", "size": 900}


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param([[["a text of some length " * 6] * 20] * 200] * 20, id="many middling texts"),
        pytest.param([[[1] * 200] * 200] * 20, id="many small values"),
        pytest.param([{f"{number}{'k' * 5000}": None for number in range(200)}] * 20, id="many long names"),
        pytest.param(["x" * 100_000] * 200, id="many large texts"),
    ],
)
def test_a_large_record_is_cut(payload: list[Any]) -> None:
    assert len(RecordFilter(Redactor(b"key")).journal_line(record({"payload": payload}))) < 4 * MAX_PAYLOAD


def test_values_that_json_cannot_represent_are_converted() -> None:
    ring: dict[str, Any] = {}
    ring["ring"] = ring
    deep: Any = "deep"
    for _ in range(40):
        deep = {"deep": deep}
    kept = bounded(
        ring=ring,
        deep=deep,
        data=b"12345",
        number=1 << 70,
        largest=(1 << 64) - 1,
        endless=float("inf"),
        error=ValueError("no"),
        part=Text("hello"),
        path=PurePosixPath("/a/b"),
        moment=datetime(2026, 1, 1, tzinfo=UTC),
        other=object(),
        some={1: (2, 3)},
    )
    assert kept["ring"] == {"ring": {"cut": True, "reason": "cycle"}}
    assert json.dumps(kept["deep"]).count("{") == MAX_DEPTH
    assert kept["data"] == {"cut": True, "reason": "binary", "size": 5}
    assert kept["number"] == {"cut": True, "reason": "size"}
    assert (kept["largest"], kept["endless"]) == ((1 << 64) - 1, None)
    assert kept["error"] == {"name": "ValueError", "message": "no"}
    assert kept["part"] == {"type": "text", "text": "hello"}
    assert (kept["path"], kept["moment"][:10]) == ("/a/b", "2026-01-01")
    assert kept["other"] == {"cut": True, "reason": "unreadable"}
    assert kept["some"] == {"1": [2, 3]}


def test_halves_of_characters_are_replaced_and_whole_ones_kept() -> None:
    assert bounded(text="\ud83d half \ude00", pair="\ud83d\ude00") == {"text": "\ufffd half \ufffd", "pair": "😀"}


def test_names_and_ids_of_the_envelope_stay_texts_however_long() -> None:
    long = "n" * 100_000
    kept = written({}, tool_name=long, tool_call_id=long, error=long)
    assert all(kept[name] == long[:MAX_EXCERPT] for name in ("tool_name", "tool_call_id", "error"))
    (name,) = bounded(**{long: 1, "filler": FILLER}).keys() - {"filler"}
    assert name == long[:MAX_KEY]


def test_secrets_are_replaced_in_texts_names_fields_and_errors() -> None:
    kept = written({"text": f"key {SECRET}", SECRET: 1, "password": "hunter2", "set-cookie": ["abcdef"]}, error=SECRET)
    line = json.dumps(kept)
    assert SECRET not in line and "hunter2" not in line and "abcdef" not in line
    assert kept["payload"]["password"].startswith("[redacted:")
    assert kept["session_key"] == "agent:main:main"


@pytest.mark.parametrize("start", [MAX_EXCERPT - 30, MAX_EXCERPT - 3, MAX_EXCERPT, MAX_EXCERPT + 4080])
def test_a_secret_across_the_edge_of_an_excerpt_is_not_cut_in_half(start: int) -> None:
    text = "x " * (start // 2) + SECRET + " y" * 40_000
    excerpt = bounded(text=text)["text"]["excerpt"]
    assert SECRET[:8] not in excerpt


def test_a_text_full_of_secrets_does_not_let_the_end_of_what_was_seen_through() -> None:
    text = f"{SECRET} " * 2000
    excerpt = bounded(text=text)["text"]["excerpt"]
    assert "sk-" not in excerpt


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=20)
    | st.sampled_from([SECRET, FILLER, "x" * 9000, object(), 1 << 80]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()) | st.integers(), inner),
    max_leaves=20,
)


@given(payload=st.dictionaries(st.text(st.characters(), max_size=20), VALUES, max_size=5))
def test_whatever_a_payload_holds_it_becomes_one_strict_line_without_secrets(payload: dict[str, Any]) -> None:
    line = RecordFilter(Redactor(b"key")).journal_line(record(payload))
    json.loads(line.decode())
    assert b"\n" not in line
    assert SECRET.encode() not in line
    assert len(line) < 8 * MAX_PAYLOAD
