"""Import of ATIF trajectories: the steps of Harbor's agents as events."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import Cli, Runs

from critiqor.api import diagnose
from critiqor.errors import ExitCode
from critiqor.importers import ImportedTrace, detect_format, read_traces
from critiqor.model import Event

FAILURE = "\n\n[error] tool reported failure"


class Trajectory:
    """A trajectory that is written step by step, ten seconds apart."""

    def __init__(self, version: str = "ATIF-v1.2", **fields: Any) -> None:
        agent = {"name": "claude-code", "version": "2.1.89", "model_name": "model-1"}
        self.document: dict[str, Any] = {"schema_version": version, "session_id": "s-1", "agent": agent, "steps": []}
        self.document |= fields

    def step(self, source: str, message: Any = "", **fields: Any) -> Trajectory:
        steps = self.document["steps"]
        minutes, seconds = divmod(len(steps) * 10, 60)
        time = f"2026-04-01T15:{minutes:02d}:{seconds:02d}.000Z"
        steps.append({"step_id": len(steps) + 1, "timestamp": time, "source": source, "message": message, **fields})
        return self

    def asks(self, message: Any = "Run the tests.") -> Trajectory:
        return self.step("user", message)

    def says(
        self, message: Any, prompt: int = 100, completion: int = 10, cached: int = 80, **fields: Any
    ) -> Trajectory:
        tokens = {"prompt_tokens": prompt, "completion_tokens": completion, "cached_tokens": cached}
        return self.step("agent", message, metrics={**tokens, **fields.pop("metrics", {})}, **fields)

    def runs(self, name: str, arguments: Any, *results: Any, call_id: str = "c1", **fields: Any) -> Trajectory:
        """A step that holds only a tool call, as the converter of Claude Code writes them."""
        call = {"tool_call_id": call_id, "function_name": name, "arguments": arguments}
        observed = [result if isinstance(result, dict) else {"content": result} for result in results]
        observation = {"results": [{"source_call_id": call_id, **result} for result in observed]}
        message = f"Executed {name} {call_id}"
        return self.step("agent", message, tool_calls=[call], observation=observation if results else None, **fields)

    def write(self, folder: Path) -> Path:
        path = folder / "trajectory.json"
        path.write_text(json.dumps(self.document, indent=2))
        return path

    def read(self, folder: Path) -> ImportedTrace:
        [trace] = read_traces(self.write(folder))
        return trace


def types(trace: ImportedTrace) -> list[str]:
    return [event.event_type for event in trace.events]


def only(trace: ImportedTrace, event_type: str) -> Event:
    [event] = [event for event in trace.events if event.event_type == event_type]
    return event


def test_a_response_with_its_tool_call_becomes_a_model_call_a_message_and_a_tool_call(tmp_path: Path) -> None:
    trajectory = Trajectory().asks().says("I run them.").runs("Bash", {"command": "make test"}, "ok").says("They pass.")
    trace = trajectory.read(tmp_path)
    assert (trace.trace_id, trace.format, trace.notes, trace.not_understood) == ("s-1", "atif", [], 0)
    model_call = ["before_provider_request", "token_usage", "message_end"]
    assert types(trace) == ["agent_start", "input", *model_call, "tool_call", "tool_output", *model_call, "agent_end"]
    said = next(event for event in trace.events if event.event_type == "message_end")
    assert (said.payload["text"], said.payload["tool_calls"]) == ("I run them.", [{"id": "c1", "name": "Bash"}])
    call, result = only(trace, "tool_call"), only(trace, "tool_output")
    assert (call.tool_name, call.tool_call_id, call.payload["arguments"]) == ("Bash", "c1", {"command": "make test"})
    assert (result.payload["result"], result.status, result.tool_name) == ("ok", "ok", "Bash")
    assert {event.agent_run_id for event in trace.events} == {"turn-1"}
    assert trace.events[0].timestamp == "2026-04-01T15:00:00.000Z"
    assert trace.events[-1].timestamp == "2026-04-01T15:00:30.000Z"


def test_a_step_that_holds_message_tool_call_and_metrics_is_one_response(tmp_path: Path) -> None:
    call = {"tool_call_id": "c1", "function_name": "shell", "arguments": '{"command": "ls"}'}
    observation = {"results": [{"source_call_id": "c1", "content": "a.txt"}]}
    trajectory = Trajectory("ATIF-v1.6").asks()
    trajectory.says("I look.", tool_calls=[call], observation=observation).says("There is one file.")
    trace = trajectory.read(tmp_path)
    assert types(trace).count("message_end") == 2
    assert only(trace, "tool_call").payload["arguments"] == {"command": "ls"}
    assert only(trace, "tool_output").payload["result"] == "a.txt"


def test_usage_and_cost_are_kept(tmp_path: Path) -> None:
    trajectory = Trajectory().asks().says("One.", metrics={"cost_usd": 0.25}).says("Two.", 200, 20, 0)
    cost = diagnose(trajectory.write(tmp_path)).cost_analysis
    assert (cost.model_calls, cost.input_tokens, cost.cache_read_tokens, cost.output_tokens) == (2, 220, 80, 30)
    assert cost.cost_usd == 0.25
    assert [model.model for model in cost.per_model] == ["model-1"]


def test_a_cost_of_the_whole_is_divided_among_the_model_calls(tmp_path: Path) -> None:
    totals = {"total_prompt_tokens": 300, "total_completion_tokens": 30, "total_cost_usd": 0.9}
    trajectory = Trajectory(final_metrics=totals).asks().says("One.").says("Two.", 200, 20)
    trace = trajectory.read(tmp_path)
    costs = [event.payload["usage"]["cost"]["total"] for event in trace.events if event.event_type == "token_usage"]
    assert costs == pytest.approx([0.3, 0.6])
    assert trace.notes == ["costs of a whole trajectory, divided among its model calls by their tokens: 1"]


def test_tokens_of_the_whole_are_kept_if_no_step_states_any(tmp_path: Path) -> None:
    totals = {"total_prompt_tokens": 300, "total_completion_tokens": 30, "total_cached_tokens": 50, "total_cost_usd": 1}
    trajectory = Trajectory(final_metrics=totals).asks().step("agent", "Done.")
    cost = diagnose(trajectory.write(tmp_path)).cost_analysis
    assert (cost.input_tokens, cost.cache_read_tokens, cost.output_tokens, cost.cost_usd) == (250, 50, 30, 1.0)


def test_metrics_without_any_token_are_unknown_and_not_zero(tmp_path: Path) -> None:
    trajectory = Trajectory().asks().says("Hello.", 0, 0, 0)
    assert diagnose(trajectory.write(tmp_path)).cost_analysis.model_calls_without_usage == 1


@pytest.mark.parametrize(
    ("content", "fields", "error", "exit_code"),
    [
        ("Exit code 127\nbash: foo: command not found" + FAILURE, {}, "exit code 127", 127),
        ("Exit code 1", {}, "exit code 1", 1),
        ("<tool_use_error>Read it first.</tool_use_error>" + FAILURE, {}, "Read it first.", None),
        ("File does not exist." + FAILURE, {}, "File does not exist.", None),
        ("File does not exist.", {"extra": {"tool_result_is_error": True}}, "File does not exist.", None),
        ("1 passed\nExit code 0 is what we want", {}, None, None),
        ("all good", {"extra": {"tool_result_is_error": False}}, None, None),
    ],
)  # fmt: skip
def test_failures_are_recognized_from_the_text_of_a_result(
    tmp_path: Path, content: str, fields: dict[str, Any], error: str | None, exit_code: int | None
) -> None:
    result = only(Trajectory().asks().runs("Bash", {"command": "x"}, content, **fields).read(tmp_path), "tool_output")
    assert (result.error, result.payload.get("exit_code")) == (error, exit_code)
    assert FAILURE not in result.payload["result"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("a\nb\n\n[stdout]\na\nb\n[metadata] {\"noOutputExpected\": false}", "a\nb"),
        ("(no output)\n\n[metadata] {\"noOutputExpected\": false}", "(no output)"),
        ("see below\n\n[stdout]\nsomething else", "see below\n\n[stdout]\nsomething else"),
        ("a line\n[metadata] {is not JSON", "a line\n[metadata] {is not JSON"),
    ],
)  # fmt: skip
def test_output_that_a_converter_repeats_is_left_out(tmp_path: Path, content: str, text: str) -> None:
    trace = Trajectory().asks().runs("Bash", {"command": "x"}, content).read(tmp_path)
    assert only(trace, "tool_output").payload["result"] == text


def test_content_of_several_parts_is_one_text(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"media_type": "image/png", "path": "images/1.png"}}
    parts = [{"type": "text", "text": "What is this?"}, image]
    trajectory = Trajectory("ATIF-v1.6").asks(parts).runs("Read", {"path": "1.png"}, {"content": [image]})
    trace = trajectory.read(tmp_path)
    assert only(trace, "input").payload["text"] == "What is this?\n[image image/png images/1.png]"
    assert only(trace, "tool_output").payload["result"] == "[image image/png images/1.png]"


def test_every_message_of_the_user_begins_an_agent_run(tmp_path: Path) -> None:
    trajectory = Trajectory().asks("One").asks("and two").says("Done.").asks("Three").runs("Bash", {"command": "x"})
    trace = trajectory.read(tmp_path)
    assert [event.agent_run_id for event in trace.events if event.event_type == "input"] == ["turn-1"] * 2 + ["turn-2"]
    assert types(trace).count("agent_end") == 1
    assert trace.events[-1].event_type == "tool_call"


def test_a_notice_of_the_client_is_no_request_of_the_user(tmp_path: Path) -> None:
    notice = "<task-notification>\n<status>completed</status>\n</task-notification>"
    trajectory = Trajectory().asks().says("", extra={"stop_reason": "end_turn"}).asks(notice).says("It runs.")
    trace = trajectory.read(tmp_path)
    assert {event.agent_run_id for event in trace.events} == {"turn-1"}
    assert types(trace).count("agent_end") == 1
    assert trace.notes == ["messages of the system, left out: 1"]


def test_a_run_that_ends_without_a_word_has_ended(tmp_path: Path) -> None:
    trajectory = Trajectory().asks().runs("Bash", {"command": "x"}, "ok").says("", extra={"stop_reason": "end_turn"})
    trace = trajectory.read(tmp_path)
    assert types(trace)[-2:] == ["message_end", "agent_end"]
    assert trace.events[-2].payload["stop_reason"] == "stop"


def test_a_response_without_content_ends_nothing(tmp_path: Path) -> None:
    trace = Trajectory().asks().says("", 0, 0, 0).read(tmp_path)
    assert types(trace) == ["agent_start", "input", "before_provider_request", "token_usage"]


def test_a_subagent_inside_the_file_is_an_agent_run_of_its_own_before_its_result(tmp_path: Path) -> None:
    child = Trajectory("ATIF-v1.7", trajectory_id="child-1").asks("Look.").says("Found it.").document
    del child["session_id"]
    reference = {"content": "Found it.", "subagent_trajectory_ref": [{"trajectory_id": "child-1"}]}
    trajectory = Trajectory("ATIF-v1.7", subagent_trajectories=[child])
    trace = trajectory.asks().runs("Task", {"prompt": "Look."}, reference).says("It is there.").read(tmp_path)
    runs = list(dict.fromkeys(event.agent_run_id for event in trace.events))
    assert runs == ["turn-1", "child-1-turn-1"]
    order = [(event.agent_run_id, event.event_type) for event in trace.events]
    assert order.index(("child-1-turn-1", "agent_end")) < order.index(("turn-1", "tool_output"))
    assert trace.notes == []


def test_a_long_chain_of_subagents_is_read(tmp_path: Path) -> None:
    children = []
    for number in range(1, 400):
        reference = {"content": "x", "subagent_trajectory_ref": {"trajectory_id": f"child-{number + 1}"}}
        child = Trajectory("ATIF-v1.7", trajectory_id=f"child-{number}", session_id=None)
        children.append(child.asks("Look.").runs("Task", {}, reference).document)
    reference = {"content": "x", "subagent_trajectory_ref": {"trajectory_id": "child-1"}}
    trace = Trajectory("ATIF-v1.7", subagent_trajectories=children).asks().runs("Task", {}, reference).read(tmp_path)
    assert types(trace).count("agent_start") == 400


def test_a_subagent_of_a_subagent_is_read(tmp_path: Path) -> None:
    inner = Trajectory("ATIF-v1.7", trajectory_id="inner", session_id=None).asks("Deeper.").says("Here.").document
    outer = Trajectory("ATIF-v1.7", trajectory_id="outer", session_id=None, subagent_trajectories=[inner])
    outer.asks("Look.").runs("Task", {}, {"content": "x", "subagent_trajectory_ref": {"trajectory_id": "inner"}})
    trace = Trajectory("ATIF-v1.7", subagent_trajectories=[outer.document]).asks().says("Hm.").read(tmp_path)
    assert {event.agent_run_id for event in trace.events} == {"turn-1", "outer-turn-1", "inner-turn-1"}


def test_a_subagent_in_another_file_is_named(tmp_path: Path) -> None:
    reference = {"content": "x", "subagent_trajectory_ref": [{"session_id": "a", "trajectory_path": "../child.json"}]}
    trace = Trajectory().asks().runs("Task", {}, reference).read(tmp_path)
    assert trace.notes == ["trajectories of subagents in other files, not read: 1 (../child.json)"]


def test_steps_of_a_sidechain_belong_to_another_agent_run(tmp_path: Path) -> None:
    aside: dict[str, Any] = {"extra": {"is_sidechain": True}}
    trajectory = Trajectory().asks().says("I delegate.").step("user", "Look.", **aside).says("Found.", **aside)
    trace = trajectory.says("Done.").read(tmp_path)
    assert [event.agent_run_id for event in trace.events if event.event_type == "agent_start"] == [
        "turn-1",
        "sidechain-turn-1",
    ]


def test_steps_of_the_system_and_copied_steps_are_left_out_with_a_note(tmp_path: Path) -> None:
    trajectory = Trajectory("ATIF-v1.5").step("system", "You are helpful.").says("Old.", is_copied_context=True)
    trace = trajectory.asks().says("New.").read(tmp_path)
    assert [event.payload["text"] for event in trace.events if event.event_type == "message_end"] == ["New."]
    assert trace.notes == [
        "steps copied from an earlier trajectory, left out: 1",
        "messages of the system, left out: 1",
    ]
    assert trace.not_understood == 0


def test_a_compaction_is_recognized(tmp_path: Path) -> None:
    extra = {"context_management": {"type": "compaction"}}
    trace = Trajectory("ATIF-v1.7").asks().step("system", "Summary", extra=extra).says("On.").read(tmp_path)
    assert only(trace, "compaction_end").payload["summary"] == "Summary"


def test_what_is_not_understood_is_counted(tmp_path: Path) -> None:
    trajectory = Trajectory().asks().says("Hello.").step("alien", "x")
    trajectory.document["steps"] += [7, {"source": "agent", "tool_calls": [1], "observation": {"results": ["x", {}]}}]
    trace = trajectory.read(tmp_path)
    assert trace.not_understood == 5
    assert trace.notes == [
        "steps that could not be read: 2 (3: source alien, 4: not an object)",
        "tool calls and results that could not be read: 2",
        "results without a tool call: 1 (step None)",
    ]


@pytest.mark.parametrize("steps", [[], [1, 2], [{}], [{"source": "system", "message": "x"}], [{"source": "user"}]])
def test_a_trajectory_without_work_has_no_trust_score(tmp_path: Path, steps: list[Any]) -> None:
    diagnosis = diagnose(Trajectory(steps=steps).write(tmp_path))
    assert (diagnosis.trust_score, diagnosis.readiness) == (None, "unknown")


def test_a_result_without_an_id_belongs_to_the_last_call_without_a_result(tmp_path: Path) -> None:
    calls = [{"tool_call_id": f"c{n}", "function_name": "bash_command", "arguments": {}} for n in range(2)]
    trajectory = Trajectory().asks().says("x", tool_calls=calls, observation={"results": [{"content": "screen"}]})
    assert only(trajectory.read(tmp_path), "tool_output").tool_call_id == "c1"


def test_a_trajectory_without_times_is_visibly_in_no_real_time(tmp_path: Path) -> None:
    trajectory = Trajectory().asks().says("Hello.")
    for step in trajectory.document["steps"]:
        del step["timestamp"]
    trace = trajectory.read(tmp_path)
    assert {event.timestamp[:4] for event in trace.events} == {"2000"}
    assert trace.notes == ["traces without any time, placed in the year 2000: 1"]


def test_a_response_that_was_broken_off_and_requested_again_called_no_tool(tmp_path: Path) -> None:
    trajectory = Trajectory().asks().says("I look.", 0, 0, 0).runs("Bash", {"command": "ls"})
    trace = trajectory.says("I look.").runs("Bash", {"command": "ls"}, "a.txt").says("One file.").read(tmp_path)
    assert (types(trace).count("token_usage"), types(trace).count("message_end")) == (3, 2)
    assert types(trace).count("tool_call") == types(trace).count("tool_output") == 1
    assert trace.notes == ["responses that were broken off and requested again, left out: 1"]


def test_a_tool_call_at_the_end_of_the_file_is_placed_by_its_time(tmp_path: Path) -> None:
    trajectory = Trajectory().asks().says("I try.").says("Done.").runs("Bash", {"command": "x"})
    trajectory.document["steps"][-1]["timestamp"] = "2026-04-01T15:00:10.500Z"
    trace = trajectory.read(tmp_path)
    assert types(trace)[-2:] == ["message_end", "agent_end"]
    assert types(trace).index("tool_call") < types(trace).index("agent_end")
    assert trace.notes == ["steps with a time before the preceding step, placed by their time: 1 (step 4)"]


def test_a_file_of_several_lines_has_one_trace_per_line(tmp_path: Path) -> None:
    path = tmp_path / "trajectories.jsonl"
    lines = [json.dumps(Trajectory(session_id=f"s-{n}").asks().says("Hello.").document) for n in range(2)]
    path.write_text("\n".join([*lines, "broken"]))
    assert [(trace.trace_id, bool(trace.events)) for trace in read_traces(path)] == [
        ("s-0", True),
        ("s-1", True),
        ("line-3", False),
    ]


def test_a_later_version_is_read_with_a_note(tmp_path: Path) -> None:
    trace = Trajectory("ATIF-v2.0").asks().says("Hello.").read(tmp_path)
    assert trace.notes == ["files of an unknown version of the format: 1 (ATIF-v2.0)"]
    assert "message_end" in types(trace)


def test_an_imported_trajectory_is_diagnosed_like_any_run(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    trajectory = Trajectory().asks()
    for number in range(4):
        call = {"command": "make test"}
        trajectory.says("Again.").runs("Bash", call, "Exit code 2\nno rule" + FAILURE, call_id=f"c{number}")
    path = trajectory.says("All tests pass.").write(tmp_path)
    assert detect_format(path) == "atif"
    assert cli("import", path).code == ExitCode.OK
    found = {finding["type"] for finding in runs.record("run_001")["failure_analysis"]["findings"]}
    assert "false_success_claim" in found
    assert json.loads(cli("diagnose", path, "--json").out)["trust_score"] == runs.record("run_001")["trust_score"]


FIELDS = (
    *("source", "message", "tool_calls", "observation", "results", "content", "metrics", "extra", "text", "timestamp"),
    *("subagent_trajectory_ref", "trajectory_id", "tool_call_id", "function_name", "arguments", "prompt_tokens"),
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner | st.sampled_from(["agent", "user", "system"]),
            max_size=6,
        )
    ),
    max_leaves=20,
)


@given(st.lists(values, max_size=5), values, values, values)
def test_anything_in_a_trajectory_is_read_without_an_error(
    steps: list[Any], agent: Any, metrics: Any, subagents: Any
) -> None:
    document = Trajectory(steps=steps, agent=agent, final_metrics=metrics, subagent_trajectories=subagents)
    with tempfile.TemporaryDirectory() as folder:
        trace = document.read(Path(folder))
        assert [event.event_id for event in trace.events] == sorted({event.event_id for event in trace.events})
        diagnose(Path(folder, "trajectory.json"))


def test_a_trajectory_that_was_broken_off_is_no_early_end_of_the_agent(tmp_path: Path) -> None:
    def finds(trajectory: Trajectory) -> list[str]:
        found = diagnose(trajectory.write(tmp_path)).failure_analysis.findings
        return [finding.type for finding in found]

    def begun() -> Trajectory:
        return Trajectory().asks("Build it.").says("Let me build it.").runs("Bash", {"command": "make"}, "built")

    assert finds(begun()) == []
    assert finds(begun().runs("Bash", {"command": "make test"}, call_id="c2")) == []
    assert finds(begun().says("", completion=0, extra={"stop_reason": "end_turn"})) == ["premature_stop"]
