"""The monitor in a real terminal, under a shell with job control: the child has the terminal as without us."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import psutil
import pytest
from support import PATIENCE_SECONDS, Runs, critiqor_command, environment, kill_tree, script, wait_until

PROGRAM = f"#!{sys.executable}\n" + (
    "import os, select, signal, sys, termios, tty\n"
    "def size(*_):\n"
    "    print('size', *os.get_terminal_size(0), end='\\r\\n', flush=True)\n"
    "signal.signal(signal.SIGWINCH, size)\n"
    "signal.signal(signal.SIGCONT, lambda *_: print('continued', end='\\r\\n', flush=True))\n"
    "if 'raw' in sys.argv:\n"
    "    tty.setraw(0)\n"
    "print('terminal', os.isatty(0), os.tcgetpgrp(0) == os.getpgrp(), end='\\r\\n', flush=True)\n"
    "if os.isatty(1):\n"
    "    print('prints to', *os.get_terminal_size(1), os.isatty(2), end='\\r\\n', flush=True)\n"
    "size()\n"
    "while True:\n"
    "    if select.select([0], [], [], 0.1)[0]:\n"
    "        read = os.read(0, 100)\n"
    "        print('read', read, end='\\r\\n', flush=True)\n"
    "        if read.strip() in (b'q', b''):\n"
    "            break\n"
)
CTRL_C, CTRL_Z = "\x03", "\x1a"


class Shell:
    """A shell with job control in a terminal of 33 by 77, and a program to be recorded.

    As `chat` it has the terminal itself; what it prints as `agent` is forwarded and kept.
    """

    def __init__(self, folder: Path, runs: Runs, word: str) -> None:
        self.word = word
        self.folder = folder
        self.runs = runs
        program = script(folder / "program", PROGRAM)
        self.command = critiqor_command("monitor", "openclaw", "--runs-dir", runs.folder, "--openclaw-command", program)
        self.environment = environment(folder, PS1="", BASH_SILENCE_DEPRECATION_WARNING="1")
        self.terminal = self.spawn("bash", ["--norc", "--noprofile", "-i"])
        self.type("bind 'set enable-bracketed-paste off' 2>/dev/null; PS1='ready> '; stty -echo")
        self.prompt()

    def spawn(self, command: str, arguments: list[str]) -> pexpect.spawn[str]:
        return pexpect.spawn(
            command,
            arguments,
            env=self.environment,
            cwd=str(self.folder),
            dimensions=(33, 77),
            encoding="utf-8",
            timeout=PATIENCE_SECONDS,
        )

    def type(self, line: str) -> None:
        self.terminal.sendline(line)

    def see(self, *texts: str) -> None:
        for text in texts:
            self.terminal.expect_exact(text)

    def prompt(self) -> None:
        self.see("ready> ")

    def monitor(self, *arguments: str, after: str = "") -> None:
        words = arguments if "--" in arguments else (*arguments, "--", self.word)
        self.type(" ".join([*self.command, *words]) + after)

    def exit_code(self) -> int:
        self.type("echo code=$?=")
        self.terminal.expect(r"code=(\d+)=")
        assert isinstance(self.terminal.match, re.Match)
        return int(self.terminal.match.group(1))

    def is_mine(self) -> None:
        """The shell answers, and the terminal does what a shell's does."""
        self.type("stty -a; echo alive=$((40 + 2))")
        self.see(" icanon", "alive=42")
        self.prompt()


@pytest.fixture(params=["chat", "agent"])
def shell(request: pytest.FixtureRequest, tmp_path: Path, runs: Runs) -> Iterator[Shell]:
    started = Shell(tmp_path, runs, request.param)
    yield started
    assert started.terminal.pid is not None
    kill_tree(started.terminal.pid)
    started.terminal.close(force=True)


def test_program_has_the_terminal_its_size_and_its_changes(shell: Shell) -> None:
    shell.monitor()
    shell.see("terminal True True", "prints to 77 33 True", "size 77 33")
    shell.terminal.setwinsize(20, 60)
    shell.see("size 60 20")
    shell.type("hello")
    shell.see("read b'hello\\n'")
    shell.type("q")
    shell.see("OpenClaw ended with exit code 0")
    shell.prompt()
    assert shell.exit_code() == 0
    shell.prompt()
    shell.is_mine()


def test_keyboard_interrupt_reaches_the_program_and_is_130(shell: Shell, runs: Runs) -> None:
    shell.monitor()
    shell.see("size 77 33")
    shell.terminal.send(CTRL_C)
    shell.see("critiqor finalize")
    shell.prompt()
    assert shell.exit_code() == 130
    assert runs.status("run_001") == "MONITORING"
    assert runs.notes("run_001", "error_event")[0]["payload"]["reason"] == "interrupted"


