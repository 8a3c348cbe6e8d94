"""The public Python API, and that its page says what it does."""

from __future__ import annotations

import doctest
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import Runs, attached, recorded

import critiqor
from critiqor.errors import BrokenRecordError, NoActiveSessionError, UnknownRunError, UsageError
from critiqor.exporters.formats import FORMATS
from critiqor.lab.demo import play_acts
from critiqor.lab.runners.runner import Runner

PAGE = Path(__file__).parent.parent.parent / "docs" / "api.md"
NEUTRAL = {"labels": {"trace_id": "t"}, "events": [{"type": "user", "text": "hello"}, {"type": "end"}]}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("demo")
    assert len(list(play_acts(Runner("embedded"), folder))) == 3
    yield folder


def test_examples_of_the_page_print_what_it_says(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(demo)
    text = PAGE.read_text()
    examples = "\n".join(re.findall(r"```pycon\n(.+?)```", text, re.DOTALL))
    assert examples.count(">>>") > 20
    test = doctest.DocTestParser().get_doctest(examples, {}, PAGE.name, str(PAGE), 0)
    complaints: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=complaints.append)
    assert "".join(complaints) == ""


@pytest.mark.parametrize("name", sorted(set(critiqor.__all__) - {"__version__"}))
def test_every_public_name_is_on_the_page(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE.read_text())


def test_runs_are_listed_oldest_first_and_a_missing_folder_has_none(runs: Runs, tmp_path: Path) -> None:
    runs.seal(attached(), recorded(2))
    runs.seal(attached(), recorded(2))
    assert [run.id for run in critiqor.runs(runs.folder)] == ["run_001", "run_002"]
    assert critiqor.runs(tmp_path / "nowhere") == []


def test_unknown_run_is_an_error_that_names_the_next_command(runs: Runs) -> None:
    with pytest.raises(UnknownRunError) as refused:
        critiqor.Run.load("run_007", runs.folder)
    assert "critiqor runs" in str(refused.value.fix)


def test_run_that_is_recorded_has_events_and_no_diagnosis_yet(runs: Runs) -> None:
    runs.write(runs.start(), attached(), recorded(2))
    run = critiqor.Run.load("run_001", runs.folder)
    assert [event.event_type for event in run.events()][-1] == "agent_start"
    for unavailable in (lambda: run.diagnosis, run.verify, lambda: critiqor.diagnose(run)):
        with pytest.raises(NoActiveSessionError) as refused:
            unavailable()
        assert "critiqor finalize run_001" in str(refused.value.fix)


def test_diagnosing_a_run_saves_the_diagnosis(runs: Runs) -> None:
    runs.seal(attached(), recorded(2))
    run = critiqor.Run.load("run_001", runs.folder)
    run.diagnosis_path.unlink()
    assert critiqor.diagnose(run) == run.diagnosis


def test_changed_evidence_is_located_and_not_diagnosed(runs: Runs) -> None:
    runs.seal(attached(), recorded(2))
    run = critiqor.Run.load("run_001", runs.folder)
    run.evidence_path.write_bytes(run.evidence_path.read_bytes().replace(b"agent:main", b"agent:evil"))
    assert not run.verify().intact
    with pytest.raises(BrokenRecordError, match="changed after sealing"):
        critiqor.diagnose(run)


def test_diagnosing_a_file_writes_nothing(runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runs.seal(attached(), recorded(2))
    run = critiqor.Run.load("run_001", runs.folder)
    trace = tmp_path / "trace.json"
    trace.write_text(json.dumps(NEUTRAL))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    document = critiqor.diagnose(str(run.evidence_path))
    assert document.failure_analysis == run.diagnosis.failure_analysis
    assert critiqor.diagnose(trace).outcome.state == "completed"
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_file_with_several_traces_is_an_error_that_names_the_fix(tmp_path: Path) -> None:
    file = tmp_path / "two.jsonl"
    file.write_text(f"{json.dumps(NEUTRAL)}\n{json.dumps(NEUTRAL)}\n")
    with pytest.raises(UsageError, match="several traces") as refused:
        critiqor.diagnose(file)
    assert f"critiqor import {file}" in str(refused.value.fix)


def test_name_of_a_run_is_not_a_file_and_the_error_says_how_to_load_it() -> None:
    with pytest.raises(UsageError) as refused:
        critiqor.diagnose("run_001")
    assert "Run.load('run_001')" in str(refused.value.fix)


def test_export_writes_every_format_that_a_report_has(runs: Runs, tmp_path: Path) -> None:
    runs.seal(attached(), recorded(2))
    run = critiqor.Run.load("run_001", runs.folder)
    for name in ("markdown", "json", "html", "zip", "junit", "sarif"):
        written = run.export(name, tmp_path / f"out{FORMATS[name].suffix}")
        assert Path(str(written.file)).stat().st_size == written.bytes > 100


def test_unknown_format_is_an_error_that_lists_the_formats(runs: Runs) -> None:
    runs.seal(attached(), recorded(2))
    with pytest.raises(UsageError) as refused:
        critiqor.Run.load("run_001", runs.folder).export("docx")
    assert all(name in str(refused.value.fix) for name in FORMATS)
