"""Limits that act while a real OpenClaw works: a loop is stopped, and in a gateway only the agent run that loops."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from openclaw.rig import LOCAL_TURN, Gateway, Rig, rig

from critiqor.errors import ExitCode
from critiqor.lab.model.model_script import Script
from critiqor.lab.model.scripted_model import ScriptedModel, Step, ToolUse

SLOW = "sleep 0.5; echo same"
POLICY = '[limits]\nrepeats = { max = 8, action = "stop" }\n'
LAST_CALL = 12
"""The call by which a loop must be stopped."""


def loop(calls: int) -> tuple[Step, ...]:
    steps = [Step(tools=(ToolUse(f"call_{number}", "exec", {"command": SLOW}),)) for number in range(calls)]
    return (*steps, Step(text="Done."))


def test_a_loop_is_stopped_by_its_limit_sealed_and_explained(version: str, tmp_path: Path) -> None:
    with rig(tmp_path, version, loop(60)) as made:
        (tmp_path / "policy.toml").write_text(POLICY)
        done = made.monitor(*LOCAL_TURN, options=("--policy", str(tmp_path / "policy.toml")))
        assert done.returncode == ExitCode.GATE_FAILED, done.stderr
        assert "Critiqor ended OpenClaw because of limits.repeats: 9 repeats (exec)" in done.stderr
        assert made.openclaw_processes() == []
        live = json.loads((made.runs / "run_001" / "live.json").read_text())
        answered = made.finalize()
    assert 10 <= len(made.events("tool_call")) <= LAST_CALL
    [error] = made.events("error_event")
    assert (error["payload"]["reason"], error["payload"]["limit"]) == ("limit", "repeats")
    assert answered["diagnosis"]["outcome"]["state"] == "interrupted"
    titles = [finding["title"] for finding in answered["diagnosis"]["failure_analysis"]["findings"]]
    assert any("limits.repeats" in title for title in titles)
    assert [limit["name"] for limit in live["limits"]] == ["repeats"]


def test_at_most_one_model_call_completes_after_a_limit_on_the_cost_is_exceeded(version: str, tmp_path: Path) -> None:
    steps = [Step(tools=(ToolUse(f"call_{n}", "exec", {"command": f"echo {n}"}),), delay_s=1.0) for n in range(30)]
    with rig(tmp_path, version, steps) as made:
        (tmp_path / "policy.toml").write_text('[limits]\ncost_usd = { max = 0.003, action = "stop" }\n')
        done = made.monitor(*LOCAL_TURN, options=("--policy", str(tmp_path / "policy.toml")))
        assert done.returncode == ExitCode.GATE_FAILED, done.stderr
        made.finalize()
    costs = [
        event["payload"]["usage"]["cost"]["total"] for event in made.events("token_usage") if event["status"] == "ok"
    ]
    exceeding = next(number for number in range(1, len(costs) + 1) if sum(costs[:number]) > 0.003)
    assert exceeding <= len(costs) <= exceeding + 1
    [error] = made.events("error_event")
    assert error["payload"]["limit"] == "cost_usd"


def test_in_a_gateway_only_the_agent_run_in_a_loop_is_aborted(version: str, tmp_path: Path) -> None:
    quiet = (
        Step(tools=(ToolUse("call_0", "exec", {"command": "sleep 1; date"}),), delay_s=3),
        Step(text="All is well.", delay_s=3),
    )
    messages = {"loop": loop(60), "first": quiet, "second": quiet}
    scripts = [Script(message, steps) for message, steps in messages.items()]
    with ScriptedModel(scripts=scripts) as model:
        made = Rig(tmp_path, version, model, None, 128_000)
        (tmp_path / "policy.toml").write_text(POLICY)
        gateway = Gateway(made, options=("--policy", str(tmp_path / "policy.toml")))
        ended: dict[str, int] = {}

        def send(message: str) -> None:
            session = ("--agent", "main", "--session-key", f"agent:main:{message}")
            ended[message] = made.openclaw("agent", *session, "--message", message).returncode

        clients = [threading.Thread(target=send, args=(message,)) for message in messages]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        gateway.stop()
        answered = made.finalize()
    assert (ended["first"], ended["second"]) == (0, 0)
    [limit] = made.events("limit_exceeded")
    assert limit["payload"]["result"] == "Critiqor had its agent run aborted"
    assert limit["payload"]["session_key"] == "agent:main:loop"
    loops = [event for event in made.events("tool_call") if event["session_key"] == "agent:main:loop"]
    assert 10 <= len(loops) < 60
    titles = [finding["title"] for finding in answered["diagnosis"]["failure_analysis"]["findings"]]
    assert any(title.startswith("An agent run exceeded a limit: limits.repeats") for title in titles)
    sessions = {session["session_key"]: session for session in answered["diagnosis"]["sessions"]}
    assert {sessions[f"agent:main:{name}"]["readiness"] for name in ("first", "second")} == {"ready"}
