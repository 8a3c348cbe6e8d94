"""A real OpenClaw, in every way people run it: everything it does is recorded once and correctly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openclaw.rig import FINAL_WORDS, LOCAL_TURN, STEPS, Gateway, Rig, TerminalUi, chat, rig, wait_until

from critiqor.lab.model.scripted_model import Step, ToolUse


def record_local(made: Rig) -> None:
    done = made.monitor(*LOCAL_TURN)
    assert done.returncode == 0, done.stderr
    assert FINAL_WORDS in done.stdout
    assert "cannot save settings while it is recorded" in done.stderr


def record_chat(made: Rig) -> None:
    assert FINAL_WORDS in chat(made, "do the thing", FINAL_WORDS)


def record_gateway(made: Rig) -> None:
    gateway = Gateway(made)
    gateway.turn()
    assert gateway.stop() == 143


MODES = {"local": record_local, "chat": record_chat, "gateway": record_gateway}


@pytest.mark.parametrize("mode", MODES)
def test_every_call_and_result_is_recorded_once(mode: str, version: str, tmp_path: Path) -> None:
    with rig(tmp_path, version) as made:
        MODES[mode](made)
        assert len(made.model.requests) == 5
        record = made.finalize()

        assert_tool_calls_are_correct(made)
        assert_model_calls_are_correct(made)
        (said,) = made.events("input")
        assert said["payload"]["text"].endswith("do the thing"), "some put the time before it"
        assert made.events("message_end")[-1]["payload"]["text"] == FINAL_WORDS
        assert len(made.events("agent_start")) == len(made.events("agent_end")) == 1
        evidence = made.evidence()
        assert_nothing_was_lost(evidence)
        assert len({event["agent_run_id"] for event in made.events("tool_call")}) == 1
        assert record["trust_score"] is not None
        assert made.critiqor("verify", "run_001").returncode == 0
        assert_timeline_is_complete(made)


def test_a_shell_command_of_the_user_in_the_terminal_ui_is_recorded(version: str, tmp_path: Path) -> None:
    with rig(tmp_path, version) as made:
        terminal = TerminalUi(made)
        terminal.type("!sleep 2; echo wo''rks", "Allow local shell commands")
        terminal.send("\x1b[B")
        terminal.send("\r", "[local] works")
        terminal.leave()
        made.finalize()
        [seen] = made.events("user_bash")
        assert seen["payload"]["command"] == "sleep 2; echo wo''rks"
        assert seen["source_layer"] == "supervisor"


def assert_timeline_is_complete(made: Rig) -> None:
    timeline = json.loads(made.critiqor("timeline", "run_001", "--json").stdout)["data"]
    assert timeline["present"] is True
    assert timeline["parse_errors"] == 0
    (turn,) = timeline["turns"]
    assert "recorder" in turn["sources"]
    split = turn["split"]
    assert split["with_provider_ms"] > 0 and split["in_tools_ms"] > 0
    parts = sum(value for name, value in split.items() if name.endswith("_ms"))
    assert parts == pytest.approx(turn["duration_ms"], rel=0.01)


def assert_tool_calls_are_correct(made: Rig) -> None:
    calls, results = made.events("tool_call"), made.events("tool_output")
    names = [("exec", "call_0"), ("read", "call_0"), ("exec", "call_2"), ("frobnicate", "call_3")]
    assert [(event["tool_name"], event["tool_call_id"]) for event in calls] == names
    assert [(event["tool_name"], event["tool_call_id"]) for event in results] == names
    assert [event["status"] for event in results] == ["ok", "error", "error", "error"]
    assert results[0]["error"] is None
    assert "missing/file.txt" in results[1]["error"]
    assert results[2]["error"] == "exit code 3"
    assert "frobnicate not found" in results[3]["error"]
    assert all(event["duration_ms"] is None for event in calls)
    for call, result in zip(calls, results, strict=True):
        assert call["event_id"] < result["event_id"]
        assert call["source_layer"] == result["source_layer"] == "tool_hooks"
        assert result["raw_event_type"] == "tool_result"
        assert 0 <= result["duration_ms"] < 60_000
    assert calls[2]["payload"]["arguments"] == {"command": "echo bad >&2; exit 3"}
    assert "hello" in str(results[0]["payload"]["result"])


def assert_model_calls_are_correct(made: Rig) -> None:
    requests, responses = made.events("before_provider_request"), made.events("token_usage")
    assert len(requests) == len(responses) == len(made.events("turn_start")) == len(made.events("turn_end")) == 5
    for request, response in zip(requests, responses, strict=True):
        assert request["event_id"] < response["event_id"]
        assert response["status"] == "ok"
        assert response["duration_ms"] >= 0
        assert (response["payload"]["provider"], response["payload"]["model"]) == ("lab", "scripted")
    usages = [event["payload"]["usage"] for event in responses if event["payload"]["usage"]]
    assert len(usages) >= 4
    assert all((usage["input"], usage["output"]) == (1000, 20) and usage["cost"]["total"] > 0 for usage in usages)


def assert_nothing_was_lost(evidence: dict[str, Any]) -> None:
    coverage = evidence["coverage"]
    assert coverage["recorder_attached"]
    for figure in ("damaged_records", "duplicate_records", "missing_records", "results_without_calls"):
        assert coverage[figure] == 0, figure
    assert coverage["calls_without_results"] == coverage["requests_without_responses"] == 0
    witness = coverage["witness"]
    assert witness["produced"] == coverage["journal_lines"]
    assert [name for name, value in witness.items() if value and name not in ("recorders", "produced")] == []
    ids = [event["event_id"] for event in evidence["events"]]
    assert ids == sorted(set(ids))
    assert evidence["metrics"]["total_events"] == len(ids)
    assert evidence["metrics"]["tool_calls"] == 4
    kinds = {event["event_type"] for event in evidence["events"]}
    assert {"state_transition", "process_start", "process_end", "recorder_attached"} <= kinds


def test_a_failed_model_call_and_its_retry_are_each_recorded(tmp_path: Path) -> None:
    tool = Step(tools=(ToolUse("call_0", "exec", {"command": "echo hello"}),))
    with rig(tmp_path, "2026.9.6", (Step(status=500), tool, Step(text=FINAL_WORDS))) as made:
        made.monitor(*LOCAL_TURN)
        made.finalize()
        assert len(made.events("before_provider_request")) == 3
        assert [event["status"] for event in made.events("token_usage")] == ["error", "ok", "ok"]
        ends = made.events("agent_end")
        assert [event["status"] for event in ends] == ["error", "ok"]
        assert ends[0]["payload"]["success"], "the agent itself calls the failed attempt a success"
        assert len(made.events("provider_retry")) == 1
        assert len(made.events("tool_call")) == len(made.events("tool_output")) == 1


def test_a_provider_that_refuses_is_recorded_as_the_error_that_it_is(version: str, tmp_path: Path) -> None:
    with rig(tmp_path, version, (Step(status=401),)) as made:
        made.monitor(*LOCAL_TURN)
        record = made.finalize()
        responses = made.events("token_usage")
        assert len(responses) == len(made.events("before_provider_request")) >= 1
        assert {event["status"] for event in responses} == {"error"}
        assert "401" in responses[0]["error"]
        assert {event["status"] for event in made.events("agent_end")} == {"error"}
        assert record["diagnosis"]["primary_diagnosis"]["type"] in ("provider_failure", "process_failure")


def test_memory_lookups_behind_the_tool_search_are_recorded_as_memory_events(tmp_path: Path) -> None:
    lookup = ToolUse("call_1", "tool_call", {"id": "memory_search", "args": {"query": "the plan"}})
    slow = ToolUse("call_2", "exec", {"command": "sleep 1; echo A"})
    quick = ToolUse("call_3", "exec", {"command": "echo B"})
    steps = (Step(tools=(lookup, slow, quick)), Step(text=FINAL_WORDS))
    with rig(tmp_path, "2026.9.6", steps) as made:
        made.monitor(*LOCAL_TURN)
        made.finalize()
        memory = made.events("memory_event")
        assert [event["payload"]["observed_as"] for event in memory] == ["tool_call", "tool_result"]
        assert all(event["payload"]["query"] == "the plan" for event in memory)
        # On a machine that does much else, OpenClaw gives up its own search after 30 s and says so.
        has_answered = not memory[1]["payload"]["result"]["details"].get("unavailable")
        assert [event["payload"]["lookup"] for event in memory] == ["pending", "empty" if has_answered else "error"]
        calls = made.events("tool_call")
        assert sorted(event["tool_name"] for event in calls) == ["exec", "exec", "memory_search", "tool_call"]
        nested = next(event for event in calls if event["tool_name"] == "memory_search")
        assert nested["payload"]["parent_tool_call_id"] == "call_1"
        durations = {event["tool_call_id"]: event["duration_ms"] for event in made.events("tool_output")}
        assert len(durations) == 4
        assert durations["call_2"] >= 1000


def test_a_gateway_can_be_sealed_from_a_second_terminal_while_it_goes_on(tmp_path: Path) -> None:
    with rig(tmp_path, "2026.9.6") as made:
        gateway = Gateway(made)
        gateway.turn()
        record = made.finalize()
        assert record["status"] == "COMPLETED"
        sealed = (made.runs / "run_001" / "session.json").read_bytes()
        assert made.evidence()["coverage"]["sealed_while_running"]

        made.model.rewind()
        gateway.turn("once more")
        assert len(made.model.requests) == len(STEPS)
        assert gateway.stop() == 143
        assert (made.runs / "run_001" / "session.json").read_bytes() == sealed
        assert made.critiqor("verify", "run_001").returncode == 0
        assert "completed while OpenClaw was running" in (tmp_path / "monitor.log").read_text()


def test_what_was_under_way_when_openclaw_was_killed_is_in_the_evidence(tmp_path: Path) -> None:
    steps = (Step(tools=(ToolUse("call_1", "exec", {"command": "sleep 300"}),)), Step(text=FINAL_WORDS))
    with rig(tmp_path, "2026.9.6", steps) as made:
        monitor = made.start_monitor(*LOCAL_TURN)
        journal = made.runs / "run_001" / "journal.jsonl"
        wait_until(lambda: journal.exists() and '"event_type":"tool_call"' in journal.read_text())
        for process in made.openclaw_processes():
            process.kill()
        assert monitor.wait(60) == 137
        record = made.finalize()
        coverage = made.evidence()["coverage"]
        assert coverage["calls_without_results"] == 1
        assert coverage["open_calls"][0]["tool_name"] == "exec"
        assert record["diagnosis"]["outcome"]["state"] == "failed"


def test_a_timeout_ends_the_whole_tree_and_leaves_a_session_to_finalize(tmp_path: Path) -> None:
    sleeping = ToolUse("call_1", "exec", {"command": "sleep 300", "background": True})
    steps = (Step(tools=(sleeping,)), Step(text=FINAL_WORDS, delay_s=300))
    with rig(tmp_path, "2026.9.6", steps) as made:
        done = made.monitor(*LOCAL_TURN, options=("--timeout", "20"))
        assert done.returncode == 124
        assert made.openclaw_processes() == []
        record = made.finalize()
        assert record["diagnosis"]["outcome"]["state"] == "timed_out"


def test_what_the_model_was_sent_and_what_openclaw_printed_are_kept(version: str, tmp_path: Path) -> None:
    with rig(tmp_path, version, STEPS) as made:
        done = made.monitor(*LOCAL_TURN, options=("--capture", "prompts"))
        made.finalize()
        [printed] = made.events("process_output")
        assert FINAL_WORDS in printed["payload"]["text"] and FINAL_WORDS in done.stdout
        texts: dict[str, str] = {}
        for event in made.events("prompt_text"):
            digest = event["payload"]["digest"]
            texts[digest] = texts.get(digest, "") + event["payload"]["text"]
        [prompt] = [
            event["payload"]["prompt"]
            for event in made.events("before_provider_request")
            if "prompt" in event["payload"]
        ]
        sent = made.model.requests[0]["messages"]
        assert "do the thing" in texts[prompt["messages"][-1]]
        assert texts[prompt["system"]] == sent[0]["content"] or texts[prompt["system"]][:500] in str(sent[0]["content"])
        assert "exec" in texts[prompt["tools"]]
