"""One broken file never blocks a runs folder: it is named, and everything that can be read is still shown."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from dashboards import failing_tests
from support import Cli, Runs, attached, recorded

from critiqor.errors import BrokenRecordError
from critiqor.run.store import Run

SURROGATE = rb"\ud800"


def _replaced(old: bytes, new: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        data = path.read_bytes()
        assert old in data
        path.write_bytes(data.replace(old, new, 1))

    return damage


def _overwritten(data: bytes) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_bytes(data)

    return damage


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a lone surrogate in a name": _replaced(b"openclaw_agent", SURROGATE),
    "a lone surrogate as status": _replaced(b"MONITORING", SURROGATE),
    "a lone surrogate as visibility": _replaced(b'"private"', b'"' + SURROGATE + b'"'),
    "a lone surrogate as field name": _replaced(b"agent_id", SURROGATE),
    "a number of a thousand digits": _replaced(b'"pid": ', b'"pid": ' + b"9" * 1000),
    "a negative process": _replaced(b'"pid": ', b'"pid": -'),
    "a field name that is no text": _replaced(b'"trust_score"', b"null"),
    "invalid UTF-8": _replaced(b"openclaw_agent", b"\xff\xfe"),
    "nothing": _overwritten(b""),
    "zeros": _overwritten(bytes(5000)),
    "nesting": _overwritten(b"[" * 200_000),
    "a folder": _folder,
    "a pipe": _pipe,
}
READABLE = {"a number of a thousand digits", "a negative process"}
"""Records with a process that cannot exist are records like any other."""


@pytest.mark.parametrize("name", DAMAGES)
def test_a_broken_record_is_listed_and_blocks_nothing_else(name: str, runs: Runs, cli: Cli) -> None:
    whole = failing_tests(runs)
    broken = runs.start()
    runs.write(broken, attached())
    DAMAGES[name](runs.paths.run_path(broken))
    listed = {row["run_id"]: row["status"] for row in cli("runs", "--json").data}
    assert listed[whole] == "COMPLETED"
    if name not in READABLE:
        assert listed[broken] == "UNREADABLE"
        assert cli("show", broken).code == 1
    assert cli("runs").code == cli("show", whole).code == cli("verify", whole).code == 0
    assert cli("abort").code in (0, 1)
    later = runs.start()
    runs.write(later, attached(), recorded(2), recorded(3, "agent_end"))
    assert cli("finalize", "--no-dashboard").code == 0
    assert runs.status(later) == "COMPLETED"
    assert runs.paths.journal_path(broken).exists()


def test_a_record_with_a_lone_surrogate_is_as_broken_for_lists_as_for_finalize(runs: Runs) -> None:
    run_id = runs.start()
    DAMAGES["a lone surrogate in a name"](runs.paths.run_path(run_id))
    for read in (Run(run_id, runs.paths).head, Run(run_id, runs.paths).record):
        with pytest.raises(BrokenRecordError):
            read()


@pytest.mark.parametrize("damage", [_pipe, _overwritten(b'{"run_id": "\\ud800"}')])
def test_a_broken_active_slot_is_ignored(damage: Callable[[Path], None], runs: Runs, cli: Cli) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2), recorded(3, "agent_end"))
    damage(runs.paths.active_path)
    assert cli("runs").code == 0
    assert cli("finalize", "--no-dashboard").code == 0
    assert runs.status(run_id) == "COMPLETED"


@pytest.mark.parametrize("damage", [_folder, _pipe, Path.unlink])
def test_a_timeline_that_is_gone_or_no_file_when_it_is_sealed_prevents_nothing(
    damage: Callable[[Path], None], runs: Runs, cli: Cli
) -> None:
    from critiqor.run.finalization import begin_finalization
    from critiqor.run.store import RunStore

    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2), recorded(3, "agent_end"))
    timeline = runs.paths.timeline_path(run_id)
    timeline.parent.mkdir()
    timeline.write_bytes(b"{}\n")
    store = RunStore(runs.folder)
    begin_finalization(store.run(run_id), store)
    damage(timeline)
    assert cli("finalize", "--no-dashboard").code == 0
    assert runs.status(run_id) == "COMPLETED"
    assert cli("verify", run_id).code == cli("timeline", run_id).code == cli("diagnose", run_id).code == 0


TORN = _replaced(b'"tool_name":"exec"', b'"tool_name":')
CHANGED = _replaced(b"npm test", b"npm tset")


@pytest.mark.parametrize("verb", ["timeline", "lab from-run", "export --format perfetto -o trace.json"])
def test_evidence_that_cannot_be_read_is_refused_with_the_command_that_finds_the_change(
    verb: str, runs: Runs, cli: Cli
) -> None:
    run_id = failing_tests(runs)
    document = runs.paths.evidence_summary_path(run_id)
    document.chmod(0o600)
    TORN(document)
    answer = cli(*verb.split(), run_id, "--json")
    assert answer.code == 1
    assert answer.error["type"] == "BrokenRecordError"
    assert "changed or damaged after it was sealed" in answer.error["message"]
    assert answer.error["fix"] == f"critiqor verify {run_id}"


@pytest.mark.parametrize("damage", [TORN, CHANGED])
def test_what_is_left_of_changed_evidence_is_explained_and_compared(
    damage: Callable[[Path], None], runs: Runs, cli: Cli
) -> None:
    whole, run_id = failing_tests(runs), failing_tests(runs)
    document = runs.paths.evidence_summary_path(run_id)
    document.chmod(0o600)
    damage(document)
    explained = cli("explain", run_id)
    assert explained.code == 0 and "Done: all tests pass." in explained.out
    assert f"critiqor verify {run_id}" in explained.err
    compared = cli("compare", whole, run_id)
    assert compared.code == 0 and "the evidence was changed after sealing" in compared.out


def test_times_of_changed_evidence_come_with_a_warning(runs: Runs, cli: Cli) -> None:
    run_id = failing_tests(runs)
    assert "not verified" not in cli("timeline", run_id).err
    document = runs.paths.evidence_summary_path(run_id)
    document.chmod(0o600)
    CHANGED(document)
    answer = cli("timeline", run_id)
    assert answer.code == 0
    assert "not verified" in answer.err and f"critiqor verify {run_id}" in answer.err


@pytest.mark.parametrize("damage", [_pipe, _folder, Path.unlink])
@pytest.mark.parametrize(
    "verb", ["show", "explain", "timeline", "verify", "lab from-run", "diagnose", "report", "check"]
)
def test_evidence_that_is_gone_or_no_file_makes_no_verb_wait(
    verb: str, damage: Callable[[Path], None], runs: Runs, cli: Cli
) -> None:
    run_id = failing_tests(runs)
    damage(runs.paths.evidence_summary_path(run_id))
    answer = cli(*verb.split(), run_id)
    assert answer.code in (0, 1, 3)
    assert "internal error" not in answer.err
    assert cli("runs").code == 0
