"""What the result of a tool call means: exit codes, outputs and JSON answers."""

from __future__ import annotations

import json

from critiqor.diagnosis.results import Meaning, meaning_of


def ran(command: str, text: str = "", code: int | None = 0, failed: bool = False) -> Meaning:
    arguments = json.dumps({"command": command}, separators=(",", ":"))
    return meaning_of(tool="exec", arguments=arguments, text=text, exit_code=code, reported_failure=failed)


def answered(tool: str, answer: object, arguments: str = "{}", failed: bool = False) -> Meaning:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    return meaning_of(tool=tool, arguments=arguments, text=text, exit_code=None, reported_failure=failed)


def test_an_exit_code_that_belongs_to_the_program_decides() -> None:
    assert ran("npm run build", "done", 0).state == "success"
    said = ran("npm run build", "boom", 7)
    assert (said.state, said.reason, said.rule) == ("failure", "exit code 7", "exit_code")


def test_a_hidden_exit_code_decides_nothing() -> None:
    for line in (
        "./deploy.sh | tail -3",
        "./deploy.sh || true",
        "./deploy.sh; ls",
        "./deploy.sh; echo done",
        "./serve &",
    ):
        assert ran(line, "some text", 0).state == "unknown", line


def test_the_summary_of_a_test_runner_outranks_a_hidden_exit_code() -> None:
    said = ran("pytest -q 2>&1 | tail -3", "FAILED a.py::t\n2 failed, 14 passed in 3.20s\n", 0)
    assert (said.state, said.reason, said.failed, said.passed) == ("failure", "pytest: 2 failed", 2, 14)
    assert said.quote == "2 failed, 14 passed in 3.20s"


def test_the_content_that_a_lookup_prints_says_nothing_about_the_call() -> None:
    log = "=== 2 failed, 14 passed in 3.2s ===\nBUILD FAILED\n"
    assert ran("cat ci.log", log, 0).state == "success"
    assert ran("tail -50 ci.log | grep fail", log, 0).state == "success"
    assert ran("grep -rn TODO src", "", 1).state == "success"


def test_a_json_answer_is_read_by_its_members() -> None:
    assert answered("send_email", {"ok": True, "status": "queued"}).state == "not_final"
    assert answered("send_email", {"ok": False, "error": "mailbox full"}).state == "failure"
    assert answered("send_email", {"success": True, "error": None}).state == "success"
    assert answered("cancel_order", {"status": "cancelled"}).state == "success"
    assert answered("create_order", {"status": "cancelled"}).state == "failure"
    said = answered("upload_files", {"results": [{"status": "ok"}, {"status": "failed"}, {"status": "ok"}]})
    assert (said.state, said.failed, said.passed, said.total) == ("failure", 1, 2, 3)
