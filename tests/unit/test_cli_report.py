"""The verb `report`."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from diagnosed import diagnosis, finding, store, texts_of
from reports import HOSTILE
from support import Cli, Runs, attached, recorded
from timelines import data_of, line, span

from critiqor.model.report import RunReport

START = 1_794_000_000_000


def test_a_report_is_printed_as_markdown(cli: Cli, runs: Runs) -> None:
    store(runs, diagnosis("run_001", finding("timeout", "high", id="finding_001")))
    answer = cli("report", "run_001")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("## `run_001`: review\n")
    assert "critiqor explain run_001 finding_001" in answer.out
    assert cli("report", "run_001", "-o", "-").out == answer.out
    assert cli("report", "run_001", "--format", "markdown").out == answer.out


def test_a_report_is_written_to_the_given_file(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    store(runs, diagnosis())
    answer = cli("report", "run_001", "-o", "report.md")
    assert (answer.code, answer.out) == (0, "")
    assert "report.md" in answer.err
    assert (tmp_path / "report.md").read_text() == cli("report", "run_001").out
    result = cli("report", "run_001", "-o", "report.md", "--json").data
    assert (result["file"], result["format"]) == (str(tmp_path / "report.md"), "markdown")
    assert cli("report", "run_001", "-o", "runs/run_001.json").code == 2


def test_as_json_it_is_the_diagnosis_with_the_head_of_the_record_and_the_coverage(cli: Cli, runs: Runs) -> None:
    runs.seal(attached(at=START), recorded(2, at=START + 1), recorded(3, "agent_end", at=START + 9))
    document = json.loads(cli("report", "run_001", "--format", "json").out)
    assert document["schema_version"] == "critiqor.report.v1"
    saved = json.loads(runs.paths.diagnosis_path("run_001").read_bytes())
    assert document["diagnosis"] == {name: value for name, value in saved.items() if name != "seal"}
    assert document["coverage"] == runs.evidence("run_001")["coverage"]
    head = runs.record("run_001")
    assert all(document["run"][name] == head[name] for name in ("run_id", "status", "metadata", "seal", "timestamps"))
    assert not {"owner", "event_log"} & set(document["run"])
    assert msgspec.convert(document, RunReport).diagnosis.run_id == "run_001"
    assert cli("report", "run_001", "--json").data == document


def test_json_in_the_middle_of_markdown_is_refused(cli: Cli, runs: Runs) -> None:
    store(runs, diagnosis())
    assert cli("report", "run_001", "--format", "markdown", "--json").error["exit_code"] == 2


def test_export_writes_the_same_into_files(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    store(runs, diagnosis("run_001", finding()))
    for name, suffix in (("markdown", ".md"), ("json", ".report.json")):
        assert cli("export", "run_001", "--format", name).code == 0
        assert (tmp_path / f"run_001{suffix}").read_text() == cli("report", "run_001", "--format", name).out


def test_a_run_without_a_diagnosis_says_what_to_type(cli: Cli, runs: Runs) -> None:
    run_id = runs.start()
    answer = cli("report", run_id)
    assert (answer.code, answer.out) == (1, "")
    assert f"critiqor finalize {run_id}" in answer.err
    assert "critiqor runs" in cli("report", "run_404").err


def test_missing_evidence_is_reported(cli: Cli, runs: Runs) -> None:
    runs.seal(attached(at=START), recorded(2, at=START + 1))
    runs.paths.evidence_summary_path("run_001").unlink()
    assert "critiqor verify run_001" in cli("report", "run_001").out
    assert cli("report", "run_001", "--json").data["coverage"] is None


def test_reports_have_no_control_characters(cli: Cli, runs: Runs) -> None:
    store(runs, diagnosis("run_001", finding("timeout", "high", **texts_of(HOSTILE))), agent_id=HOSTILE)
    assert cli("report", "run_001").out.replace("\n", "").isprintable()
    store(runs, diagnosis("run_001", finding(title="\x9b31m \u202e \x1b[2J")))
    printed = cli("report", "run_001", "--format", "json").out
    assert printed.isascii() and "\x1b" not in printed


def test_html_is_written_to_a_file_unless_the_user_names_another_output(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    runs.seal(attached(at=START), recorded(2, at=START + 1), recorded(3, "agent_end", at=START + 9))
    answer = cli("report", "run_001", "--format", "html")
    assert (answer.code, answer.out) == (0, "")
    assert "run_001.html" in answer.err
    page = (tmp_path / "run_001.html").read_text()
    assert page.startswith("<!doctype html>") and page.endswith("</html>")
    assert cli("report", "run_001", "--format", "html", "-o", "-").out == page
    result = cli("report", "run_001", "--format", "html", "--json").data
    assert (result["file"], result["bytes"]) == (str(tmp_path / "run_001.html"), len(page.encode()))
    assert cli("export", "run_001", "--format", "html", "-o", "exported.html").code == 0
    assert (tmp_path / "exported.html").read_text() == page
    assert cli("report", "run_001", "--format", "html", "-o", "-", "--json").error["exit_code"] == 2


def test_pages_of_a_run_without_a_diagnosis_leave_the_old_file(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    run_id = runs.start()
    (tmp_path / f"{run_id}.html").write_text("of before")
    answer = cli("report", run_id, "--format", "html")
    assert (answer.code, f"critiqor finalize {run_id}" in answer.err) == (1, True)
    assert (tmp_path / f"{run_id}.html").read_text() == "of before"


def test_the_report_of_a_recorded_run_shows_its_timeline_and_an_anonymous_one_only_its_figures(
    cli: Cli, runs: Runs
) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(at=START), recorded(2, "agent_end", at=START + 9))
    path = runs.paths.timeline_path(run_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = span("my.own.span", "1", 0, 50) + span("my.own.span", "2", 60, 70)
    path.write_bytes(data_of(*lines, line("childProcess.exit", "childProcess.exit", 80, command="mytool", exitCode=1)))
    runs.finalize(run_id)
    text = cli("report", run_id).out
    assert "- present: 5 events, no parse errors, 1 process" in text
    assert "| `my.own.span` | 2 |" in text
    assert "- child processes: 1 ended, 1 failed" in text
    cli("visibility", run_id, "anonymous")
    text = cli("report", run_id).out
    assert "- present: 5 events, no parse errors, 1 process" in text
    assert "| `span 1` | 2 |" in text
    assert "my.own" not in text and "mytool" not in text
