"""The exec tool: real shells, real process groups."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from critiqor.agentloop.sessions.messages import Text
from critiqor.agentloop.tools.shell import HEAD_CHARS, LATEST_CHARS, TAIL_CHARS, CommandOutput, ExecTool
from critiqor.agentloop.tools.tool import ToolContext, ToolOutcome


def context(
    workspace: Path,
    *,
    sandboxed: bool = False,
    environment: dict[str, str] | None = None,
    update: Callable[[str], None] = lambda text: None,
) -> ToolContext:
    return ToolContext(
        run_id="run",
        session_key="agent:main:main",
        agent_id="main",
        tool_call_id="call_0",
        workspace=workspace,
        sandboxed=sandboxed,
        environment=dict(os.environ) if environment is None else environment,
        update=update,
    )


def run(workspace: Path, command: str, *, sandboxed: bool = False, **arguments: Any) -> ToolOutcome:
    return asyncio.run(ExecTool().run({"command": command, **arguments}, context(workspace, sandboxed=sandboxed)))


def text(outcome: ToolOutcome) -> str:
    [part] = outcome.content
    assert isinstance(part, Text)
    return part.text


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def test_output_and_exit_code_come_back_without_an_error(tmp_path: Path) -> None:
    outcome = run(tmp_path, "echo hello")
    assert text(outcome) == "hello"
    assert not outcome.is_error
    assert outcome.details["status"] == "completed"
    assert outcome.details["exitCode"] == 0
    assert outcome.details["aggregated"] == "hello"
    assert outcome.details["cwd"] == str(tmp_path)
    assert outcome.details["durationMs"] >= 0


def test_a_non_zero_exit_code_is_not_an_error_and_is_shown(tmp_path: Path) -> None:
    outcome = run(tmp_path, "echo bad >&2; exit 3")
    assert text(outcome) == "bad\n\n(Command exited with code 3)"
    assert not outcome.is_error
    assert outcome.details["exitCode"] == 3
    assert outcome.details["status"] == "completed"


def test_a_silent_command_says_that_there_was_no_output(tmp_path: Path) -> None:
    assert text(run(tmp_path, "true")) == "(no output)"


@pytest.mark.parametrize(
    ("command", "message", "code", "signal"),
    [
        ("no_such_program_x", "Command not found", 127, None),
        ("touch f; ./f", "Command not executable (permission denied)", 126, None),
        ("kill -9 $$", "Command aborted by signal SIGKILL", None, "SIGKILL"),
    ],
)
def test_a_command_that_could_not_run_or_was_killed_has_failed(
    tmp_path: Path, command: str, message: str, code: int | None, signal: str | None
) -> None:
    outcome = run(tmp_path, command)
    assert text(outcome).endswith(message)
    assert not outcome.is_error
    assert outcome.details["status"] == "failed"
    assert (outcome.details["exitCode"], outcome.details["exitSignal"]) == (code, signal)
    assert outcome.details["timedOut"] is False


def test_a_timeout_ends_the_whole_group_and_keeps_what_was_written(tmp_path: Path) -> None:
    outcome = run(tmp_path, "echo before; sh -c 'echo $$ > pid; sleep 600' ; echo after", timeout=0.5)
    assert text(outcome).startswith("before\n\nCommand timed out after 0.5 seconds.")
    assert outcome.details["timedOut"] is True
    assert outcome.details["exitCode"] is None
    assert outcome.details["status"] == "failed"
    assert not is_running(int((tmp_path / "pid").read_text()))


def test_a_timeout_can_be_given_by_either_name(tmp_path: Path) -> None:
    assert run(tmp_path, "sleep 600", timeoutSeconds=0.1).details["timedOut"] is True
    assert run(tmp_path, "true", timeout=0, timeoutSeconds=0).details["exitCode"] == 0


def test_a_group_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    outcome = run(tmp_path, "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done", timeout=0.3)
    assert outcome.details["timedOut"] is True
    assert not is_running(int((tmp_path / "pid").read_text()))


def test_cancelling_ends_the_whole_group(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"

    async def cancelled() -> None:
        command = "sh -c 'sh -c \"echo \\$\\$ > pid; sleep 600\" & sleep 600'"
        task = asyncio.ensure_future(ExecTool().run({"command": command}, context(tmp_path)))
        while not (pid_file.exists() and pid_file.read_text().strip()):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert not is_running(int(pid_file.read_text()))


def test_cancelling_at_any_moment_leaves_no_process_behind(tmp_path: Path) -> None:
    marker = f"critiqor-test-{os.getpid()}"

    async def cancelled_after(steps: int) -> None:
        task = asyncio.ensure_future(ExecTool().run({"command": f"sleep 601 # {marker}"}, context(tmp_path)))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def all_moments() -> None:
        for steps in range(12):
            await cancelled_after(steps)

    def has_leftovers() -> bool:
        lines = (" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
        return any(marker in line for line in lines)

    asyncio.run(all_moments())
    wait_until(lambda: not has_leftovers())


def test_background_processes_of_a_command_are_terminated_and_the_result_says_so(tmp_path: Path) -> None:
    outcome = run(tmp_path, "sleep 600 & echo $! > pid; echo started")
    assert text(outcome).startswith("started\n\n(Background processes of this command were terminated")
    assert outcome.details["exitCode"] == 0
    wait_until(lambda: not is_running(int((tmp_path / "pid").read_text())))


def test_a_process_in_another_session_outlives_the_command(tmp_path: Path) -> None:
    outcome = run(tmp_path, "setsid sh -c 'echo $$ > pid; sleep 600' & while [ ! -s pid ]; do sleep 0.01; done")
    pid = int((tmp_path / "pid").read_text())
    try:
        assert is_running(pid)
        assert outcome.details["exitCode"] == 0
    finally:
        os.killpg(pid, 9)


def test_output_streams_while_the_command_runs(tmp_path: Path) -> None:
    updates: list[str] = []

    async def watched() -> ToolOutcome:
        # The command waits for the file, which is only made once its first output was reported.
        def update(latest: str) -> None:
            updates.append(latest)
            (tmp_path / "go").touch()

        command = "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two"
        return await ExecTool().run({"command": command}, context(tmp_path, update=update))

    outcome = asyncio.run(watched())
    assert text(outcome) == "one\ntwo"
    assert updates[0] == "one"
    assert updates[-1] == "one\ntwo"


def test_much_output_keeps_its_beginning_and_end_and_says_how_much_is_missing(tmp_path: Path) -> None:
    outcome = run(tmp_path, "seq 1 200000")
    shown = text(outcome)
    whole = "\n".join(str(number) for number in range(1, 200_001)) + "\n"
    assert shown.startswith("1\n2\n3\n")
    assert shown.endswith("199999\n200000")
    assert f"[... {len(whole) - HEAD_CHARS - TAIL_CHARS} more characters truncated" in shown
    assert len(shown) < HEAD_CHARS + TAIL_CHARS + 200


def test_control_characters_of_a_terminal_are_dropped_and_broken_bytes_are_replaced(tmp_path: Path) -> None:
    assert text(run(tmp_path, r"printf 'a\033[31mred\tb\377\n'")) == "a[31mred\tb\ufffd"


def test_a_character_that_is_cut_between_two_reads_stays_whole() -> None:
    output = CommandOutput()
    for byte in "é→😀".encode():
        output.add(bytes([byte]))
    output.add(b"", final=True)
    assert output.text == "é→😀"


def test_the_latest_output_is_bounded() -> None:
    output = CommandOutput()
    output.add(b"x" * 100_000 + b"end")
    assert len(output.latest) == LATEST_CHARS
    assert output.latest.endswith("end")


def test_a_command_reads_nothing_from_the_terminal_of_the_agent(tmp_path: Path) -> None:
    assert text(run(tmp_path, "cat; echo done")) == "done"


def test_workdir_and_variables_are_those_of_the_arguments(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    outcome = run(tmp_path, 'pwd; echo "$COLOUR"', workdir="inner", env={"COLOUR": "blue"})
    assert text(outcome) == f"{tmp_path / 'inner'}\nblue"
    assert outcome.details["cwd"] == str(tmp_path / "inner")


def test_a_missing_workdir_gives_a_warning(tmp_path: Path) -> None:
    outcome = run(tmp_path, "pwd", workdir="nowhere")
    assert text(outcome) == f'Warning: workdir "nowhere" is unavailable; using "{tmp_path}".\n\n{tmp_path}'


def test_a_command_with_a_null_byte_is_refused(tmp_path: Path) -> None:
    outcome = run(tmp_path, "echo a\0b")
    assert outcome.is_error


@pytest.mark.parametrize("variables", [{"A=B": "x"}, {"": "x"}, {"A": "x\0y"}])
def test_invalid_variables_are_refused(tmp_path: Path, variables: dict[str, str]) -> None:
    assert run(tmp_path, "true", env=variables).is_error


def test_a_missing_workspace_is_a_failure_with_a_message(tmp_path: Path) -> None:
    outcome = run(tmp_path / "gone", "true")
    assert outcome.is_error
    assert outcome.details["error"].startswith("ENOENT: no such file or directory")


def test_a_sandboxed_command_starts_inside_and_gets_no_secrets_by_name(tmp_path: Path) -> None:
    secrets = {"OPENAI_API_KEY": "k", "GITHUB_TOKEN": "t", "DB_PASSWORD": "p"}
    environment = {"PATH": os.environ["PATH"], "HOME": "/root", "COLOUR": "blue"} | secrets
    known = context(tmp_path, sandboxed=True, environment=environment)
    command = 'echo "$HOME,$COLOUR,$TMPDIR,$OPENAI_API_KEY$GITHUB_TOKEN$DB_PASSWORD"'
    outcome = asyncio.run(ExecTool().run({"command": command}, known))
    assert text(outcome) == f"{tmp_path},blue,{tmp_path},"


def test_a_sandboxed_command_cannot_be_started_outside(tmp_path: Path) -> None:
    outcome = run(tmp_path, "pwd", workdir="..", sandboxed=True)
    assert outcome.is_error
    assert "escapes sandbox root" in text(outcome)
