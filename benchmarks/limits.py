"""Limits on a real OpenClaw: how soon a loop, an expensive agent, and one agent run of a gateway are stopped.

    python benchmarks/limits.py [--version V] [--json]

Three runs with a scripted model: a loop of 60 calls of half a second each with at most 8 repeats; model calls of one
second with a limit on the cost; and a gateway with three sessions, of which one is in the same loop.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from openclaw.install import VERSIONS
from openclaw.rig import LOCAL_TURN, Gateway, Rig, rig

from critiqor.lab.model.model_script import Script
from critiqor.lab.model.scripted_model import ScriptedModel, Step, ToolUse
from critiqor.model import ms_from_iso

REPEATS = '[limits]\nrepeats = { max = 8, action = "stop" }\n'
MAX_USD = 0.003
COST = f'[limits]\ncost_usd = {{ max = {MAX_USD}, action = "stop" }}\n'
LOOP = (
    *(Step(tools=(ToolUse(f"call_{n}", "exec", {"command": "sleep 0.5; echo same"}),)) for n in range(60)),
    Step(text="Done."),
)
QUIET = (
    Step(tools=(ToolUse("call_0", "exec", {"command": "sleep 1; date"}),), delay_s=3),
    Step(text="All is well.", delay_s=3),
)
EXPENSIVE = [Step(tools=(ToolUse(f"call_{n}", "exec", {"command": f"echo {n}"}),), delay_s=1.0) for n in range(30)]
MAX_CALL, MAX_FURTHER, MAX_SECONDS = 12, 1, 4.0


def stopped(version: str, steps: Sequence[Step], policy: str) -> tuple[Rig, dict[str, Any]]:
    """Record one agent run with a policy, and finalize it. Return the rig and the diagnosis."""
    folder = Path(tempfile.mkdtemp())
    with rig(folder, version, steps) as made:
        (folder / "policy.toml").write_text(policy)
        done = made.monitor(*LOCAL_TURN, options=("--policy", str(folder / "policy.toml")))
        if done.returncode != 3:
            raise SystemExit(f"the limit did not stop OpenClaw:\n{done.stderr}")
        return made, made.finalize()["diagnosis"]


def loop(version: str) -> dict[str, Any]:
    made, diagnosis = stopped(version, LOOP, REPEATS)
    [error] = made.events("error_event")
    titles = [finding["title"] for finding in diagnosis["failure_analysis"]["findings"]]
    return {
        "calls": len(made.events("tool_call")),
        "reason": error["payload"]["limit"],
        "diagnosed": any("limits.repeats" in title for title in titles),
    }


def cost(version: str) -> dict[str, Any]:
    made, _ = stopped(version, EXPENSIVE, COST)
    costs = [
        event["payload"]["usage"]["cost"]["total"] for event in made.events("token_usage") if event["status"] == "ok"
    ]
    exceeding = next(number for number in range(1, len(costs) + 1) if sum(costs[:number]) > MAX_USD)
    return {"further_model_calls": len(costs) - exceeding}


def gateway(version: str) -> dict[str, Any]:
    folder = Path(tempfile.mkdtemp())
    messages = {"loop": LOOP, "first": QUIET, "second": QUIET}
    with ScriptedModel(scripts=[Script(message, steps) for message, steps in messages.items()]) as model:
        made = Rig(folder, version, model, None, 128_000)
        (folder / "policy.toml").write_text(REPEATS)
        served = Gateway(made, options=("--policy", str(folder / "policy.toml")))
        ended: dict[str, int] = {}

        def send(message: str) -> None:
            session = ("--agent", "main", "--session-key", f"agent:main:{message}")
            ended[message] = made.openclaw("agent", *session, "--message", message).returncode

        clients = [threading.Thread(target=send, args=(message,)) for message in messages]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        served.stop()
        made.finalize()
    live = json.loads((made.runs / "run_001" / "live.json").read_text())
    exceeded = ms_from_iso(live["limits"][0]["at"])
    [aborted] = made.events("limit_exceeded")
    of_loop = [event for event in made.events("agent_end") if event["session_key"] == "agent:main:loop"]
    at = [ms_from_iso(event["timestamp"]) for event in (aborted, *of_loop)]
    assert exceeded is not None and at[0] is not None and at[-1] is not None
    return {
        "result": aborted["payload"]["result"],
        "seconds_to_end": (at[-1] - exceeded) / 1000,
        "seconds_to_answer": (at[0] - exceeded) / 1000,
        "calls": sum(event["session_key"] == "agent:main:loop" for event in made.events("tool_call")),
        "others": [ended["first"], ended["second"]],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", choices=VERSIONS, default=VERSIONS[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    version = options.version
    figures = {"version": version, "loop": loop(version), "cost": cost(version), "gateway": gateway(version)}
    if options.json:
        print(json.dumps(figures))
        return
    looped, served = figures["loop"], figures["gateway"]
    print(f"OpenClaw {version}")
    print(
        f"loop of 60 calls: stopped at call {looped['calls']} (at most {MAX_CALL}), reason in the evidence: "
        f"{looped['reason']}, in the diagnosis: {looped['diagnosed']}"
    )
    print(f"limit on the cost: {figures['cost']['further_model_calls']} further model calls (at most {MAX_FURTHER})")
    print(
        f"gateway with three sessions: {served['result']}; its end {served['seconds_to_end']:.1f} s after the limit "
        f"(at most {MAX_SECONDS:g}), OpenClaw's answer {served['seconds_to_answer']:.1f} s, {served['calls']} calls; "
        f"exit codes of the others {served['others']}"
    )


if __name__ == "__main__":
    main()
