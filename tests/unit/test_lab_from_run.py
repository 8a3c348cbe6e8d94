"""A recorded run becomes a scenario: steps of the model, results of tools, and expected findings."""

from __future__ import annotations

from typing import Any

import pytest
from support import Runs, attached, recorded

from critiqor.errors import CritiqorError
from critiqor.lab.from_run import DraftedScenario, scenario_from_run
from critiqor.lab.scenario import Kill
from critiqor.lab.scenario_file import parse_scenario
from critiqor.lab.scenario_text import scenario_text
from critiqor.session import append_event_to_run


class Tape:
    """Records of one run, as a recorder writes them."""

    def __init__(self) -> None:
        self.records = [attached()]

    def add(self, event_type: str, **fields: Any) -> Tape:
        self.records.append(recorded(len(self.records) + 1, event_type, **fields))
        return self

    def user(self, text: str, **fields: Any) -> Tape:
        return self.add("agent_start", **fields).add("input", payload={"role": "user", "text": text}, **fields)

    def model(self, text: str = "", error: str | None = None, stop_reason: str = "stop", **fields: Any) -> Tape:
        self.add("before_provider_request", **fields)
        usage = None if error else {"input": 900, "cacheRead": 100, "output": 7}
        known = {"usage": usage, "provider": "lab", "model": "scripted"}
        self.add("token_usage", status="error" if error else "ok", error=error, payload=known, **fields)
        said = {"role": "assistant", "text": text, "stop_reason": stop_reason, "tool_calls": [{}] if not text else []}
        return self.add("message_end", payload=said, **fields)

    def tool(self, name: str, arguments: Any, text: Any = "ok", error: str | None = None, **details: Any) -> Tape:
        call = {"tool_name": name, "tool_call_id": f"call_{len(self.records)}"}
        self.add("tool_call", payload={"arguments": arguments}, **call)
        result = {"content": [{"type": "text", "text": text}], "details": details}
        status = "error" if error else "ok"
        return self.add("tool_output", payload={"result": result}, status=status, error=error, **call)

    def drafted(self, runs: Runs) -> DraftedScenario:
        runs.seal(*self.records)
        drafted = scenario_from_run("run_001", runs.folder)
        written = scenario_text(drafted.scenario, "\n".join(drafted.notes))
        assert parse_scenario(written.encode(), "run_001") == drafted.scenario
        return drafted


def test_what_the_model_said_and_what_its_tools_answered_become_the_script(runs: Runs) -> None:
    tape = Tape().user("[Mon 2026-11-16 12:00 UTC] Fix the test.").model()
    tape.tool("exec", {"command": "pytest -q"}, "1 failed\n\n(Command exited with code 1)", "exit code 1", exitCode=1)
    tape.model().tool("read", {"path": "notes/a.txt"}, "apples\n").model("All tests pass.").add("agent_end")
    scenario, notes = tape.drafted(runs)
    [turn] = scenario.turns
    assert turn.message == "Fix the test."
    assert [(step.text, [tool.name for tool in step.tools]) for step in turn.steps] == [
        ("", ["exec"]),
        ("", ["read"]),
        ("All tests pass.", []),
    ]
    assert {(step.input_tokens, step.output_tokens) for step in turn.steps} == {(1000, 7)}
    [command] = scenario.world.commands
    assert (command.line, command.output, command.exit_code) == ("pytest -q", "1 failed\n", 1)
    assert scenario.world.files == {"notes/a.txt": "apples\n"}
    assert scenario.expect.primary == "false_success_claim"
    assert len(notes) == 1, "all of it can be played back"


@pytest.mark.parametrize(
    ("error", "played"),
    [
        ("HTTP 401 invalid api key", (401, "done")),
        ("HTTP 402 insufficient balance", (402, "done")),
        ("429 rate limit", (429, "done")),
        ("503 overloaded", (500, "done")),
        ("maximum context length exceeded", (400, "done")),
        ("unexpected token in JSON", (200, "malformed")),
        ("socket hang up, connection lost", (200, "disconnect")),
        ("the stream stalled", (200, "stall")),
        ("no idea", (500, "done")),
    ],
)
def test_a_failed_model_call_fails_again_in_the_same_way(runs: Runs, error: str, played: tuple[int, str]) -> None:
    tape = Tape().user("Say hello.").model(error=error, stop_reason="error").model("Hello.").add("agent_end")
    scenario, _ = tape.drafted(runs)
    first, second = scenario.turns[0].steps
    assert (first.status, first.ends, first.error) == (*played, error)
    assert second.text == "Hello."
    assert (scenario.provider.timeout_s is not None) == (played[1] == "stall")


def test_several_runs_become_turns_and_a_subagent_is_one_that_nobody_talks_to(runs: Runs) -> None:
    tape = Tape().user("Say hello.").model("Hello.")
    child = {"agent_run_id": "run-2", "session_key": "agent:main:subagent:77"}
    tape.user("Count to three.", **child).model("1 2 3", **child)
    other = {"agent_run_id": "run-3", "session_key": "agent:main:Telegram_Ada"}
    tape.user("Say hello.", **other).model("Hello again.", **other)
    scenario, _ = tape.drafted(runs)
    assert [(turn.session, turn.spawned) for turn in scenario.turns] == [
        ("main", False),
        ("77", True),
        ("telegram-ada", False),
    ]
    assert len({turn.message for turn in scenario.turns}) == 3, "the model must be able to tell them apart"


