"""While a real OpenClaw works: limits stop a loop, in a gateway one agent run only, and spans are streamed."""

from __future__ import annotations

import json
import threading
from pathlib import Path

from collectors import collector
from openclaw.rig import LOCAL_TURN, Gateway, Rig, rig
from otlp import ReadTrace

from critiqor.errors import ExitCode
from critiqor.exporters.otlp.evaluations import EVALUATION
from critiqor.lab.model.model_script import Script
from critiqor.lab.model.scripted_model import ScriptedModel, Step, ToolUse

SLOW = "sleep 0.5; echo same"
POLICY = '[limits]\nrepeats = { max = 8, action = "stop" }\n'
LAST_CALL = 12
"""The call by which a loop must be stopped."""


def loop(calls: int) -> tuple[Step, ...]:
    steps = [Step(tools=(ToolUse(f"call_{number}", "exec", {"command": SLOW}),)) for number in range(calls)]
    return (*steps, Step(text="Done."))


def test_a_loop_is_stopped_by_its_limit_sealed_and_explained(tmp_path: Path) -> None:
    with rig(tmp_path, "2026.9.6", loop(60)) as made:
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
    # The stop can come while the usage of the last call is still waited for: then its cost is not known.
    usages = [event["payload"]["usage"] for event in made.events("token_usage") if event["status"] == "ok"]
    assert all(usages[:-1])
    costs = [usage["cost"]["total"] if usage else 0.0 for usage in usages]
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


def test_the_spans_of_a_real_run_arrive_while_it_works_and_have_its_calls_tokens_and_findings(
    tmp_path: Path,
) -> None:
    with collector() as receiver, rig(tmp_path, "2026.9.6", loop(12)) as made:
        options = ("--otlp-endpoint", receiver.url, "--otlp-content")
        done = made.monitor(*LOCAL_TURN, options=options)
        assert done.returncode == 0, done.stderr
        answered = made.finalize()
    batches = [ReadTrace(body) for body in receiver.bodies]
    assert "run run_001" not in {span.name for span in batches[0].spans}, "the first came before the end"
    live = ReadTrace(*receiver.bodies)
    assert len(live.all("execute_tool exec")) == len(made.events("tool_call")) == 12
    cost = answered["diagnosis"]["cost_analysis"]
    chats = [span for span in live.spans if span.name.startswith("chat")]
    assert len(chats) == cost["model_calls"]
    read = ("input_tokens", "cache_read_tokens", "cache_write_tokens")
    assert sum(span.attributes["gen_ai.usage.input_tokens"] for span in chats) == sum(cost[name] for name in read)
    findings = {finding["type"] for finding in answered["diagnosis"]["failure_analysis"]["findings"]}
    streamed = {event["gen_ai.evaluation.name"] for event in live.named("run run_001").of(EVALUATION)}
    assert findings <= streamed and "tool_loop" in streamed
