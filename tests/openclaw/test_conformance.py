"""One scenario on a real OpenClaw and on the embedded loop: the evidence differs only as docs/agentloop.md lists."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from openclaw.rig import FINAL_WORDS, LOCAL_TURN, Rig, rig

from critiqor.lab.model.scripted_model import Step, ToolUse
from critiqor.lab.verdict import MACHINE_DEPENDENT

pytestmark = pytest.mark.xdist_group("conformance")  # what they compare is recorded once
EMBEDDED = f"{sys.executable} -m critiqor.agentloop"
STEPS = (
    Step(text="I start.", tools=(ToolUse("call_1", "exec", {"command": "echo hello"}),), delay_s=0.05),
    Step(tools=(ToolUse("call_2", "exec", {"command": "echo bad >&2; exit 3"}),), delay_s=0.05),
    Step(tools=(ToolUse("call_3", "read", {"path": "missing/file.txt"}),), delay_s=0.05),
    Step(tools=(ToolUse("call_4", "frobnicate", {"x": 1}),), delay_s=0.05),
    Step(tools=(ToolUse("call_5", "memory_search", {"query": "the plan"}),), delay_s=0.05),
    Step(text=FINAL_WORDS, delay_s=0.05),
)
# Otherwise OpenClaw offers memory_search only behind another tool.
DIRECT_TOOLS = {"tools": {"toolSearch": False}}
UNKNOWN_TOOL = 4
"""The turn that asks for a tool which does not exist."""

OF_PROCESSES = ("state_transition", "process_start", "process_end", "resource_usage")

Event = dict[str, Any]


class Recorded(NamedTuple):
    """What is known of the scenario on one of the two."""

    events: list[Event]
    """Canonical ones of the recorder, without those that only one of the two has."""
    alone: list[Event]
    """Those."""
    finding_types: list[str]
    coverage: dict[str, Any]
    timeline: dict[str, Any]
    said: str


def play(folder: Path, *options: str) -> Recorded:
    with rig(folder, "2026.9.6", STEPS, DIRECT_TOOLS) as made:
        done = made.monitor(*LOCAL_TURN, options=options)
        assert done.returncode == 0, done.stderr
        assert len(made.model.requests) == len(STEPS)
        record = made.finalize()
        assert made.critiqor("verify", "run_001").returncode == 0
        timeline = json.loads(made.critiqor("timeline", "run_001", "--json").stdout)["data"]
        evidence = made.evidence()
        events = [event for event in evidence["events"] if event["source_layer"] != "supervisor"]
        findings = record["diagnosis"]["failure_analysis"]["findings"]
        return Recorded(
            events=[comparable(event, made) for event in events if not is_only_here(event)],
            alone=[event for event in events if is_only_here(event)],
            finding_types=sorted(type_ for finding in findings if (type_ := finding["type"]) not in MACHINE_DEPENDENT),
            coverage=evidence["coverage"],
            timeline=timeline,
            said=done.stdout,
        )


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return play(tmp_path_factory.mktemp("real"))


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return play(tmp_path_factory.mktemp("embedded"), "--openclaw-command", EMBEDDED)


def is_only_here(event: Event) -> bool:
    """Whether an event is one that the other has no counterpart of; the documentation says why."""
    payload = event["payload"]
    unknown_tool = {"id": "call_4", "name": "frobnicate"} in payload.get("tool_calls", [])
    return event["event_type"] in ("recorder_attached", "session_start") or unknown_tool


MEASURED = (
    *("durationMs", "requestPayloadBytes", "responseStreamBytes", "timeToFirstByteMs"),
    *("system_prompt", "tools", "history_messages", "message_id"),
)
"""What is different every time, or between two programs with other prompts and other tools."""


def comparable(event: Event, made: Rig) -> Event:
    """An event without what cannot be the same in two runs, and with what is the same under one name."""
    text = json.dumps(event).replace(str(made.workspace), "WORKSPACE").replace(str(event["agent_run_id"]), "RUN")
    kept: Event = json.loads(text)
    del kept["event_id"], kept["timestamp"]
    kept["duration_ms"] = None if event["duration_ms"] is None else "measured"
    payload = kept["payload"]
    payload.update({name: "measured" for name in MEASURED if name in payload})
    if kept["tool_name"] == "memory_search" and "result" in payload:
        payload["result"] = {"results": payload["result"]["details"]["results"]}
    elif "result" in payload:
        details = payload["result"]["details"]
        details.update({"durationMs": "measured"} if "durationMs" in details else {})
        details.pop("noOutputTimedOut", None)
    if kept["event_type"] == "token_usage" and payload["turn"] == UNKNOWN_TOOL:
        payload["usage"] = "recorded elsewhere"
    if kept["event_type"] == "agent_end":
        payload.pop("recovered_usage", None)
    if kept["tool_name"] == "read" and kept["error"] is not None:
        words = kept["error"]
        assert "WORKSPACE/missing/file.txt" in words
        kept = json.loads(json.dumps(kept).replace(json.dumps(words)[1:-1], "no such file"))
        payload = kept["payload"]
        payload["result"]["content"] = "as the details say"
    rounded: dict[str, Any] = _rounded(kept)
    return rounded


def _rounded(value: Any) -> Any:
    """Round numbers: costs are added up in a different order."""
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 9) if isinstance(value, float) else value


def names(events: list[Event]) -> list[tuple[Any, ...]]:
    fields = ("event_type", "raw_event_type", "source_layer", "tool_name", "tool_call_id", "status")
    return [tuple(event[field] for field in fields) for event in events]


def test_names_and_order_are_the_same(real: Recorded, embedded: Recorded) -> None:
    assert len(real.events) > 40
    assert names(embedded.events) == names(real.events)


def test_every_field_that_can_be_the_same_is_the_same(real: Recorded, embedded: Recorded) -> None:
    for ours, theirs in zip(embedded.events, real.events, strict=True):
        assert ours == theirs


def test_the_events_that_only_one_has_are_those_that_are_documented(real: Recorded, embedded: Recorded) -> None:
    attachments = [(event["event_type"], event["payload"].get("mode")) for event in real.alone]
    assert attachments == [("recorder_attached", "full"), ("recorder_attached", "discovery")]
    attached, begun, said = embedded.alone
    assert (attached["event_type"], attached["payload"]["mode"]) == ("recorder_attached", "full")
    assert attached["payload"]["openclaw_version"].startswith("critiqor-agentloop ")
    assert attached["payload"].keys() - {"python_version"} == real.alone[0]["payload"].keys()
    assert begun["event_type"] == "session_start"
    assert said["event_type"] == "message_end"


def test_total_usage_is_the_same(real: Recorded, embedded: Recorded) -> None:
    totals = [recording.events[-1]["payload"]["usage_total"] for recording in (real, embedded)]
    assert totals[0] == totals[1]
    assert totals[0]["input"] == 1000 * len(STEPS)


def test_findings_are_the_same_and_no_records_are_missing(real: Recorded, embedded: Recorded) -> None:
    assert embedded.finding_types == real.finding_types
    for figure in ("damaged_records", "missing_records", "calls_without_results", "responses_without_usage"):
        assert real.coverage[figure] == embedded.coverage[figure] == 0, figure
    assert FINAL_WORDS in real.said and FINAL_WORDS in embedded.said


def test_the_timeline_of_the_embedded_loop_accounts_for_the_turn(embedded: Recorded) -> None:
    timeline = embedded.timeline
    assert timeline["present"] is True
    assert (timeline["parse_errors"], timeline["irregular"], timeline["open_spans_total"]) == (0, [], 0)
    (turn,) = timeline["turns"]
    assert sorted(turn["sources"]) == ["recorder", "timeline"]
    assert (turn["requests"], turn["tools"], turn["ended"]) == (len(STEPS), 5, True)
    assert turn["split"]["unattributed_ms"] <= turn["duration_ms"] / 10
    assert (timeline["children"]["count"], timeline["children"]["failed"]) == (2, 1)


FAILING = {
    "an error that passes": (Step(status=500), STEPS[0], Step(text=FINAL_WORDS)),
    "a key that is refused": (Step(status=401),),
}


@pytest.mark.parametrize("steps", [pytest.param(steps, id=name) for name, steps in FAILING.items()])
def test_failed_model_calls_have_the_same_names_and_order(steps: tuple[Step, ...], tmp_path: Path) -> None:
    results = []
    for name, options in (("real", ()), ("embedded", ("--openclaw-command", EMBEDDED))):
        with rig(tmp_path / name, "2026.9.6", steps, DIRECT_TOOLS) as made:
            done = made.monitor(*LOCAL_TURN, options=options)
            assert len(made.model.requests) == len(steps)
            made.finalize()
            events = [event for event in made.evidence()["events"] if not is_only_here(event)]
            kept = [event for event in events if event["event_type"] not in OF_PROCESSES]
            results.append((done.returncode, names(kept)))
    assert results[0] == results[1]


def test_the_documentation_names_every_difference() -> None:
    text = (Path(__file__).parent.parent.parent / "docs" / "agentloop.md").read_text("utf-8")
    section = text.partition("## Compared with a real OpenClaw")[2].partition("\n## ")[0]
    for name in ("recorder_attached", "session_start", "message_end", "recovered_usage", "noOutputTimedOut", "ENOENT"):
        assert f"`{name}" in section, name
