"""Texts of an agent are shown in terminals, and none of their control characters has an effect."""

from __future__ import annotations

import re
import subprocess
from io import StringIO
from pathlib import Path

import pexpect
import pytest
from dashboards import failing_tests
from hostile import LONG, MARK, hostile_records, hostile_run
from support import Runs, critiqor_command, environment, run_critiqor
from terminal import shown, spawn

from critiqor.session import abort_session

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that a terminal acts upon, or that change the direction of text; line feeds and tabs are harmless."""
_OUR_OWN = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[hl]|\x1b\[\d*[AK]|\r")
"""Styles, and the codes that redraw a line of progress."""
VERBS = (
    ("show", "run_002"),
    ("runs",),
    ("explain", "run_002", "finding_001"),
    ("explain", "run_002", "finding_010"),
    ("timeline", "run_002"),
    ("compare", "run_001", "run_002"),
    ("check", "run_002"),
    ("trends",),
    ("report", "run_002"),
    ("diagnose", "run_002"),
    ("verify", "run_002"),
)
LAST = "error: " + LONG[:50]
"""Text of the last hostile event."""
WITHOUT_TEXTS = frozenset(("trends", "verify"))
"""Verbs that print only numbers, or ask for an agent."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a normal run and a run in which every text is hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    runs = Runs(folder / "runs")
    assert [failing_tests(runs), hostile_run(runs)] == ["run_001", "run_002"]
    return folder


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_piped_output_has_no_control_characters(folder: Path, words: tuple[str, ...]) -> None:
    result = run_critiqor(*words, home=folder)
    assert result.returncode in (0, 2, 3), result.stderr
    assert not CONTROLS.search(result.stdout), repr(CONTROLS.findall(result.stdout)[:20])
    assert not CONTROLS.search(result.stderr)
    assert MARK in result.stdout or words[0] in WITHOUT_TEXTS


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_a_terminal_gets_no_control_characters_but_our_own_styles(folder: Path, words: tuple[str, ...]) -> None:
    output = shown(*words, home=folder, columns=200)
    assert output.code in (0, 2, 3), output.text
    assert not CONTROLS.search(output.unstyled.replace("\r\n", "\n")), repr(CONTROLS.findall(output.unstyled)[:20])
    assert MARK in output.text or words[0] in WITHOUT_TEXTS


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_json_has_no_control_characters(folder: Path, words: tuple[str, ...]) -> None:
    result = run_critiqor(*words, "--json", home=folder)
    assert not CONTROLS.search(result.stdout), repr(CONTROLS.findall(result.stdout)[:20])


def test_watching_in_a_terminal_prints_no_control_characters_of_the_run(runs: Runs) -> None:
    run_id = runs.start()
    watching = spawn("watch", run_id, home=runs.folder.parent, columns=200)
    watching.logfile_read = output = StringIO()
    runs.write(run_id, *hostile_records())
    watching.expect_exact(LAST)
    abort_session(run_id, runs_dir=runs.folder)
    watching.expect(pexpect.EOF)
    watching.close()
    written = _OUR_OWN.sub("", output.getvalue())
    assert written.count(MARK) > 10
    assert not CONTROLS.search(written), repr(CONTROLS.findall(written)[:20])


def test_watching_through_a_pipe_prints_no_control_characters(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, *hostile_records())
    command, home = critiqor_command("watch", run_id), runs.folder.parent
    with subprocess.Popen(command, env=environment(home), cwd=home, stdout=subprocess.PIPE) as watching:
        assert watching.stdout
        output = b""
        while LAST.encode() not in output:
            output += (line := watching.stdout.readline())
            assert line, output[-1000:]
        abort_session(run_id, runs_dir=runs.folder)
        output += watching.stdout.read()
    assert not CONTROLS.search(output.decode()), repr(CONTROLS.findall(output.decode())[:20])
