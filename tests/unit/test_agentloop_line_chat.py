"""The line-based chat: streamed replies, commands, shell commands of the user, and the monitor that records it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pexpect
import pytest
from agentloop import Rig, Say, Waiting, configuration, roles
from support import PATIENCE_SECONDS, measured, wait_until

from critiqor.agentloop.entry.chat import Chat
from critiqor.agentloop.models.model_client import ModelFailureError
from critiqor.agentloop.runs import AgentParams
from critiqor.lab.model.scripted_model import ScriptedModel, Step
from critiqor.lab.runners.openclaw_home import write_openclaw_home
from critiqor.runtime import MonitorOptions, monitor_openclaw

ROOT = Path(__file__).parent.parent.parent
LOOP = [sys.executable, "-m", "critiqor.agentloop"]


async def typed(*lines: str) -> AsyncIterator[str]:
    for line in lines:
        yield line


async def shown(rig: Rig, *lines: str, interactive: bool = False) -> str:
    """Return what a chat shows when these lines are typed into it."""
    written: list[str] = []
    await Chat(rig.runtime, AgentParams(message=""), written.append, is_interactive=interactive).talk(typed(*lines))
    return "".join(written)


def test_replies_are_shown_once_as_they_are_streamed(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("Hello\nyou.", pieces=4), Say("And again."))
        assert await shown(rig, "hi", "", "and?") == "Hello\nyou.\nAnd again.\n"
        assert roles(rig.transcript()) == ["user", "assistant", "user", "assistant"]

    asyncio.run(scenario())


def test_text_is_shown_before_the_model_has_finished(tmp_path: Path) -> None:
    async def scenario() -> None:
        hold, written = asyncio.Event(), list[str]()
        rig = Rig(tmp_path, Say("Half an ans", hold=hold))
        chat = Chat(rig.runtime, AgentParams(message=""), written.append, is_interactive=True)
        talking = asyncio.create_task(chat.talk(typed("hi")))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while "Half" not in "".join(written):
                await asyncio.sleep(0.01)
        assert not talking.done()
        hold.set()
        await talking

    asyncio.run(scenario())


def test_new_starts_another_session_and_help_lists_the_commands(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("done"))
        text = await shown(rig, "first", "/new", "/help", "second", "/exit", "never sent")
        assert "A new session has begun." in text and "!command" in text
        assert roles(rig.transcript()) == ["user", "assistant"]
        assert len(rig.model.requests) == 2

    asyncio.run(scenario())


def test_stop_aborts_the_reply_in_progress(tmp_path: Path) -> None:
    async def scenario() -> None:
        tool = Waiting()
        rig = Rig(tmp_path, Say("I wait.", (("waiting", {}),)), tools=[tool])

        async def lines() -> AsyncIterator[str]:
            yield "wait"
            await tool.started.wait()
            yield "/stop"

        written: list[str] = []
        await Chat(rig.runtime, AgentParams(message=""), written.append, is_interactive=False).talk(lines())
        text = "".join(written)
        assert text.startswith("I wait.\n")
        assert "Stopped." in text and "stopped by /stop" in text

    asyncio.run(scenario())


def test_a_failed_reply_is_shown_and_a_silent_one_is_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say(failure=ModelFailureError("401 no key", "auth", 401)))
        assert "401 no key" in await shown(rig, "hi")
        assert await shown(Rig(tmp_path / "other", Say("NO_REPLY")), "hi") == ""

    asyncio.run(scenario())


def test_a_reply_that_a_channel_delivered_is_not_shown_again_and_one_that_was_refused_is(tmp_path: Path) -> None:
    async def answer(channel: str) -> str:
        settings = configuration(channels={"log": {"outbox": "file", "path": str(tmp_path / "sent.jsonl")}})
        rig = Rig(tmp_path / channel, settings=settings)
        rig.runtime.hooks.on("before_agent_reply", lambda event, context: {"handled": True, "reply": {"text": "Hi."}})
        written: list[str] = []
        params = AgentParams(message="", channel=channel, deliver=True)
        await Chat(rig.runtime, params, written.append, is_interactive=False).talk(typed("hello"))
        return "".join(written)

    assert asyncio.run(answer("log")) == ""
    assert "Hi." in (tmp_path / "sent.jsonl").read_text()
    refused = asyncio.run(answer("telegram"))
    assert refused.startswith("Hi.\n(the reply was not delivered: ")
    assert "channels.telegram.outbox" in refused


def test_a_shell_command_of_the_user_is_run_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario() -> None:
        rig = Rig(tmp_path, Say("done"))
        events: list[dict[str, object]] = []
        rig.runtime.hooks.on("user_bash", lambda event, context: events.append(event))
        assert await shown(rig, "!pwd; exit 3", "!") == f"{tmp_path}\n\n(Command exited with code 3)\n"
        assert [(event["command"], event["exitCode"]) for event in events] == [("pwd; exit 3", 3)]
        assert rig.model.requests == []

    asyncio.run(scenario())


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path, Say("\x1b[2Jgone", pieces=3))
        assert "\x1b" not in await shown(rig, "hi", "!printf '\\033[2J'")

    asyncio.run(scenario())


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    with ScriptedModel([Step(text="Hello.")]) as model:
        home = write_openclaw_home(tmp_path / "home", model.base_url, {})
        yield {**home, "PYTHONPATH": str(ROOT), **measured()}


def test_the_program_reads_lines_from_a_pipe_and_ends_with_them(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [*LOOP, "chat", "--message", "hi"],
        input="how are you?\n!echo fine\n",
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello.\nHello.\nfine\n", "")


def test_ctrl_c_ends_a_command_and_then_an_idle_chat(environment: dict[str, str], tmp_path: Path) -> None:
    child = pexpect.spawn(LOOP[0], [*LOOP[1:], "chat"], env=environment, encoding="utf-8", timeout=PATIENCE_SECONDS)
    child.expect_exact("> ")
    child.sendline("hi")
    child.expect_exact("Hello.")
    child.expect_exact("> ")
    child.sendline(f"!touch {tmp_path}/marker; sleep 60")
    wait_until((tmp_path / "marker").exists)
    child.sendintr()
    child.expect_exact("interrupted")
    child.expect_exact("> ")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130


def test_a_signal_ends_a_chat_that_waits_for_input(environment: dict[str, str]) -> None:
    process = subprocess.Popen(
        [*LOOP, "chat", "-m", "hi"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"Hello.\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_SECONDS) == 130
    process.communicate()


def test_the_monitor_records_a_chat_without_arguments(environment: dict[str, str], tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    with (tmp_path / "lines").open("wb") as output:
        result = monitor_openclaw(
            MonitorOptions(runs_dir=folder, openclaw_command=" ".join(LOOP)),
            say=lambda message: None,
            environment=environment,
            output=output,
        )
    assert (result.exit_code, result.attached) == (0, True)


def test_a_recorded_chat_has_the_commands_of_the_user_once(environment: dict[str, str], tmp_path: Path) -> None:
    critiqor = [sys.executable, "-m", "critiqor"]
    monitored = [*critiqor, "monitor", "openclaw", "--openclaw-command", " ".join(LOOP)]
    child = pexpect.spawn(
        monitored[0], monitored[1:], env=environment, cwd=str(tmp_path), encoding="utf-8", timeout=PATIENCE_SECONDS
    )
    child.expect_exact("> ")
    child.sendline("hi")
    child.expect_exact("Hello.")
    child.expect_exact("> ")
    child.sendline("!sleep 0.5; exit 4")
    child.expect_exact("(Command exited with code 4)")
    child.sendline("/exit")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    finalize = [*critiqor, "finalize", "--no-dashboard"]
    subprocess.run(finalize, env=environment, cwd=tmp_path, check=True, capture_output=True)
    evidence = json.loads((tmp_path / "runs" / "run_001" / "session.json").read_text())
    [command] = [event for event in evidence["events"] if event["event_type"] == "user_bash"]
    assert (command["payload"]["command"], command["payload"]["exitCode"]) == ("sleep 0.5; exit 4", 4)
    assert not [note for note in evidence["coverage"]["notes"] if "terminal UI" in note]
    assert [event["payload"]["text"] for event in evidence["events"] if event["event_type"] == "input"] == ["hi"]
