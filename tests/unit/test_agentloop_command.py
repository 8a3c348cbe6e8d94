"""The loop as a program: real processes, a real HTTP model, and the monitor that records it like OpenClaw."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from socket import AF_UNIX
from socket import socket as socket_of
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from agentloop import read_messages, roles, unanswered
from support import measured, wait_until

from critiqor.importers import read_traces
from critiqor.lab.model.model_script import Script
from critiqor.lab.model.scripted_model import ScriptedModel, Step, ToolUse
from critiqor.lab.runners.openclaw_home import write_openclaw_home
from critiqor.runtime import MonitorOptions, monitor_openclaw

LOOP = [sys.executable, "-m", "critiqor.agentloop"]
CRITIQOR = [sys.executable, "-m", "critiqor"]
ROOT = Path(__file__).parent.parent.parent
RUN_THE_TESTS = (
    Step(text="I look.", tools=(ToolUse("call_1", "exec", {"command": "echo hello"}),)),
    Step(text="It says hello."),
)


class House:
    """A home folder whose configuration names a scripted model."""

    def __init__(
        self, folder: Path, model: ScriptedModel, *, channels: dict[str, Any] | None = None, **defaults: Any
    ) -> None:
        self.folder = folder
        retry = {"minDelayMs": 1, "maxDelayMs": 2, "maxRetries": 1}
        extra = {"agents": {"defaults": {"retry": retry, **defaults}}, "channels": channels or {}}
        home = write_openclaw_home(folder, model.base_url, extra)
        self.environment = {**home, "PYTHONPATH": str(ROOT), **measured()}

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=False)

    @property
    def transcript(self) -> Path:
        [path] = self.folder.rglob("sessions/*.jsonl")
        return path


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with ScriptedModel(RUN_THE_TESTS) as model:
        yield House(tmp_path, model)


@contextmanager
def gateway(house: House) -> Iterator[Path]:
    """A running agent server of a house. Yields its socket."""
    with TemporaryDirectory(dir="/tmp") as short:
        # The path of a socket must be short, so this home is.
        house.environment |= {"OPENCLAW_STATE_DIR": f"{short}/state"}
        (Path(short) / "state").mkdir()
        configuration = (house.folder / ".openclaw" / "openclaw.json").read_bytes()
        (Path(short) / "state" / "openclaw.json").write_bytes(configuration)
        socket = Path(short) / "state" / "critiqor" / "agent.sock"
        server = subprocess.Popen([*LOOP, "gateway", "run", "--port", "18789"], env=house.environment)
        try:
            wait_until(socket.exists)
            yield socket
        finally:
            server.send_signal(signal.SIGTERM)
            assert server.wait(30) == 0
            assert not socket.exists()


@pytest.mark.parametrize("command", [LOOP, CRITIQOR], ids=["loop", "critiqor"])
def test_one_run_prints_the_reply_and_keeps_the_session(house: House, command: list[str]) -> None:
    done = house.run(*command, "agent", "--local", "--agent", "main", "--message", "what does it say?")
    assert (done.returncode, done.stdout, done.stderr) == (0, "It says hello.\n", "")
    assert roles(read_messages(house.transcript)) == ["user", "assistant", "toolResult", "assistant"]
    [trace] = read_traces(house.transcript)
    assert trace.format == "openclaw_transcript"


def test_the_json_answer_of_the_loop_has_the_shape_of_openclaws(house: House) -> None:
    done = house.run(*LOOP, "agent", "--local", "-m", "what does it say?", "--json")
    answer = json.loads(done.stdout)
    assert answer["payloads"][0]["text"] == "It says hello."
    assert answer["meta"]["agentMeta"]["model"] == "scripted"
    assert answer["meta"]["agentMeta"]["usage"]["input"] == 2000


def test_the_json_answer_of_the_verb_has_the_shape_of_critiqors(house: House) -> None:
    done = house.run(*CRITIQOR, "agent", "--local", "--message", "what does it say?", "--json")
    answer = json.loads(done.stdout)
    assert (answer["verb"], answer["data"]["payloads"][0]["text"]) == ("agent", "It says hello.")


def test_a_failed_model_call_prints_an_error_and_exits_with_1(tmp_path: Path) -> None:
    with ScriptedModel([Step(status=500)]) as model:
        done = House(tmp_path, model).run(*CRITIQOR, "agent", "--local", "--message", "hi")
        assert done.returncode == 1
        assert "500" in done.stderr
        assert "Traceback" not in done.stderr
        assert len(model.requests) == 2


def test_a_run_that_times_out_has_the_exit_code_of_a_timeout(tmp_path: Path) -> None:
    with ScriptedModel([Step(tools=(ToolUse("call_1", "exec", {"command": "sleep 60"}),))]) as model:
        house = House(tmp_path, model)
        done = house.run(*CRITIQOR, "agent", "--local", "--message", "hi", "--timeout", "1")
        assert done.returncode == 124
        assert "timed out after 1 seconds" in done.stderr
        assert unanswered(read_messages(house.transcript)) == []


def test_an_interrupt_ends_the_run_and_its_command_and_leaves_a_consistent_transcript(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    command = {"command": f"echo $$ > {marker}; sleep 60"}
    with ScriptedModel([Step(tools=(ToolUse("call_1", "exec", command),))]) as model:
        house = House(tmp_path / "home", model)
        process = subprocess.Popen(
            [*LOOP, "agent", "--local", "-m", "hi"], env=house.environment, stderr=subprocess.PIPE
        )
        wait_until(marker.exists)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 130
        assert b"Traceback" not in errors
        messages = read_messages(house.transcript)
        assert unanswered(messages) == []
        assert roles(messages) == ["user", "assistant", "toolResult"]


def test_an_interrupt_ends_the_wait_for_a_subagent_that_outlives_the_reply(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    spawn = Step(tools=(ToolUse("call_1", "sessions_spawn", {"task": "count"}),))
    work = Step(tools=(ToolUse("call_2", "exec", {"command": f"echo $$ > {marker}; sleep 60"}),))
    scripts = [Script("ask a child", (spawn, Step(text="A child counts."))), Script("count", (work,))]
    with ScriptedModel(scripts=scripts) as model:
        house = House(tmp_path / "home", model)
        process = subprocess.Popen(
            [*LOOP, "agent", "--local", "-m", "ask a child"],
            env=house.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        wait_until(lambda: marker.exists() and len(model.requests) == 3)
        wait_until(lambda: any("A child counts." in path.read_text() for path in house.folder.rglob("*.jsonl")))
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
        assert output == b"A child counts.\n"
        assert b"Traceback" not in errors
        for path in house.folder.rglob("sessions/*.jsonl"):
            assert unanswered(read_messages(path)) == []


def test_the_transcript_of_a_killed_run_is_repaired_by_the_next_one(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    steps = [
        Step(tools=(ToolUse("call_1", "exec", {"command": f"touch {marker}; sleep 5"}),)),
        Step(text="Good to be back."),
    ]
    with ScriptedModel(steps) as model:
        house = House(tmp_path / "home", model)
        process = subprocess.Popen([*LOOP, "agent", "--local", "-m", "hi"], env=house.environment)
        wait_until(marker.exists)
        process.kill()
        process.wait()
        assert unanswered(read_messages(house.transcript)) == ["call_1"]
        assert house.transcript.with_name(house.transcript.name + ".lock").exists()
        done = house.run(*LOOP, "agent", "--local", "-m", "are you there?")
        assert done.stdout == "Good to be back.\n"
        assert unanswered(read_messages(house.transcript)) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--message", " "), "the message is empty"),
        (("--message", "x", "--session-key", "agent:other:x", "--agent", "main"), "does not belong to agent main"),
        (("--message", "x", "--model", "nobody/knows"), "nobody/knows"),
    ],
)
def test_usage_errors_are_messages_and_never_tracebacks(house: House, arguments: tuple[str, ...], words: str) -> None:
    for command in (LOOP, CRITIQOR):
        done = house.run(*command, "agent", "--local", *arguments)
        assert done.returncode in (1, 2)
        assert words in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("--thinking", "huge"), "'huge' is not one of"), (("--agent", "none"), "has no agent 'none'")],
)
def test_unknown_options_are_rejected_and_not_ignored(house: House, arguments: tuple[str, ...], words: str) -> None:
    done = house.run(*CRITIQOR, "agent", "--local", "--message", "hi", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_a_missing_configuration_is_an_error_that_names_what_to_write(tmp_path: Path) -> None:
    done = subprocess.run(
        [*CRITIQOR, "agent", "--local", "--message", "hi"],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "agents.defaults.model.primary" in done.stderr


def test_control_characters_of_a_model_do_not_reach_the_terminal(tmp_path: Path) -> None:
    with ScriptedModel([Step(text="\x1b[2J\x1b]0;owned\x07gone")]) as model:
        house = House(tmp_path, model)
        for command in (LOOP, CRITIQOR):
            done = house.run(*command, "agent", "--local", "--message", "hi")
            assert "\x1b" not in done.stdout
            assert "gone" in done.stdout


def test_the_monitor_records_it_like_an_openclaw(house: House, tmp_path: Path) -> None:
    printed: list[str] = []
    result = monitor_openclaw(
        MonitorOptions(
            runs_dir=tmp_path / "runs",
            openclaw_command=" ".join(LOOP),
            arguments=("agent", "--local", "--agent", "main", "--message", "what does it say?"),
        ),
        say=printed.append,
        environment=house.environment,
        output=(tmp_path / "output").open("wb"),
    )
    assert result.exit_code == 0
    assert result.attached
    journal = (tmp_path / "runs" / result.run_id / "journal.jsonl").read_text().splitlines()
    names = [json.loads(line)["event_type"] for line in journal]
    assert names[0] == "recorder_attached"
    for name in ("agent_start", "input", "before_provider_request", "tool_call", "tool_result", "agent_end"):
        assert name in names
    timeline = (tmp_path / "runs" / result.run_id / "openclaw" / "timeline.jsonl").read_text()
    assert '"agent.turn"' in timeline
    assert '"provider.request"' in timeline
    assert (tmp_path / "output").read_text() == "It says hello.\n"


def test_the_verb_uses_a_running_server_and_otherwise_runs_in_its_own_process(house: House) -> None:
    with gateway(house):
        done = house.run(*CRITIQOR, "agent", "--message", "what does it say?")
        assert (done.returncode, done.stdout) == (0, "It says hello.\n")
        done = house.run(*CRITIQOR, "agent", "--message", "what does it say?", "--json")
        assert json.loads(done.stdout)["data"]["meta"]["transport"] == "gateway"
        done = house.run(*CRITIQOR, "agent", "--local", "--message", "what does it say?", "--json")
        assert json.loads(done.stdout)["data"]["meta"]["transport"] == "embedded"
    with TemporaryDirectory(dir="/tmp") as short:
        house.environment["OPENCLAW_STATE_DIR"] = short
        configuration = (house.folder / ".openclaw" / "openclaw.json").read_bytes()
        (Path(short) / "openclaw.json").write_bytes(configuration)
        done = house.run(*CRITIQOR, "agent", "--message", "and again?")
        assert (done.returncode, done.stdout) == (0, "It says hello.\n")
        with socket_of(AF_UNIX) as left:
            left.bind(str(Path(short) / "critiqor" / "agent.sock"))
        done = house.run(*CRITIQOR, "agent", "--message", "is nobody there?")
        assert (done.returncode, done.stdout) == (0, "It says hello.\n"), "a server that was killed leaves its socket"


def test_a_run_is_started_waited_for_and_cancelled_through_a_server(tmp_path: Path) -> None:
    steps = [Step(tools=(ToolUse("call_1", "exec", {"command": "sleep 60"}),)), Step(text="Done.")]
    scripts = [Script("sleep", tuple(steps)), Script("hello", (Step(text="Hello."),))]
    with ScriptedModel(scripts=scripts) as model:
        house = House(tmp_path, model)
        with gateway(house):
            started = json.loads(house.run(*CRITIQOR, "agent", "--no-wait", "-m", "hello", "--json").stdout)["data"]
            done = house.run(*CRITIQOR, "agent", "wait", started["runId"])
            assert (done.returncode, done.stdout) == (0, "Hello.\n")
            run_id = house.run(*CRITIQOR, "agent", "--no-wait", "-m", "sleep").stdout.splitlines()[0]
            done = house.run(*CRITIQOR, "agent", "wait", run_id, "--timeout", "0.1")
            assert (done.returncode, done.stdout) == (124, f"{run_id} is still running\n")
            assert house.run(*CRITIQOR, "agent", "cancel", run_id).returncode == 0
            done = house.run(*CRITIQOR, "agent", "wait", run_id, "--json")
            assert (done.returncode, json.loads(done.stdout)["data"]["error"]) == (1, "cancelled by the user")
            again = house.run(*CRITIQOR, "agent", "cancel", run_id)
            assert again.returncode == 1 and "no agent run in progress" in again.stderr
            unknown = house.run(*CRITIQOR, "agent", "wait", "never-heard-of")
            assert unknown.returncode == 1 and "there is no agent run never-heard-of" in unknown.stderr


def test_a_reply_that_a_channel_delivered_is_not_printed_by_wait_and_one_that_was_refused_is(tmp_path: Path) -> None:
    with ScriptedModel(scripts=[Script("hello", (Step(text="Hello."),))]) as model:
        house = House(tmp_path, model, channels={"log": {"outbox": "file", "path": str(tmp_path / "sent.jsonl")}})
        start = (*CRITIQOR, "agent", "--no-wait", "-m", "hello", "--deliver", "--channel")
        with gateway(house):
            delivered = house.run(*start, "log").stdout.splitlines()[0]
            done = house.run(*CRITIQOR, "agent", "wait", delivered)
            assert (done.returncode, done.stdout) == (0, "")
            refused = house.run(*start, "telegram").stdout.splitlines()[0]
            done = house.run(*CRITIQOR, "agent", "wait", refused)
            assert (done.returncode, done.stdout) == (1, "Hello.\n")
            assert "the reply was not delivered: " in done.stderr and "channels.telegram.outbox" in done.stderr
            status = json.loads(house.run(*CRITIQOR, "agent", "wait", refused, "--json").stdout)["data"]
            assert (status["status"], status["deliveryStatus"]["status"]) == ("ok", "failed")
    assert json.loads((tmp_path / "sent.jsonl").read_text())["text"] == "Hello."


def test_runs_are_scheduled_listed_and_cancelled_through_a_server(house: House) -> None:
    schedule = (*CRITIQOR, "agent", "schedule", "--message", "what does it say?")
    with gateway(house) as socket:
        later = json.loads(house.run(*schedule, "--at", "2999-01-01T08:00", "--json").stdout)["data"]
        assert later["nextAt"] > 32_000_000_000_000
        soon = house.run(*schedule, "--in", "0.1", "--session-key", "soon")
        assert soon.returncode == 0
        store = socket.parent / "agents" / "main" / "sessions"
        wait_until(lambda: any("It says hello." in path.read_text() for path in store.glob("*.jsonl")))
        listed = house.run(*CRITIQOR, "agent", "scheduled").stdout
        assert later["id"] in listed and len(listed.splitlines()) == 1
        assert house.run(*CRITIQOR, "agent", "cancel", later["id"]).stdout == "the schedule was removed\n"
        assert house.run(*CRITIQOR, "agent", "scheduled").stdout == "nothing is scheduled\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--no-wait", "--message", "hi"), "gateway run"),
        (("wait", "run"), "gateway run"),
        (("cancel", "run"), "gateway run"),
        (("schedule", "--in", "5", "--message", "hi"), "gateway run"),
        (("schedule", "--message", "hi"), "give --in, --at or --every"),
        (("schedule", "--in", "5", "--at", "2999-01-01", "--message", "hi"), "leave out one of them"),
        (("schedule", "--at", "tomorrow", "--message", "hi"), "2026-11-30T08:00"),
        ((), "Missing option '-m' / '--message'"),
        (("--queue-mode", "never", "--message", "hi"), "'never' is not one of"),
    ],
)
def test_what_needs_a_server_or_a_time_says_so(house: House, arguments: tuple[str, ...], words: str) -> None:
    done = house.run(*CRITIQOR, "agent", *arguments)
    assert done.returncode in (1, 2)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_traced_run_says_what_its_prompt_consists_of(house: House) -> None:
    for place in ("--local", None):
        arguments = [*CRITIQOR, "agent", "--trace", "--message", "what does it say?", *([place] if place else [])]
        with gateway(house) if place is None else nullcontext():
            done = house.run(*arguments)
            assert "prompt for lab/scripted: " in done.stderr and "tools: read, write" in done.stderr
            traces = json.loads(house.run(*arguments, "--json").stdout)["data"]["meta"]["traces"]
            assert [trace["model"] for trace in traces] == ["lab/scripted"]


def test_channel_recipient_and_queue_mode_reach_the_run(house: House) -> None:
    code = "import json, sys; json.dump(json.load(sys.stdin)['event'], open('seen.json', 'w'))"
    hook = {"hook": "message_received", "command": [sys.executable, "-c", code]}
    file = house.folder / ".openclaw" / "openclaw.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "hooks": {"plugin": {"scripts": [hook]}}}))
    options = ("--channel", "telegram", "--to", "@me", "--queue-mode", "followup")
    assert house.run(*CRITIQOR, "agent", "--local", "--message", "hi", *options).returncode == 0
    seen = json.loads((house.folder / ".openclaw" / "seen.json").read_text())
    assert (seen["channelId"], seen["from"], seen["content"]) == ("telegram", "@me", "hi")


def deliver(house: House, *options: str) -> subprocess.CompletedProcess[str]:
    return house.run(*LOOP, "agent", "--local", "-m", "what does it say?", "--deliver", *options)


def test_a_reply_to_a_channel_that_is_not_configured_is_printed_and_the_exit_code_is_1(house: House) -> None:
    done = deliver(house, "--reply-channel", "telegram", "--reply-to", "ada")
    assert (done.returncode, done.stdout) == (1, "It says hello.\n")
    assert "channel 'telegram' is not configured" in done.stderr
    assert "channels.telegram.outbox" in done.stderr
    status = json.loads(deliver(house, "--reply-channel", "telegram", "--json").stdout)["deliveryStatus"]
    assert (status["status"], status["succeeded"], status["resultCount"]) == ("failed", False, 0)


def test_a_reply_is_delivered_to_standard_output_once_and_apart_from_json(tmp_path: Path) -> None:
    with ScriptedModel(RUN_THE_TESTS) as model:
        house = House(tmp_path, model, channels={"screen": {"outbox": "stdout"}})
        done = deliver(house, "--reply-channel", "screen")
        assert (done.returncode, done.stdout, done.stderr) == (0, "It says hello.\n", "")
        as_json = deliver(house, "--reply-channel", "screen", "--json")
        assert json.loads(as_json.stdout)["deliveryStatus"]["status"] == "sent"
        assert as_json.stderr == "It says hello.\n"
