"""A stand-in for Claude Code that speaks enough of its protocol for OpenClaw's `claude-cli` backend.

It reads and writes JSON lines, plays `STANDIN_TURN` (a JSON list of tool calls), answers with `STANDIN_ANSWER`, and
keeps a transcript where Claude Code does, unless `STANDIN_TRANSCRIPT` is empty. `STANDIN_ASKS` says how it asks for
permission: by `hook`, `both` or `never`.
"""

from __future__ import annotations

import json
import os
import re
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MODEL = "claude-sonnet-5"
USAGE = {"input_tokens": 10, "output_tokens": 7, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 0}


class StandIn:
    """One process of Claude Code."""

    def __init__(self, arguments: list[str]) -> None:
        names = [name for name in ("--session-id", "--resume") if name in arguments]
        self.session = arguments[arguments.index(names[0]) + 1] if names else str(uuid.uuid4())
        self.hooks: dict[str, Any] = {}
        self.answers: dict[str, Any] = {}
        folder = re.sub(r"[^A-Za-z0-9]", "-", str(Path.cwd()))
        self.transcript = Path.home() / ".claude" / "projects" / folder / f"{self.session}.jsonl"
        self.transcript.parent.mkdir(parents=True, exist_ok=True)

    def run(self) -> None:
        for line in iter(sys.stdin.readline, ""):
            self.take(json.loads(line))

    def take(self, message: dict[str, Any]) -> None:
        if message["type"] == "control_response":
            self.answers[message["response"]["request_id"]] = message["response"]
        elif message["type"] == "control_request":
            self.hooks |= message["request"].get("hooks") or {}
            known: dict[str, Any] = {"commands": [], "models": [], "account": {}}
            response = {"subtype": "success", "request_id": message["request_id"], "response": known}
            self.write({"type": "control_response", "response": response})
        elif message["type"] == "user":
            self.save("user", message["message"], None)
            self.play()

    def play(self) -> None:
        self.write({"type": "system", "subtype": "init", "tools": ["Bash"], "model": MODEL, "cwd": str(Path.cwd())})
        for call in json.loads(os.environ["STANDIN_TURN"]):
            self.use(call, None)
        answer = os.environ["STANDIN_ANSWER"]
        self.say([{"type": "text", "text": answer}], None, "end_turn")
        facts = {"subtype": "success", "is_error": False, "num_turns": 1, "terminal_reason": "end_turn"}
        self.write({"type": "result", "result": answer, "usage": USAGE, "total_cost_usd": 0.01, **facts})

    def use(self, call: dict[str, Any], parent: str | None) -> None:
        """Call a tool; the calls in `inside` are those of its subagent."""
        call_id, tool, arguments = f"toolu_{uuid.uuid4().hex[:12]}", call["tool"], call["input"]
        self.say([{"type": "tool_use", "id": call_id, "name": tool, "input": arguments}], parent, None)
        asks = os.environ.get("STANDIN_ASKS", "hook")
        request = {"tool_name": tool, "tool_use_id": call_id}
        for hook in self.hooks.get("PreToolUse") or [] if asks != "never" else []:
            for callback in hook["hookCallbackIds"]:
                seen = {"hook_event_name": "PreToolUse", "session_id": self.session, "tool_input": arguments, **request}
                self.ask({"subtype": "hook_callback", "callback_id": callback, "tool_use_id": call_id, "input": seen})
        if asks == "both":
            self.ask({"subtype": "can_use_tool", "input": arguments, "permission_suggestions": [], **request})
        for inner in call.get("inside", []):
            self.use(inner, call_id)
        failed = call.get("fails", False)
        result = {"type": "tool_result", "tool_use_id": call_id, "content": call["result"], "is_error": failed}
        message = {"role": "user", "content": [result]}
        self.save("user", message, parent)
        self.write({"type": "user", "message": message, "parent_tool_use_id": parent})

    def ask(self, request: dict[str, Any]) -> None:
        request_id = str(uuid.uuid4())
        self.write({"type": "control_request", "request_id": request_id, "request": request})
        while request_id not in self.answers:
            self.take(json.loads(sys.stdin.readline()))

    def say(self, content: list[dict[str, Any]], parent: str | None, stop_reason: str | None) -> None:
        known = {"id": f"msg_{uuid.uuid4().hex[:12]}", "type": "message", "role": "assistant", "model": MODEL}
        message = {**known, "content": content, "stop_reason": stop_reason, "usage": USAGE}
        self.save("assistant", message, parent)
        self.write({"type": "assistant", "message": message, "parent_tool_use_id": parent})

    def save(self, kind: str, message: dict[str, Any], parent: str | None) -> None:
        """Add an entry to the transcript."""
        if not os.environ["STANDIN_TRANSCRIPT"]:
            return
        known = {"type": kind, "uuid": str(uuid.uuid4()), "sessionId": self.session, "cwd": str(Path.cwd())}
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entry = {**known, "isSidechain": parent is not None, "timestamp": at, "message": message}
        with self.transcript.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def write(self, message: dict[str, Any]) -> None:
        print(json.dumps({"session_id": self.session, "uuid": str(uuid.uuid4()), **message}), flush=True)


def main() -> None:
    arguments = sys.argv[1:]
    if "--version" in arguments:
        print("2.1.98 (Claude Code)")
    elif arguments[:1] == ["auth"]:
        print(json.dumps({"loggedIn": True, "authMethod": "claude.ai", "subscriptionType": "max"}))
    else:
        StandIn(arguments).run()


if __name__ == "__main__":
    main()
