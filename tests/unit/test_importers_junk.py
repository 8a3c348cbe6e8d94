"""Input that is not understood never gets a clean bill: no trust score, and a note on what was not understood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import Cli, Runs

from critiqor.api import diagnose
from critiqor.errors import ExitCode, UsageError

SAID = ({"type": "user", "text": "What is two and two?"}, {"type": "assistant", "text": "Four."})
HEADER = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00Z"}


def entry(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": "a", "parentId": None, "timestamp": "2026-01-01T00:00:01Z", **fields}


def span(name: str, kind: str | None = None, **fields: Any) -> dict[str, Any]:
    attributes = {"http.method": "GET"} if kind is None else {"openinference.span.kind": kind}
    times = {"start_time": "2026-01-01T00:00:00Z", "end_time": "2026-01-01T00:00:01Z"}
    return {"name": name, "context": {"trace_id": "t", "span_id": "s"}, "attributes": attributes, **times, **fields}


JUNK: dict[str, list[Any]] = {
    "neutral: no type": [{"events": [{"a": 1}]}],
    "neutral: numbers": [{"events": [1, 2, 3]}],
    "neutral: empty objects": [{"events": [{}, {}]}],
    "neutral: wrong types": [{"events": [{"type": 5, "text": []}, {"type": ["user"]}, None]}],
    "neutral: empty messages": [{"events": [{"type": "user"}, {"type": "assistant", "text": ""}]}],
    "neutral: only an end": [{"events": [{"type": "end"}]}],
    "neutral: nothing": [{"events": []}],
    "transcript: only a header": [HEADER],
    "transcript: unknown roles": [HEADER, entry("message", message={"role": "alien"}), entry("message", message=5)],
    "transcript: an empty message": [HEADER, entry("message", message={"role": "user"})],
    "transcript: only a compaction": [HEADER, entry("compaction")],
    "transcript: unknown entries": [HEADER, entry("dream"), [1, 2], "x"],
    "trajectory: no data": [{"traceSchema": "openclaw-trajectory", "source": "transcript", "type": "x", "data": 7}],
    "spans: of a web server": [[span("GET /")]],
    "spans: a failure of a web server": [[span("GET /", status={"code": "ERROR"})]],
    "spans: a chain around nothing": [[span("root", "CHAIN")]],
    "session.json: no type": [{"schema_version": "critiqor.session.v1", "run_id": "r", "events": [{"a": 1}]}],
    "session.json: numbers": [{"schema_version": "critiqor.session.v1", "run_id": "r", "events": [1, 2]}],
    "session.json: unknown types": [
        {"schema_version": "critiqor.session.v1", "run_id": "r", "events": [{"event_type": "dream"}]}
    ],
    "session.json: nothing": [{"schema_version": "critiqor.session.v1", "run_id": "r", "events": []}],
}
REFUSED = {
    "numbers": "[1, 2, 3]",
    "an empty list": "[]",
    "an empty object": "{}",
    "nothing": "",
    "HTML": "<!doctype html>\n<html><body>Not found</body></html>\n",
    "a log": "2026-01-01 12:00:00 INFO started\n2026-01-01 12:00:01 ERROR failed\n",
    "a log of objects": '{"level":"info","msg":"x","timestamp":"2026-01-01T00:00:00Z"}\n',
    "no spans": '{"resourceSpans": []}',
}


def file_of(folder: Path, values: list[Any]) -> Path:
    path = folder / "input.jsonl"
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


@pytest.mark.parametrize("name", JUNK)
def test_a_file_in_which_no_work_of_an_agent_is_understood_has_no_trust_score(tmp_path: Path, name: str) -> None:
    diagnosis = diagnose(file_of(tmp_path, JUNK[name]))
    assert (diagnosis.trust_score, diagnosis.readiness) == (None, "unknown")
    assert diagnosis.confidence_score < 50
    assert diagnosis.failure_analysis.findings[0].type == "inspection_incomplete"


@pytest.mark.parametrize("name", JUNK)
def test_importing_such_a_file_gives_no_trust_score_either(cli: Cli, runs: Runs, tmp_path: Path, name: str) -> None:
    answer = cli("import", file_of(tmp_path, JUNK[name]), "--json")
    for row in answer.data["runs"]:
        record = runs.record(row["run_id"])
        assert (row["trust_score"], record["diagnosis"]["readiness"]) == (None, "unknown")
    assert len(answer.data["runs"]) + len(answer.data["left_out"]) == 1
    assert answer.code == (ExitCode.OK if answer.data["runs"] else ExitCode.ERROR)


@pytest.mark.parametrize("content", REFUSED.values(), ids=REFUSED)
def test_a_file_in_no_known_format_is_refused(cli: Cli, tmp_path: Path, content: str) -> None:
    path = tmp_path / "input.txt"
    path.write_text(content)
    with pytest.raises(UsageError, match="not in a format"):
        diagnose(path)
    assert cli("import", path).code == cli("diagnose", path).code == ExitCode.USAGE


def test_one_line_per_trace_says_that_nothing_was_understood(cli: Cli, tmp_path: Path) -> None:
    path = file_of(tmp_path, [{"events": list(SAID)}, {"events": [{"a": 1}, {"b": 2}]}])
    understood, junk = (json.loads(line) for line in cli("diagnose", path, "--json").out.splitlines())
    assert (understood["trust_score"], understood["readiness"]) == (100, "ready")
    assert (junk["trust_score"], junk["readiness"], junk["confidence_score"]) == (None, "unknown", 0)
    assert "events of an unknown type: 2 (none, …)" in junk["notes"]
    assert "trust -  high inspection_incomplete" in cli("diagnose", path).out


def test_the_finding_and_the_coverage_say_what_was_not_understood(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    cli("import", file_of(tmp_path, [{"events": [{"a": 1}, {"type": "dream"}]}]))
    coverage = runs.evidence("run_001")["coverage"]
    assert (coverage["agent_events"], coverage["entries_not_understood"]) == (0, 2)
    assert "events of an unknown type: 2 (none, dream)" in coverage["notes"]
    [finding] = runs.record("run_001")["diagnosis"]["failure_analysis"]["findings"]
    assert finding["title"] == "Nothing that an agent did was understood in the imported file"
    assert "events of an unknown type: 2 (none, dream)" in finding["explanation"]
    assert "docs/importing.md" in finding["recommendation"]


def test_input_that_is_partly_understood_says_how_much_is_not_and_lowers_confidence(tmp_path: Path) -> None:
    whole = diagnose(file_of(tmp_path, [{"events": list(SAID)}]))
    partly = diagnose(file_of(tmp_path, [{"events": [*SAID, {"a": 1}]}]))
    mostly_junk = diagnose(file_of(tmp_path, [{"events": [*SAID, *({"a": number} for number in range(6))]}]))
    assert whole.confidence_lost.keys() == {"imported: what the original recorder left out is unknown"}
    assert (whole.trust_score, partly.trust_score) == (100, 100)
    assert whole.confidence_score > partly.confidence_score > mostly_junk.confidence_score
    assert partly.confidence_lost["entries that were not understood"] == 33
    assert mostly_junk.readiness == "unknown"


def test_one_entry_of_many_costs_little(tmp_path: Path) -> None:
    diagnosis = diagnose(file_of(tmp_path, [{"events": [*SAID * 200, {"a": 1}]}]))
    assert diagnosis.confidence_lost["entries that were not understood"] == 1
    assert diagnosis.readiness == "ready"


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([HEADER, entry("message", message={"role": "user", "content": "Hi"}), entry("dream"), 7], 2),
        ([HEADER, entry("message", message={"role": "user", "content": "Hi"}), entry("label", label="x")], 0),
        ([span("ask", "LLM"), {"a": 1}], 1),
        ([{"events": [*SAID, 1, "x"]}], 2),
    ],
)
def test_every_format_counts_what_it_does_not_understand(
    cli: Cli, runs: Runs, tmp_path: Path, values: list[Any], count: int
) -> None:
    cli("import", file_of(tmp_path, values))
    assert runs.evidence("run_001")["coverage"]["entries_not_understood"] == count
