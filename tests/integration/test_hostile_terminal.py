"""Terminals show what an agent said, and obey nothing of it."""

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

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What a terminal acts upon, or what turns the direction of writing; line feeds and tabs are harmless."""
_OUR_OWN = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[hl]|\x1b\[\d*[AK]|\r")
"""Styles, and how a line that changes is drawn again."""
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
"""What the last event of the hostile ones says: all the others came before it."""
UNSPOKEN = frozenset(("trends", "verify"))
"""Verbs that tell figures alone, or ask which agent is meant."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a usual run lies, and one in which everything is hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    runs = Runs(folder / "runs")
    assert [failing_tests(runs), hostile_run(runs)] == ["run_001", "run_002"]
    return folder


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_nothing_that_a_terminal_obeys_is_piped(folder: Path, words: tuple[str, ...]) -> None:
    told = run_critiqor(*words, home=folder)
    assert told.returncode in (0, 2, 3), told.stderr
    assert not OBEYED.search(told.stdout), repr(OBEYED.findall(told.stdout)[:20])
    assert not OBEYED.search(told.stderr)
    assert MARK in told.stdout or words[0] in UNSPOKEN


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_nothing_but_our_own_styles_reaches_a_terminal(folder: Path, words: tuple[str, ...]) -> None:
    told = shown(*words, home=folder, columns=200)
    assert told.code in (0, 2, 3), told.text
    assert not OBEYED.search(told.unstyled.replace("\r\n", "\n")), repr(OBEYED.findall(told.unstyled)[:20])
    assert MARK in told.text or words[0] in UNSPOKEN


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_json_holds_nothing_that_a_terminal_obeys(folder: Path, words: tuple[str, ...]) -> None:
    told = run_critiqor(*words, "--json", home=folder)
    assert not OBEYED.search(told.stdout), repr(OBEYED.findall(told.stdout)[:20])


def test_a_run_is_watched_in_a_terminal_that_obeys_nothing_of_it(runs: Runs) -> None:
    run_id = runs.start()
    watching = spawn("watch", run_id, home=runs.folder.parent, columns=200)
    watching.logfile_read = told = StringIO()
    runs.write(run_id, *hostile_records())
    watching.expect_exact(LAST)
    abort_session(run_id, runs_dir=runs.folder)
    watching.expect(pexpect.EOF)
    watching.close()
    written = _OUR_OWN.sub("", told.getvalue())
    assert written.count(MARK) > 10
    assert not OBEYED.search(written), repr(OBEYED.findall(written)[:20])


def test_a_run_is_watched_through_a_pipe_without_anything_to_obey(runs: Runs) -> None:
    run_id = runs.start()
    runs.write(run_id, *hostile_records())
    command, home = critiqor_command("watch", run_id), runs.folder.parent
    with subprocess.Popen(command, env=environment(home), cwd=home, stdout=subprocess.PIPE) as watching:
        assert watching.stdout
        told = b""
        while LAST.encode() not in told:
            told += (line := watching.stdout.readline())
            assert line, told[-1000:]
        abort_session(run_id, runs_dir=runs.folder)
        told += watching.stdout.read()
    assert not OBEYED.search(told.decode()), repr(OBEYED.findall(told.decode())[:20])
