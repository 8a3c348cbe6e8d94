"""`check --github`: annotations and the step summary, and no workflow commands from texts of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from diagnosed import diagnosis, finding, store, texts_of
from hypothesis import given
from hypothesis import strategies as st
from reports import HOSTILE, gated
from support import Cli, Runs

from critiqor.exporters.github import (
    MAX_ANNOTATIONS,
    MAX_SUMMARY_BYTES,
    annotation_lines,
    escape_commands,
    step_summary,
)
from critiqor.model import Diagnosis

REGISTERED = frozenset(
    ("error", "warning", "notice", "debug", "group", "endgroup", "echo", "set-env", "set-output", "save-state")
) | {"add-path", "add-mask", "add-matcher", "remove-matcher", "stop-commands", "internal-set-repo-path"}
"""The commands that a runner of GitHub obeys."""


class Command(NamedTuple):
    """What a runner understands."""

    name: str
    properties: dict[str, str]
    data: str


def unescaped(text: str, *, is_property: bool = False) -> str:
    for escape, character in (("%0D", "\r"), ("%0A", "\n"), *((("%3A", ":"), ("%2C", ",")) if is_property else ())):
        text = text.replace(escape, character)
    return text.replace("%25", "%")


def obeyed(output: str) -> list[Command]:
    """Return the workflow commands in an output: at the start of a line, or anywhere in a line in the old form."""
    found = []
    for line in output.replace("\r", "\n").split("\n"):
        text = line.lstrip()
        if text.startswith("::") and "::" in text[2:]:
            head, _, data = text[2:].partition("::")
            name, _, options = head.partition(" ")
            pairs = [pair.split("=", 1) for pair in options.strip().split(",") if "=" in pair]
            if name in REGISTERED:
                properties = {key: unescaped(value, is_property=True) for key, value in pairs}
                found.append(Command(name, properties, unescaped(data)))
                continue
        _, mark, rest = line.partition("##[")
        name = rest.partition("]")[0].split(" ")[0]
        if mark and "]" in rest and name in REGISTERED:
            found.append(Command(name, {}, rest))
    return found


def annotated(concluded: Diagnosis) -> list[Command]:
    lines = annotation_lines(gated(concluded).gate, concluded)
    commands = obeyed("\n".join(lines))
    assert len(commands) == len(lines), "every line is one annotation"
    return commands


def test_the_parser_of_these_tests_recognizes_workflow_commands() -> None:
    assert [command.name for command in obeyed(HOSTILE)] == ["add-mask"]
    assert [command.name for command in obeyed("a\n  ::set-output name=x::y\n::unknown::z")] == ["set-output"]
    assert obeyed("::error title=a%3A b%2C c::50%25%0Anext") == [Command("error", {"title": "a: b, c"}, "50%\nnext")]


def test_failed_rules_and_grave_findings_are_errors_and_others_warnings() -> None:
    found = [
        finding("timeout", "high", id="finding_001"),
        finding("tool_loop:exec", "low", id="finding_002"),
        finding("slow_startup", "info", id="finding_003"),
    ]
    commands = annotated(diagnosis("run_001", *found, trust=65))
    assert [(command.name, command.properties["title"]) for command in commands] == [
        ("error", "min_trust of run_001"),
        ("error", "max_severity of run_001"),
        ("error", "high timeout in run_001"),
        ("warning", "low tool_loop in run_001"),
    ]
    assert commands[0].data == "trust is 65, at least 70 required"
    assert commands[2].data == "about timeout. it failed Next: critiqor explain run_001 finding_001"


def test_findings_that_the_policy_allows_are_no_errors() -> None:
    found = finding("timeout", "medium")
    assert [command.name for command in annotated(diagnosis("run_001", found, trust=85))] == ["warning"]
    assert annotated(diagnosis()) == []


def test_github_shows_ten_of_each_so_the_last_one_counts_the_rest() -> None:
    grave = [finding(f"timeout:{number}", "high") for number in range(30)]
    mild = [finding(f"tool_loop:{number}", "low") for number in range(12)]
    commands = annotated(diagnosis("run_001", *grave, *mild, trust=0))
    for name, missing in (("error", 23), ("warning", 3)):
        shown = [command for command in commands if command.name == name]
        assert len(shown) == MAX_ANNOTATIONS
        assert shown[-1].properties["title"] == f"{missing} more in run_001"
        assert "critiqor show run_001" in shown[-1].data


def test_special_characters_of_workflow_commands_are_shown_unchanged() -> None:
    commands = annotated(
        diagnosis("run_001", finding("a,b=c;d", "medium", title="50%: a, b::c", explanation="%0A"), trust=90)
    )
    assert commands[0].properties == {"title": "medium a,b=c;d in run_001"}
    assert commands[0].data.startswith("50%: a, b::c. %0A ")


def test_hostile_texts_add_no_workflow_commands() -> None:
    hostile = finding(HOSTILE, "high", id=HOSTILE, **texts_of(HOSTILE))
    commands = annotated(diagnosis("run_001", hostile, trust=1))
    assert [command.name for command in commands] == ["error"] * 3
    assert [list(command.properties) for command in commands] == [["title"]] * 3


@given(st.text(alphabet=st.sampled_from(list(":#[]=, %\r\n\tadm-sk")), max_size=40))
def test_no_escaped_text_is_a_workflow_command(text: str) -> None:
    escaped = escape_commands(f"{text}::add-mask::x\n::add-mask::y ##[add-mask]z {text}##[add-mask]")
    assert obeyed(escaped.replace("\r", " ")) == []


def test_a_step_has_the_gate_and_the_report_in_its_summary(
    cli: Cli, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(runs, diagnosis("run_001", finding("timeout", "high", id="finding_001"), trust=55))
    summary = tmp_path / "summary.md"
    summary.write_text("# of an earlier command\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    answer = cli("check", "run_001", "--github")
    assert answer.code == 3
    assert answer.out.startswith("run_001 fails 2 of 6 rules\n")
    assert [command.name for command in obeyed(answer.out)] == ["error"] * 3
    text = summary.read_text()
    assert text.startswith("# of an earlier command\n")
    assert "### Policy check: fails 2 of 6 rules" in text
    assert "critiqor explain run_001 finding_001" in text
    cli("check", "run_001", "--github")
    assert summary.read_text().count("### Policy check") == 2


def test_outside_of_github_it_works_and_prints_what_is_missing(
    cli: Cli, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(runs, diagnosis())
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    answer = cli("check", "run_001", "--github")
    assert (answer.code, answer.out) == (0, cli("check", "run_001").out)
    assert "GITHUB_STEP_SUMMARY is not set" in answer.err
    assert "critiqor report run_001" in answer.err


def test_with_json_the_annotations_leave_standard_output_alone(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    store(runs, diagnosis("run_001", finding("timeout", "high", title=HOSTILE), trust=55))
    answer = cli("check", "run_001", "--github", "--json")
    assert answer.data["passed"] is False
    assert obeyed(answer.out) == []
    assert [command.name for command in obeyed(answer.err)] == ["error"] * 3


def test_no_hostile_text_in_the_output_is_a_workflow_command(
    cli: Cli, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    store(runs, diagnosis("run_001", finding("timeout", "high", **texts_of(HOSTILE)), trust=55), agent_id=HOSTILE)
    answer = cli("check", "run_001", "--github")
    assert [(command.name, *command.properties) for command in obeyed(answer.out + answer.err)] == [
        ("error", "title")
    ] * 3
    assert obeyed(summary.read_text()) == []


def test_a_summary_that_is_too_large_is_not_written_because_github_would_show_none(
    cli: Cli, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(runs, diagnosis())
    size = len(step_summary(gated(diagnosis()).report, gated(diagnosis()).gate).encode())
    summary = tmp_path / "summary.md"
    summary.write_bytes(b"x" * (MAX_SUMMARY_BYTES - size // 2))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    answer = cli("check", "run_001", "--github")
    assert (answer.code, "full" in answer.err) == (0, True)
    assert summary.stat().st_size == MAX_SUMMARY_BYTES - size // 2


def test_a_summary_is_never_larger_than_github_takes() -> None:
    long = texts_of("\U0001f600" * 5000)
    found = [finding(f"timeout:{number}", "high", **long) for number in range(400)]
    gate_report = gated(diagnosis("run_001", *found, trust=0))
    assert len(step_summary(gate_report.report, gate_report.gate).encode()) < MAX_SUMMARY_BYTES


def test_a_summary_that_cannot_be_written_is_an_error_that_names_the_file(
    cli: Cli, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(runs, diagnosis())
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "such" / "folder"))
    answer = cli("check", "run_001", "--github")
    assert answer.code == 1
    assert "GITHUB_STEP_SUMMARY" in answer.err


def test_without_the_option_nothing_is_annotated(cli: Cli, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    store(runs, diagnosis("run_001", finding("timeout", "high"), trust=55))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    answer = cli("check", "run_001")
    assert obeyed(answer.out + answer.err) == []
    assert json.loads(cli("check", "run_001", "--json").out)["data"]["passed"] is False


def test_an_error_that_quotes_a_file_adds_no_workflow_commands(cli: Cli, runs: Runs) -> None:
    store(runs, diagnosis())
    path = runs.paths.run_path("run_001")
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "run_id": "x ##[add-mask]y\n::add-mask::z"}))
    answer = cli("check", "run_001", "--github")
    assert (answer.code, "it contains the record of another run, x" in answer.err) == (1, True)
    assert obeyed(answer.out + answer.err) == []
