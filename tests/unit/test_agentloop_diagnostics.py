"""The timeline of the embedded loop: what it contains, when it reaches the disk, and that it raises no errors."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from agentloop import Rig, Say, Waiting
from hypothesis import given
from hypothesis import strategies as st
from timelines import summary_of

from critiqor.agentloop.entry.server import serve
from critiqor.agentloop.models.model_client import ModelFailureError
from critiqor.agentloop.recording.diagnostics import Diagnostics
from critiqor.errors import UsageError
from critiqor.lab.model.scripted_model import ScriptedModel, Step
from critiqor.lab.runners.openclaw_home import write_openclaw_home
from critiqor.model import now_ms

RUN_ID = "4d1c0c1e-agent-run"


def environment(path: Path, **changes: str) -> dict[str, str]:
    return {
        "OPENCLAW_DIAGNOSTICS": "timeline",
        "OPENCLAW_DIAGNOSTICS_RUN_ID": "run_001",
        "OPENCLAW_DIAGNOSTICS_ENV": "main",
        "OPENCLAW_DIAGNOSTICS_TIMELINE_PATH": str(path),
        **changes,
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "not" / "yet" / "timeline.jsonl"


def written(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize("flags", ["timeline", "TIMELINE", "telegram.http, diagnostics.timeline", "1", "all", "*"])
def test_the_flags_of_openclaw_turn_it_on(flags: str, path: Path) -> None:
    assert Diagnostics.from_environment(environment(path, OPENCLAW_DIAGNOSTICS=flags)).enabled


@pytest.mark.parametrize("flags", ["", "0", "off", "timeline none", "telegram.http"])
def test_other_flags_or_no_path_leave_it_off_and_nothing_is_written(flags: str, path: Path) -> None:
    for chosen in (
        environment(path, OPENCLAW_DIAGNOSTICS=flags),
        environment(path, OPENCLAW_DIAGNOSTICS_TIMELINE_PATH=""),
        {},
    ):
        off = Diagnostics.from_environment(chosen)
        assert not off.enabled
        with off.span("agent.turn", run_id=RUN_ID) as turn, off.span("agent.prepare", parent=turn):
            off.mark("here")
            off.request("lab", "openai-completions", "scripted", RUN_ID, "r:model:1", now_ms(), 3, ok=True)
        off.close()
    assert not path.parent.exists()


def test_every_line_has_the_envelope_of_the_contract(path: Path) -> None:
    diagnostics = Diagnostics.from_environment(environment(path))
    with diagnostics.span("config.load", source="file"):
        diagnostics.mark("config.read", bytes=12)
    call = f"{RUN_ID}:model:2"
    diagnostics.request("lab", "openai-completions", "scripted", RUN_ID, call, 1_794_000_000_123, 41.5, False, 500)
    diagnostics.child_exited("npm test", 12, 1, None)
    diagnostics.close()
    lines = written(path)
    assert [line["type"] for line in lines] == [
        "span.start",
        "mark",
        "span.end",
        "provider.request",
        "childProcess.exit",
    ]
    for line in lines:
        assert line["schemaVersion"] == "openclaw.diagnostics.v1"
        assert (line["envName"], line["pid"]) == ("main", os.getpid())
        assert line["runId"] == (RUN_ID if line["type"] == "provider.request" else "run_001")
    begin, mark, end, request, child = lines
    assert begin["spanId"] == end["spanId"]
    assert (end["phase"], end["attributes"]) == ("startup", {"source": "file"})
    assert 0 <= end["durationMs"] < 60_000
    assert mark["attributes"] == {"bytes": 12}
    assert (request["timestamp"], request["durationMs"]) == ("2026-11-06T21:20:00.123Z", 41.5)
    assert (request["spanId"], request["ok"], request["status"]) == (f"{RUN_ID}:model:2", False, 500)
    assert (request["provider"], request["operation"]) == ("lab", "openai-completions")
    assert request["attributes"]["model"] == "scripted"
    assert (child["command"], child["exitCode"], child["durationMs"]) == ("npm", 1, 12)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_span_that_raises_has_failed_and_its_message_contains_no_secret(path: Path) -> None:
    diagnostics = Diagnostics.from_environment(environment(path))
    with pytest.raises(ValueError), diagnostics.span("config.load"):
        raise ValueError("token=abcd1234efgh5678 is wrong")
    diagnostics.close()
    *_, failed = written(path)
    assert (failed["type"], failed["errorName"]) == ("span.error", "ValueError")
    assert "is wrong" in failed["errorMessage"] and "abcd1234" not in failed["errorMessage"]


def test_a_turn_whose_model_call_failed_is_an_error_in_the_timeline(path: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        diagnostics = Diagnostics.from_environment(environment(path))
        failure = ModelFailureError("401 no such key: token=abcd1234efgh5678", "auth", 401)
        rig = Rig(tmp_path, Say(failure=failure), diagnostics=diagnostics)
        await rig.ask()
        diagnostics.close()

    asyncio.run(scenario())
    [failed] = [line for line in written(path) if line["name"] == "agent.turn" and line["type"] != "span.start"]
    assert (failed["type"], failed["errorName"]) == ("span.error", "AgentRunFailed")
    assert failed["errorMessage"].startswith("401 no such key")
    assert "abcd1234" not in failed["errorMessage"]
    summary = summary_of(path.read_bytes())
    assert [(turn.ended, turn.failed_requests) for turn in summary.turns] == [(True, 1)]


def test_a_turn_that_was_aborted_is_an_error_that_names_the_reason(path: Path, tmp_path: Path) -> None:
    async def scenario() -> None:
        diagnostics = Diagnostics.from_environment(environment(path))
        tool = Waiting()
        rig = Rig(tmp_path, Say("x", (("waiting", {}),)), tools=[tool], diagnostics=diagnostics)
        asking = asyncio.create_task(rig.ask(run_id="r"))
        await tool.started.wait()
        rig.runtime.cancel("r", "the user changed their mind")
        await asking
        diagnostics.close()

    asyncio.run(scenario())
    [failed] = [line for line in written(path) if line["name"] == "agent.turn" and line["type"] != "span.start"]
    assert (failed["type"], failed["errorName"]) == ("span.error", "AgentRunAborted")
    assert failed["errorMessage"] == "the user changed their mind"


def test_a_gateway_writes_its_startup_and_when_it_is_ready(path: Path, tmp_path: Path) -> None:
    async def scenario(model: ScriptedModel) -> None:
        variables = {**write_openclaw_home(tmp_path, model.base_url, {}), **environment(path)}
        with TemporaryDirectory() as folder:
            socket = Path(folder) / "agent.sock"
            serving = asyncio.create_task(serve(variables, socket))
            async with asyncio.timeout(30):
                while not any(line["name"] == "gateway.ready" for line in (written(path) if path.exists() else ())):
                    await asyncio.sleep(0.01)
            with pytest.raises(UsageError, match="another agent server"):
                await serve(variables, socket)
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)

    with ScriptedModel([Step(text="hi")]) as model:
        asyncio.run(scenario(model))
    names = [(line["type"], line["name"]) for line in written(path)]
    assert names[:7] == [
        ("span.start", "gateway.startup"),
        ("span.start", "config.load"),
        ("span.end", "config.load"),
        ("span.start", "plugins.load"),
        ("span.end", "plugins.load"),
        ("span.end", "gateway.startup"),
        ("mark", "gateway.ready"),
    ]
    assert names[-1] == ("span.error", "gateway.startup"), "the second one could not start"
    startup, ready = written(path)[5:7]
    assert ready["phase"] == "startup" and ready["durationMs"] >= startup["durationMs"]
    [process] = summary_of(path.read_bytes()).startups
    assert (process.role, process.ready) == ("gateway", True)


def test_the_parent_of_a_span_is_the_current_span_of_its_task(path: Path) -> None:
    diagnostics = Diagnostics.from_environment(environment(path))

    async def turn(run_id: str) -> None:
        with diagnostics.span("agent.turn", run_id=run_id):
            with diagnostics.span("agent.prepare", stage="workspace"):
                await asyncio.sleep(0)
            with diagnostics.span("agent.cleanup"):
                await asyncio.sleep(0)

    async def together() -> None:
        with diagnostics.span("gateway.startup"):
            await asyncio.gather(turn("a"), turn("b"))

    asyncio.run(together())
    diagnostics.close()
    starts = [line for line in written(path) if line["type"] == "span.start"]
    turns = {line["spanId"]: line["attributes"]["runId"] for line in starts if line["name"] == "agent.turn"}
    assert sorted(turns.values()) == ["a", "b"]
    assert all("parentSpanId" not in line for line in starts if line["name"] == "agent.turn")
    inside = [(line["name"], turns[line["parentSpanId"]]) for line in starts if line.get("parentSpanId") in turns]
    assert sorted(inside) == [(name, run) for name in ("agent.cleanup", "agent.prepare") for run in ("a", "b")]


def test_lines_are_written_in_the_next_iteration_of_the_event_loop(path: Path) -> None:
    diagnostics = Diagnostics.from_environment(environment(path))

    async def work() -> None:
        diagnostics.mark("one")
        diagnostics.mark("two")
        assert not path.exists(), "writing waits for the event loop"
        await asyncio.sleep(0)
        assert len(written(path)) == 2
        diagnostics.mark("three")
        await asyncio.sleep(0)
        assert len(written(path)) == 3

    asyncio.run(work())
    diagnostics.close()


def test_without_an_event_loop_lines_are_written_in_batches_and_at_the_end(path: Path) -> None:
    diagnostics = Diagnostics.from_environment(environment(path))
    for number in range(1000):
        diagnostics.mark("mark", number=number)
    assert 0 < len(written(path)) < 1000
    diagnostics.close()
    assert [line["attributes"]["number"] for line in written(path)] == list(range(1000))


def test_what_an_earlier_process_wrote_is_kept(path: Path) -> None:
    for name in ("first", "second"):
        diagnostics = Diagnostics.from_environment(environment(path))
        diagnostics.mark(name)
        diagnostics.close()
    assert [line["name"] for line in written(path)] == ["first", "second"]


def blocked_by_a_file(path: Path) -> None:
    path.parent.parent.mkdir()
    path.parent.write_text("a file")


def full(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.symlink_to("/dev/full")


def pipe_that_nobody_reads(path: Path) -> None:
    path.parent.mkdir(parents=True)
    os.mkfifo(path)


@pytest.mark.parametrize("spoil", [blocked_by_a_file, full, pipe_that_nobody_reads])
def test_a_file_that_cannot_be_written_raises_no_error(spoil: Callable[[Path], None], path: Path) -> None:
    spoil(path)
    diagnostics = Diagnostics.from_environment(environment(path, OPENCLAW_DIAGNOSTICS_EVENT_LOOP="1"))

    async def work() -> None:
        for _ in range(3):
            with diagnostics.span("agent.turn", run_id=RUN_ID):
                await asyncio.sleep(0.02)

    asyncio.run(work())
    diagnostics.close()


def test_a_batch_that_was_torn_does_not_take_the_next_one_with_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    diagnostics = Diagnostics.from_environment(environment(path))
    whole = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: whole(descriptor, data[:30]))
    diagnostics.mark("torn")
    diagnostics.flush()
    monkeypatch.undo()
    diagnostics.mark("whole")
    diagnostics.close()
    assert json.loads(path.read_bytes().splitlines()[-1])["name"] == "whole"


def test_attributes_that_json_does_not_support_lose_nothing_else(path: Path) -> None:
    diagnostics = Diagnostics.from_environment(environment(path))
    diagnostics.mark("path", where=Path("/a"), half="\ud83d", huge=1 << 80)
    diagnostics.mark("fine")
    diagnostics.close()
    assert "fine" in [line["name"] for line in written(path)]


def test_a_delay_of_the_event_loop_is_reported_with_the_span_that_blocked_it(path: Path) -> None:
    diagnostics = Diagnostics.from_environment(environment(path, OPENCLAW_DIAGNOSTICS_EVENT_LOOP="1"))

    async def work() -> None:
        with diagnostics.span("agent.turn", run_id=RUN_ID):
            await asyncio.sleep(0.05)
            with diagnostics.span("agent.prepare", stage="skills"):
                time.sleep(0.3)
            await asyncio.sleep(0.05)

    asyncio.run(work())
    diagnostics.close()
    samples = [line for line in written(path) if line["type"] == "eventLoop.sample"]
    worst = max(samples, key=lambda line: float(line["maxMs"]))
    assert worst["maxMs"] >= 250
    assert worst["activeSpanName"] == "agent.prepare"
    assert worst["p50Ms"] <= worst["p95Ms"] <= worst["p99Ms"] <= worst["maxMs"]
    summary = summary_of(path.read_bytes())
    assert "agent.prepare" in [stall.cause for stall in summary.stalls]


def test_samples_are_written_only_if_enabled(path: Path) -> None:
    diagnostics = Diagnostics.from_environment(environment(path))

    async def work() -> None:
        with diagnostics.span("agent.turn", run_id=RUN_ID):
            await asyncio.sleep(0.03)
            time.sleep(0.15)
            await asyncio.sleep(0.03)

    asyncio.run(work())
    diagnostics.close()
    assert {line["type"] for line in written(path)} == {"span.start", "span.end"}


def test_commands_of_tools_are_written_with_their_program_alone(path: Path) -> None:
    diagnostics = Diagnostics.from_environment(environment(path))
    for name, command, details in (
        ("exec", "KEY=hunter2 /usr/bin/curl -H secret", {"exitCode": 7, "durationMs": 20}),
        ("exec", "sleep 99", {"exitCode": None, "exitSignal": "SIGKILL", "durationMs": 5}),
        ("exec", "sleep 99 &", {"status": "running", "durationMs": 5}),
        ("exec", "never", {"status": "error"}),
        ("read", "x", {"exitCode": 0, "durationMs": 1}),
    ):
        diagnostics.tool_ended(name, {"command": command}, details, RUN_ID)
    diagnostics.tool_ended("exec", {}, {}, RUN_ID)
    diagnostics.close()
    exits = [(line["command"], line.get("exitCode"), line.get("signal")) for line in written(path)]
    assert exits == [("curl", 7, None), ("sleep", None, "SIGKILL")]
    assert [line["attributes"] for line in written(path)] == [{"runId": RUN_ID}] * 2
    assert b"hunter2" not in path.read_bytes()


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("npm test", "npm"),
        ("A=1 B=two ./run.sh --token x", "run.sh"),
        ("PASSWORD='a b' deploy", "sh"),
        ("(cd x; make)", "sh"),
        ("$TOOL run", "sh"),
        ("", "sh"),
        ("A=1", "sh"),
    ],
)
def test_the_program_of_a_command_is_its_first_word_without_what_is_assigned(
    command: str, program: str, path: Path
) -> None:
    diagnostics = Diagnostics.from_environment(environment(path))
    diagnostics.child_exited(command, 12, 0, None)
    diagnostics.close()
    assert [line["command"] for line in written(path)] == [program]


NAMES = st.sampled_from(["agent.turn", "agent.prepare", "config.load", "models.catalog", "tool\n\x1b[31m", ""])


@given(
    opened=st.lists(
        st.tuples(NAMES, st.booleans(), st.dictionaries(st.text(max_size=9), st.text(max_size=9))), max_size=20
    )
)
def test_however_spans_are_nested_a_reader_finds_nothing_wrong(
    opened: list[tuple[str, bool, dict[str, str]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("nested") / "timeline.jsonl"
    diagnostics = Diagnostics.from_environment(environment(path))

    def nest(rest: list[tuple[str, bool, dict[str, str]]]) -> None:
        if not rest:
            return
        (name, inside, attributes), *others = rest
        with diagnostics.span(name) as span:
            span.attributes.update(attributes)
            if inside:
                nest(others)
        if not inside:
            nest(others)

    nest(opened)
    diagnostics.close()
    summary = summary_of(path.read_bytes()) if opened else None
    if summary is not None:
        assert (summary.parse_errors, summary.open_spans_total, summary.unreadable) == (0, 0, [])
        assert summary.events == 2 * len(opened)


def test_turns_are_attributed_with_next_to_nothing_left_over(path: Path) -> None:
    diagnostics = Diagnostics.from_environment(environment(path))

    async def turn(run_id: str) -> None:
        with diagnostics.span("agent.turn", run_id=run_id):
            with diagnostics.span("agent.prepare", stage="workspace"):
                await asyncio.sleep(0.02)
            for call in (f"{run_id}:model:1", f"{run_id}:model:2"):
                began = now_ms()
                diagnostics.request_started(run_id, call)
                await asyncio.sleep(0.1)
                diagnostics.request("lab", "openai-completions", "m", run_id, call, began, now_ms() - began, ok=True)
            with diagnostics.span("agent.cleanup"):
                await asyncio.sleep(0.01)

    async def both() -> None:
        with diagnostics.span("config.load"):
            await asyncio.sleep(0.01)
        await asyncio.gather(turn("a"), turn("b"))

    asyncio.run(both())
    diagnostics.close()
    summary = summary_of(path.read_bytes())
    assert summary.parse_errors == 0 and summary.irregular == []
    assert [process.role for process in summary.processes] == ["agent"]
    assert sorted(turn.agent_run_id or "" for turn in summary.turns) == ["a", "b"]
    for turn_summary in summary.turns:
        assert turn_summary.ended and not turn_summary.overlapped
        assert turn_summary.requests == 2
        assert turn_summary.split.unattributed_ms <= turn_summary.duration_ms / 10
        assert {child.name for child in turn_summary.tree.children} >= {"agent.turn"}