def test_what_a_tool_answered_that_the_loop_does_not_have_is_answered_again(runs: Runs) -> None:
    tape = Tape().user("Look it up.").model()
    tape.tool("web_search", {"query": "fences"}, "many").tool("web_search", {"query": "gates"}, "", "no network")
    tape.tool("frobnicate", {}, "Tool frobnicate not found", "Tool frobnicate not found")
    scenario, _ = tape.model("There are many.").drafted(runs)
    [tool] = scenario.world.tools
    assert tool.name == "web_search"
    assert [(answer.text, answer.error) for answer in tool.answers] == [("many", False), ("no network", True)]
    assert scenario.on == ("embedded",), "nothing else can offer it"


def test_a_tool_that_was_called_through_another_one_is_called_by_its_own_name(runs: Runs) -> None:
    tape = Tape().user("Which colour?").model()
    tape.tool("tool_call", {"id": "memory_search", "args": {"query": "colour"}}, '{"results": []}')
    scenario, _ = tape.model("I do not know.").drafted(runs)
    [use] = scenario.turns[0].steps[0].tools
    assert (use.name, use.arguments) == ("memory_search", {"query": "colour"})
    assert scenario.world.tools == ()
    assert scenario.config == {"tools": {"toolSearch": False}}


@pytest.mark.parametrize("agent_run_id", ["r", "r:compaction:7"])
def test_a_request_for_a_summary_is_no_step_of_the_agent(runs: Runs, agent_run_id: str) -> None:
    tape = Tape().user("Go on.", agent_run_id="r")
    asked = {"callId": "r:compaction:7:model:1", "usage": {"input": 9, "output": 3}}
    tape.add("before_provider_request", agent_run_id=agent_run_id, payload=asked)
    tape.add("token_usage", agent_run_id=agent_run_id, payload=asked)
    tape.model("Done.", agent_run_id="r").add("agent_end", agent_run_id="r")
    scenario, notes = tape.drafted(runs)
    [turn] = scenario.turns
    assert [step.text for step in turn.steps] == ["Done."]
    assert scenario.summary
    assert any("summary" in note for note in notes)


def test_what_cannot_be_played_back_is_noted(runs: Runs) -> None:
    tape = Tape().user("Look it up.").model()
    tape.tool("read", {"path": "/etc/hostname"}, "host")
    tape.tool("exec", {"command": "sleep 30"}, "Aborted", "Aborted")
    tape.tool("exec", {"command": "cat log"}, {"cut": True, "size": 9999, "excerpt": "line 1"}, exitCode=0)
    scenario, notes = tape.model("Here it is.").drafted(runs)
    text = "\n".join(notes)
    for what in ("/etc/hostname", "sleep 30", "only the beginning of the output of exec"):
        assert what in text
    replayed = [(command.output, command.exit_code) for command in scenario.world.commands]
    assert replayed == [("Aborted", 1), ("line 1", 0)], "no recorded command is ever run"


def test_a_command_that_never_came_back_hangs_again_and_is_killed_where_it_was(runs: Runs) -> None:
    tape = Tape().user("Deploy it.").model()
    call = {"tool_name": "exec", "tool_call_id": "call_9", "payload": {"arguments": {"command": "sh deploy.sh"}}}
    tape.add("tool_call", **call)
    run_id = runs.start()
    runs.write(run_id, *tape.records)
    append_event_to_run(run_id, {"event_type": "process_end", "payload": {"exit_code": 137}}, runs_dir=runs.folder)
    runs.finalize(run_id)
    scenario, _ = scenario_from_run(run_id, runs.folder)
    [command] = scenario.world.commands
    assert (command.line, command.delay_s > 60) == ("sh deploy.sh", True)
    assert scenario.world.kill == Kill(request=1, during="tool")


@pytest.mark.parametrize(
    ("reason", "exit_code", "kill", "limited"),
    [("timeout", 124, None, True), ("interrupted", 130, Kill(request=1, during="tool", signal="INT"), False)],
)
def test_a_command_that_was_ended_with_its_run_hangs_until_that_is_ended_again(
    runs: Runs, reason: str, exit_code: int, kill: Kill | None, limited: bool
) -> None:
    tape = Tape().user("Wait for it.").model()
    tape.tool("exec", {"command": "sleep 20"}, "Aborted", error="aborted").add("agent_end", status="error")
    run_id = runs.start()
    runs.write(run_id, *tape.records)
    for event_type, payload in (("process_end", {"exit_code": exit_code}), ("error_event", {"reason": reason})):
        append_event_to_run(run_id, {"event_type": event_type, "payload": payload}, runs_dir=runs.folder)
    runs.finalize(run_id)
    scenario, _ = scenario_from_run(run_id, runs.folder)
    assert [(command.line, command.delay_s > 60) for command in scenario.world.commands] == [("sleep 20", True)]
    assert (scenario.world.kill, scenario.world.timeout_s is not None) == (kill, limited)
    assert (scenario.expect.absent, scenario.expect.outcome) in (
        (("*",), "timed_out"),
        (("*",), "interrupted"),
    )


def test_a_file_that_the_agent_wrote_itself_is_not_there_from_the_start(runs: Runs) -> None:
    tape = Tape().user("Write it.").model().tool("write", {"path": "a.txt", "content": "x"}).model()
    scenario, _ = tape.tool("read", {"path": "a.txt"}, "x").model("It says x.").drafted(runs)
    assert scenario.world.files == {}


def test_a_run_without_an_agent_is_refused(runs: Runs) -> None:
    runs.seal(attached())
    with pytest.raises(CritiqorError, match="no model call"):
        scenario_from_run("run_001", runs.folder)