def test_keyboard_interrupt_is_130_if_the_program_ends_itself_with_another_signal(shell: Shell, runs: Runs) -> None:
    # As OpenClaw does if it takes long to end.
    program = "import os, signal, time\nsignal.signal(signal.SIGINT, lambda *_: os.kill(os.getpid(), signal.SIGTERM))\n"
    script(
        shell.folder / "program", f"#!{sys.executable}\n{program}print('up', flush=True)\nwhile True: time.sleep(1)\n"
    )
    shell.monitor()
    shell.see("up\r\n")
    shell.terminal.send(CTRL_C)
    shell.see("critiqor finalize")
    shell.prompt()
    assert shell.exit_code() == 130
    assert runs.notes("run_001", "error_event")[0]["payload"]["reason"] == "interrupted"


def test_program_that_is_ended_without_ctrl_c_has_the_exit_code_of_its_signal(shell: Shell, runs: Runs) -> None:
    shell.monitor()
    shell.see("size 77 33")
    wait_until(lambda: runs.notes("run_001", "process_start"))
    psutil.Process(runs.notes("run_001", "process_start")[0]["payload"]["pid"]).terminate()
    shell.see("critiqor finalize")
    shell.prompt()
    assert shell.exit_code() == 143


def test_raw_program_gets_control_characters_as_they_are(shell: Shell) -> None:
    shell.monitor("--", shell.word, "raw")
    shell.see("size 77 33")
    shell.terminal.send(CTRL_C + CTRL_Z)
    shell.see("read b'\\x03\\x1a'")
    shell.terminal.send("q")
    shell.see("critiqor finalize")


def test_stop_and_foreground_bring_the_program_back(shell: Shell) -> None:
    shell.monitor()
    shell.see("size 77 33")
    for _ in range(2):
        shell.terminal.send(CTRL_Z)
        shell.see("Stopped")
        shell.prompt()
        shell.is_mine()
        shell.type("fg")
        shell.see("continued")
        shell.type("again")
        shell.see("read b'again\\n'")
    shell.type("q")
    shell.see("exit code 0")
    shell.prompt()
    shell.is_mine()


def test_background_leaves_the_terminal_to_the_shell(shell: Shell) -> None:
    shell.monitor()
    shell.see("size 77 33")
    shell.terminal.send(CTRL_Z)
    shell.see("Stopped")
    shell.prompt()
    shell.type("bg")
    shell.see("continued")
    shell.is_mine()
    shell.type("fg")
    shell.terminal.send(CTRL_C)
    shell.see("critiqor finalize")
    shell.prompt()
    assert shell.exit_code() == 130


def test_start_in_the_background_and_end_there_leave_the_terminal_alone(shell: Shell) -> None:
    program = script(shell.folder / "program", "#!/bin/sh\nsleep 0.5\nexit 3\n")
    assert program.exists()
    shell.monitor(after=" 2>/dev/null &")
    shell.prompt()
    shell.is_mine()
    shell.type("wait %1; echo waited=$?")
    shell.see("waited=3")
    shell.prompt()
    shell.is_mine()


def test_whole_pipeline_stops_and_continues(shell: Shell) -> None:
    shell.monitor(after=" | cat")
    shell.see("size 77 33")
    shell.terminal.send(CTRL_Z)
    shell.see("Stopped")
    shell.prompt()
    shell.type("fg")
    shell.see("continued")
    shell.type("q")
    shell.see("exit code 0")


def test_stop_where_nobody_could_continue_is_no_end(shell: Shell, runs: Runs) -> None:
    alone = shell.spawn(shell.command[0], [*shell.command[1:], "--", shell.word])
    alone.expect_exact("size 77 33")
    alone.send(CTRL_Z)
    alone.expect_exact("continued")
    alone.sendline("q")
    alone.expect_exact("exit code 0")
    alone.expect(pexpect.EOF)
    alone.close()
    assert alone.exitstatus == 0
    assert runs.finalize()["status"] == "COMPLETED"


def test_terminal_of_a_program_that_was_ended_by_force_is_set_back(shell: Shell) -> None:
    shell.monitor("--timeout", "1", "--", shell.word, "raw")
    shell.see("size 77 33", "exit code 124")
    shell.prompt()
    assert shell.exit_code() == 124
    shell.is_mine()


def test_closed_terminal_ends_the_program_and_keeps_the_record(shell: Shell, runs: Runs) -> None:
    alone = shell.spawn(shell.command[0], [*shell.command[1:], "--", shell.word])
    alone.expect_exact("size 77 33")
    wait_until(lambda: runs.notes("run_001", "process_start"))
    with contextlib.suppress(pexpect.ExceptionPexpect):  # it does not wait for the end
        alone.close(force=False)
    wait_until(lambda: runs.notes("run_001", "error_event") and runs.notes("run_001", "process_end"))
    [end] = runs.notes("run_001", "process_end")
    assert not psutil.pid_exists(end["payload"]["pid"])
    assert runs.finalize()["diagnosis"]["outcome"]["state"] == "interrupted"
