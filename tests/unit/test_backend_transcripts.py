"""What Claude Code keeps to itself is taken from its own transcripts, and nothing of other sessions."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from critiqor.agentloop.recording.journal_writer import JournalWriter
from critiqor.model import iso_from_ms
from critiqor.recording.backend_transcripts import Completed, complete_recording
from critiqor.storage import SessionPaths

START = 1_794_000_000_000
USAGE = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 3}


class Scene:
    """A journal with one agent run on `claude-cli`, and a home with transcripts."""

    def __init__(self, folder: Path) -> None:
        self.paths = SessionPaths(folder / "runs")
        self.home = folder / "home"
        self.journal = self.paths.journal_path("run_001")
        self.journal.parent.mkdir(parents=True)

    def record(self, kind: str, at: int, **known: Any) -> Scene:
        record = {"event_type": kind, "timestamp": iso_from_ms(START + at), "agent_run_id": "r1", "session_key": "s"}
        with self.journal.open("a") as file:
            file.write(json.dumps(record | known) + "\n")
        return self

    def agent_run(self, provider: str = "claude-cli", *, is_visible: bool = False) -> Scene:
        """An agent run from second 10 to second 20, with a tool call that has a result and one that has none."""
        self.record("agent_start", 10_000)
        if is_visible:
            self.record("before_provider_request", 10_500)
        for call_id in ("toolu_1", "toolu_2"):
            self.record("tool_call", 11_000, tool_call_id=call_id, tool_name="exec", payload={})
        self.record("tool_result", 12_000, tool_call_id="toolu_1", tool_name="exec", payload={})
        self.record("message_end", 19_000, payload={"text": "The service is up and running again."})
        return self.record("agent_end", 20_000, payload={"provider": provider})

    def entry(self, kind: str, at: int, *parts: dict[str, Any], file: str = "a.jsonl", **known: Any) -> Scene:
        message = {"role": kind, "content": list(parts), **known}
        entry = {"type": kind, "sessionId": "one", "timestamp": iso_from_ms(START + at), "message": message}
        path = self.home / ".claude" / "projects" / "-workspace" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as transcript:
            transcript.write(json.dumps(entry) + "\n")
        os.utime(path, (START / 1000 + 60, START / 1000 + 60))
        return self

    def call(self, call_id: str, at: int, file: str = "a.jsonl") -> Scene:
        part = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": "ls"}}
        return self.entry("assistant", at, part, file=file, id=f"msg_{call_id}", model="m", usage=USAGE)

    def result(self, call_id: str, at: int, text: str = "a", *, failed: bool = False, file: str = "a.jsonl") -> Scene:
        part = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": failed}
        return self.entry("user", at, part, file=file)

    def complete(self, **environment: str) -> Completed:
        writer = JournalWriter(self.paths, "run_001")
        return complete_recording(self.journal, environment or {"HOME": str(self.home)}, writer)

    def added(self) -> list[dict[str, Any]]:
        records = [json.loads(line) for line in self.journal.read_text().splitlines()]
        return [record for record in records if record.get("payload", {}).get("source") == "claude transcript"]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def test_hidden_calls_missing_results_and_model_calls_are_added_once(scene: Scene) -> None:
    scene.agent_run().call("toolu_1", 10_900).result("toolu_1", 11_900)
    scene.call("toolu_2", 12_900).result("toolu_2", 13_400)
    scene.call("toolu_3", 14_000).result("toolu_3", 14_200, "no such file", failed=True)
    assert scene.complete() == Completed(model_calls=3, tool_calls=1, results=2)
    calls = [record for record in scene.added() if record["event_type"] == "tool_call"]
    assert [(call["tool_call_id"], call["tool_name"], call["agent_run_id"]) for call in calls] == [
        ("toolu_3", "Bash", "r1")
    ]
    results = {record["tool_call_id"]: record for record in scene.added() if record["event_type"] == "tool_result"}
    assert (results["toolu_2"]["tool_name"], results["toolu_2"]["duration_ms"]) == ("exec", 500)
    assert (results["toolu_3"]["status"], results["toolu_3"]["error"]) == ("error", "no such file")
    used = [record["payload"] for record in scene.added() if record["event_type"] == "after_provider_response"]
    assert used[0]["usage"] == {"input": 10, "output": 5, "cacheRead": 100, "cacheWrite": 3}
    assert {response["provider"] for response in used} == {"claude-cli"}


def test_the_parts_of_one_response_are_one_model_call_with_its_last_usage(scene: Scene) -> None:
    scene.agent_run()
    scene.entry(
        "assistant", 11_000, {"type": "text", "text": "I look."}, id="msg_1", usage={**USAGE, "output_tokens": 1}
    )
    part = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
    scene.entry("assistant", 11_100, part, id="msg_1", usage=USAGE)
    assert scene.complete().model_calls == 1
    assert scene.added()[0]["payload"]["usage"]["output"] == 5


def test_a_session_without_tools_is_recognized_by_its_answer(scene: Scene) -> None:
    answer = {"type": "text", "text": "The service is up and running again."}
    scene.agent_run().entry("assistant", 18_000, answer, id="msg_1", usage=USAGE)
    assert scene.complete() == Completed(model_calls=1)


def test_subagents_with_a_file_of_their_own_belong_to_their_session(scene: Scene) -> None:
    scene.agent_run().call("toolu_1", 10_900)
    scene.call("toolu_9", 14_000, "subagents/agent-1.jsonl").result("toolu_9", 14_500, file="subagents/agent-1.jsonl")
    assert scene.complete() == Completed(model_calls=2, tool_calls=1, results=1)


def test_other_sessions_and_other_times_are_left_alone(scene: Scene) -> None:
    scene.agent_run().call("toolu_7", 14_000).result("toolu_7", 14_500)
    assert scene.complete() == Completed(), "a session of the user at the same time"
    scene.call("toolu_1", 10_900).call("toolu_5", 5_000).call("toolu_6", 60_000)
    assert scene.complete().tool_calls == 1, "toolu_7 now belongs to the session; the others are before and after it"


def test_agent_runs_whose_model_calls_are_visible_and_other_backends_are_left_alone(tmp_path: Path) -> None:
    for number, scene in enumerate((Scene(tmp_path / "a").agent_run(is_visible=True), Scene(tmp_path / "b"))):
        if number:
            scene.agent_run("google-gemini-cli")
        scene.call("toolu_1", 10_900).call("toolu_3", 11_000)
        assert scene.complete() == Completed()


def test_secrets_in_a_transcript_are_redacted(scene: Scene) -> None:
    secret = "sk-ant-api03-" + "aB3" * 30
    scene.agent_run().call("toolu_2", 12_900).result("toolu_2", 13_400, f"ANTHROPIC_API_KEY={secret}")
    assert scene.complete().results == 1
    assert secret not in scene.journal.read_text()


def test_broken_and_missing_transcripts_are_no_problem(scene: Scene) -> None:
    assert scene.complete() == Completed(), "no journal"
    scene.agent_run()
    assert scene.complete() == Completed(), "no transcript"
    assert scene.complete(PATH="/bin") == Completed(), "no home"
    scene.call("toolu_2", 12_900)
    path = next(scene.home.rglob("*.jsonl"))
    damage = b'{"torn\n[]\n\xff\n{"sessionId": "\xff"}\n' + b'{"a":' * 100_000 + b"\n"
    path.write_bytes(damage + path.read_bytes() + b'{"sessionId": "one", "message": 3}\n')
    with scene.journal.open("ab") as journal:
        journal.write(b"not json\n")
    scene.result("toolu_2", 13_400)
    assert scene.complete() == Completed(model_calls=1, results=1)


def test_another_folder_of_claude_code_is_found(scene: Scene, tmp_path: Path) -> None:
    scene.agent_run().call("toolu_2", 12_900).result("toolu_2", 13_400)
    (scene.home / ".claude").rename(tmp_path / "elsewhere")
    assert scene.complete(HOME=str(scene.home), CLAUDE_CONFIG_DIR=str(tmp_path / "elsewhere")).results == 1
