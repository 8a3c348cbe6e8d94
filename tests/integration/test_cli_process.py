"""The command line as a process: what only shows with real pipes, encodings and imports."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import (
    PATIENCE_SECONDS,
    Runs,
    attached,
    critiqor_command,
    environment,
    recorded,
    run_critiqor,
    start_python,
)

from critiqor.errors import ExitCode


@pytest.fixture
def sealed(runs: Runs) -> Runs:
    runs.seal(attached(), recorded(2), recorded(3, "tool_result", status="error"))
    return runs


@pytest.mark.parametrize("arguments", [("show", "run_001"), ("show", "run_404"), ("runs",), ("finalize",)])
def test_terminal_that_lacks_our_characters_gets_others_in_their_place(
    sealed: Runs, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    result = run_critiqor(
        *arguments,
        "--runs-dir",
        sealed.folder,
        home=tmp_path,
        extra={"PYTHONIOENCODING": "latin-1"},
        encoding="latin-1",
    )
    assert result.returncode == (ExitCode.OK if result.stdout else ExitCode.ERROR)
    assert "Traceback" not in result.stderr


def test_reader_that_goes_away_is_no_traceback(sealed: Runs, tmp_path: Path) -> None:
    process = subprocess.Popen(
        critiqor_command("show", "run_001", "--json", "--runs-dir", sealed.folder),
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    process.stdout.close()
    assert process.stderr
    said = process.stderr.read()
    process.wait(PATIENCE_SECONDS)
    process.stderr.close()
    assert "Traceback" not in said
    assert process.returncode == ExitCode.ERROR


def test_help_imports_nothing_heavy() -> None:
    heavy = ("psutil", "filelock", "msgspec", "critiqor.session", "critiqor.openclaw")
    code = (
        "import sys\nfrom critiqor.cli import main\nsys.argv = ['critiqor', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print('imported:', [name for name in {heavy!r} if name in sys.modules])\n"
    )
    process = start_python(code)
    output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert output.endswith("imported: []\n")
