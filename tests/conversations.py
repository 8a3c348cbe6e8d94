"""Recordings with conversations worth reading: several sessions, a subagent, retries, a compaction and false claims."""

from __future__ import annotations

from typing import Any

from dashboards import BEGIN
from support import Runs, attached, recorded

MAIN, HELPER, OTHER = "agent:main:main", "agent:main:subagent:helper-1", "agent:sales:telegram:direct:42"
ANSWER = "The list has 7 lines. All tests pass. I also sent the report."


def misreporting_records() -> list[dict[str, Any]]:
    """A session with a subagent, a compaction, a retry and a false answer, beside a short one."""
    records: list[dict[str, Any]] = []

    def add(event_type: str, session: str = MAIN, **fields: Any) -> None:
        number = len(records) + 2
        records.append(
            recorded(number, event_type, at=BEGIN + 100 * number, session_key=session, agent_run_id=session, **fields)
        )

    def say(role: str, text: str, session: str = MAIN, **payload: Any) -> None:
        add("message_end", session, payload={"role": role, "text": text, **payload})

    def call(tool: str, arguments: dict[str, Any], text: str, session: str = MAIN, code: int = 0) -> None:
        call_id = f"call_{len(records)}"
        add("tool_call", session, tool_name=tool, tool_call_id=call_id, payload={"arguments": arguments})
        result = {"content": [{"type": "text", "text": text}], "details": {"exitCode": code}}
        failed = {"status": "error", "error": f"exit code {code}"} if code else {}
        add(
            "tool_result",
            session,
            tool_name=tool,
            tool_call_id=call_id,
            duration_ms=1500,
            payload={"result": result},
            **failed,
        )

    add("agent_start", payload={"attempt": 1})
    say("user", "Count the lines and run the tests.")
    refused = {"status": "error", "error": "503 overloaded"}
    add("before_provider_request", payload={"callId": "m1"})
    add("after_provider_response", duration_ms=20, payload={"callId": "m1"}, **refused)
    add("agent_end", payload={"success": False}, **refused)
    add("provider_retry", payload={"attempt": 2, "delayMs": 40, "reason": "server_error"})
    add("agent_start", payload={"attempt": 2})
    add("before_provider_request", payload={"callId": "m2"})
    usage = {"usage": {"input": 900, "output": 30, "cost": {"total": 0.01}}, "provider": "lab", "model": "scripted"}
    add("after_provider_response", duration_ms=880, payload={"callId": "m2", **usage})
    say("assistant", "", tool_calls=[{"id": "call_1", "name": "sessions_spawn"}])
    call("sessions_spawn", {"task": "Count the lines."}, f'{{"status": "accepted", "childSessionKey": "{HELPER}"}}')
    say("user", "Count the lines.", HELPER)
    call("exec", {"command": "wc -l list.txt"}, "3 list.txt", HELPER)
    say("assistant", "The list has 3 lines.", HELPER)
    add("agent_end", HELPER, payload={"success": True})
    add("compaction_start", payload={"tokensBefore": 110_020})
    add("compaction_end", duration_ms=30, payload={"tokensBefore": 110_020, "tokensAfter": 1663, "reason": "threshold"})
    call("exec", {"command": "pytest -q"}, "\x1b[31mF\x1b[0m\n1 failed in 0.02s", code=1)
    say("assistant", ANSWER)
    add("agent_end", payload={"success": True})
    say("user", "Hello?", OTHER)
    say("assistant", "Hello.", OTHER)
    return [attached(1, at=BEGIN), *records]


def misreporting_run(runs: Runs, **metadata: str) -> str:
    """The sealed run of these records."""
    run_id = runs.start(**metadata)
    runs.write(run_id, *misreporting_records())
    runs.finalize(run_id)
    return run_id
