"""What OpenClaw prints under `critiqor monitor`: forwarded as it is, and its end kept with the evidence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import Runs, critiqor_command, environment, script, wait_until

from critiqor.recording.output import MARGIN, MAX_KEPT, PrintedOutput, kept_text
from critiqor.storage.seals.verification import verify_run

PYTHON = f"#!{sys.executable}\nimport os, subprocess, sys, time\n"
SECRET = "sk-proj-" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY"


class Printing:
    """The monitor around a program that prints, in a process of its own with redirected output."""

    def __init__(self, folder: Path, runs: Runs) -> None:
        self.folder = folder
        self.runs = runs

    def command(self, program: str, *words: str) -> list[str]:
        file = script(self.folder / "program", PYTHON + program)
        options = ("--runs-dir", self.runs.folder, "--openclaw-command", file, "--no-live", "--no-timeline")
        return critiqor_command("monitor", "openclaw", *options, "--", *(words or ("agent",)))

    def run(self, program: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.run(
            self.command(program), env=environment(self.folder), stdin=subprocess.DEVNULL, timeout=60, **streams
        )

    def kept(self) -> dict[str, Any]:
        [event] = self.runs.notes("run_001", "process_output")
        payload: dict[str, Any] = event["payload"]
        return payload


@pytest.fixture
def printing(tmp_path: Path, runs: Runs) -> Printing:
    return Printing(tmp_path, runs)


def test_what_is_printed_arrives_unchanged_in_both_streams_and_is_sealed(printing: Printing, runs: Runs) -> None:
    raw = b"one\r\n\x1b[31mred\x1b[0m \xff\n"
    done = printing.run(f"os.write(1, {raw!r}); time.sleep(0.2)\nprint('problem', file=sys.stderr); sys.exit(5)")
    assert done.returncode == 5
    assert done.stdout == raw
    assert b"problem\n" in done.stderr
    assert printing.kept() == {"text": "one\nred \ufffd\nproblem\n", "bytes": len(raw + b"problem\n")}
    runs.finalize()
    assert not verify_run(runs.paths, "run_001").problems


def test_streams_that_go_to_the_same_place_stay_in_order(printing: Printing) -> None:
    lines = "".join(f"os.write({1 + number % 2}, b'{number}\\n')\n" for number in range(50))
    done = printing.run(lines, stderr=subprocess.STDOUT)
    numbers = [line for line in done.stdout.decode().split("\n") if line.isdigit()]
    assert numbers == [str(number) for number in range(50)]


def test_only_the_end_of_a_long_output_is_kept_and_it_begins_with_a_line(printing: Printing) -> None:
    done = printing.run("print('\\n'.join(f'line {number:08}' for number in range(100_000)))")
    assert len(done.stdout) == 1_400_000
    kept = printing.kept()
    assert kept["bytes"] == 1_400_000
    assert MAX_KEPT - 100 < len(kept["text"]) <= MAX_KEPT
    assert kept["text"].startswith("line ")
    assert kept["text"].endswith("line 00099999\n")


def test_secrets_are_not_kept_even_if_they_are_coloured_or_cut(printing: Printing, runs: Runs) -> None:
    printing.run(f"print('key {SECRET[:20]}' + chr(27) + '[1m' + '{SECRET[20:]}')")
    assert "[redacted:" in printing.kept()["text"]
    assert all(SECRET[20:].encode() not in path.read_bytes() for path in runs.folder.rglob("*") if path.is_file())
    text = f"token={SECRET}\n" + "x" * (MAX_KEPT - 20) + "\n"
    printed = PrintedOutput(len(text) + 10, text.encode())
    kept = kept_text(printed, lambda whole: whole.replace(SECRET, "[redacted]"))
    assert SECRET[-8:] not in kept


def test_the_end_of_a_key_that_began_before_the_kept_output_is_not_kept_if_colours_make_it_shorter() -> None:
    key = "".join(f"{number:04}{SECRET}\n" for number in range(60)) + "-----END PRIVATE KEY-----\n"
    after = "".join(f"\x1b[32mline {number:05}\x1b[0m\n" for number in range(10_000))
    end = (key + after)[: MAX_KEPT + MARGIN].encode()
    kept = kept_text(PrintedOutput(len(end) + 1, end), lambda whole: whole)
    assert "PRIVATE KEY" not in kept and SECRET not in kept
    assert kept.startswith("line ")
    assert kept.count("\n") >= end[MARGIN:].count(b"\n") - 2, "nothing but the margin is left out"


def test_a_program_whose_standard_error_is_closed_runs_as_it_would_without_the_monitor(printing: Printing) -> None:
    command = printing.command("print('closed' if sys.stderr is None else 'open', flush=True); sys.exit(5)")
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *command],
        env=environment(printing.folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (5, b"closed\n")


def test_output_that_goes_nowhere_is_not_captured() -> None:
    capture = "from critiqor.recording.output import OutputCapture\nprint(OutputCapture().start())"
    program = f"import os; os.close(2)\n{capture}"
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=60)
    assert done.stdout == b"None\n"


def test_a_program_that_prints_nothing_leaves_no_event(printing: Printing, runs: Runs) -> None:
    printing.run("pass")
    assert runs.notes("run_001", "process_output") == []


def test_a_reader_that_goes_away_is_noticed_by_the_program(printing: Printing, runs: Runs) -> None:
    program = "try:\n    while True: print('more' * 100, flush=True)\nexcept BrokenPipeError: os._exit(9)"
    reader, writer = os.pipe()
    with subprocess.Popen(
        printing.command(program), env=environment(printing.folder), stdout=writer, stderr=subprocess.DEVNULL
    ) as monitor:
        os.close(writer)
        os.read(reader, 100)
        os.close(reader)
        assert monitor.wait(60) == 9


def test_a_killed_monitor_does_not_keep_the_program_from_printing(printing: Printing, runs: Runs) -> None:
    program = "print('up', flush=True)\ntime.sleep(2)\nprint('still here', flush=True)\ntime.sleep(1)\nprint('end')"
    with subprocess.Popen(
        printing.command(program), env=environment(printing.folder), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as monitor:
        assert monitor.stdout is not None
        assert monitor.stdout.readline() == b"up\n"
        monitor.send_signal(signal.SIGKILL)
        assert monitor.stdout.read() == b"still here\nend\n"


def test_a_process_that_is_left_running_goes_on_printing_and_the_monitor_does_not_wait(
    printing: Printing, runs: Runs
) -> None:
    go, output = printing.folder / "go", printing.folder / "out"
    wait = f"while not os.path.exists({str(go)!r}): time.sleep(0.05)"
    left = f"import os, time\nprint('left', flush=True)\n{wait}\nprint('later', flush=True)"
    program = f"subprocess.Popen([sys.executable, '-c', {left!r}])\ntime.sleep(1)\nprint('parent', flush=True)"
    with output.open("wb") as file:
        done = printing.run(program, stdout=file, stderr=subprocess.DEVNULL)
    assert done.returncode == 0
    assert sorted(printing.kept()["text"].split()) == ["left", "parent"]
    go.touch()
    wait_until(lambda: output.read_bytes().endswith(b"later\n"))
