"""PDF reports: printed by an installed Chromium, which is controlled through pipes and always ended."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest
from dashboards import failing_tests
from support import Cli, Runs, script, wait_until

from critiqor.errors import CritiqorError
from critiqor.exporters.pdf import chromium
from critiqor.exporters.pdf.chromium import NAMES, VARIABLE, find_chromium

PDF = b"%PDF-1.4\nwhat was printed\n%%EOF\n"
FAKE = """#!{python}
import base64, json, os, subprocess, sys, time
from pathlib import Path

folder = Path({folder!r})
(folder / "arguments.json").write_text(json.dumps(sys.argv[1:]))
mode = {mode!r}
print("a complaint \\x1b[31m of the browser", file=sys.stderr, flush=True)
if mode == "ends":
    sys.exit(3)

def tell(message):
    os.write(4, json.dumps(message).encode() + bytes(1))

received = b""
while True:
    while bytes(1) not in received:
        data = os.read(3, 65536)
        if not data:
            sys.exit(0)
        received += data
    line, _, received = received.partition(bytes(1))
    message = json.loads(line)
    method, wishes = message["method"], message["params"]
    with (folder / "asked.txt").open("a") as file:
        file.write(method + "\\n")
    result = {{}}
    if method == "Target.createTarget":
        result = {{"targetId": "t"}}
        tell({{"method": "Target.targetCreated", "params": {{}}}})
    elif method == "Target.attachToTarget":
        result = {{"sessionId": "s"}}
    elif method == "Page.navigate":
        (folder / "page.html").write_bytes(Path(wishes["url"].removeprefix("file://")).read_bytes())
        if mode == "hangs":
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
            (folder / "child.pid").write_text(str(child.pid))
            time.sleep(600)
        if mode == "refuses":
            tell({{"id": message["id"], "error": {{"message": "no page today"}}}})
            continue
        if mode == "babbles":
            os.write(4, b"hello" + bytes(1))
            continue
    elif method == "Page.printToPDF":
        result = {{"stream": "1"}}
    elif method == "IO.read":
        printed = {pdf!r}
        result = {{"data": base64.b64encode(printed).decode(), "base64Encoded": True, "eof": True}}
    tell({{"id": message["id"], "result": result}})
    if method == "Page.navigate":
        tell({{"method": "Page.loadEventFired", "params": {{}}}})
"""


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for what stands in for a Chromium, and for what that was asked."""
    folder = tmp_path / "browser"
    folder.mkdir()
    monkeypatch.setenv(VARIABLE, str(folder / "chromium"))
    return folder


def stand_in(folder: Path, mode: str = "prints", pdf: bytes = PDF) -> None:
    text = FAKE.format(python=sys.executable, folder=str(folder), mode=mode, pdf=pdf)
    script(folder / "chromium", text)


def test_a_report_is_printed_into_a_file(cli: Cli, runs: Runs, browser: Path, tmp_path: Path) -> None:
    failing_tests(runs)
    stand_in(browser)
    answer = cli("report", "run_001", "--format", "pdf")
    assert (answer.code, answer.out) == (0, "")
    assert (tmp_path / "run_001.pdf").read_bytes() == PDF
    assert (tmp_path / "run_001.pdf").stat().st_mode & 0o777 == 0o600
    assert cli("report", "run_001", "--format", "html").code == 0
    assert (browser / "page.html").read_bytes() == (tmp_path / "run_001.html").read_bytes()
    result = cli("export", "run_001", "--format", "pdf", "-o", "other.pdf", "--json").data
    assert (result["format"], result["bytes"]) == ("pdf", len(PDF))


def test_the_browser_gets_its_own_profile_no_network_and_no_scripts(cli: Cli, runs: Runs, browser: Path) -> None:
    failing_tests(runs)
    stand_in(browser)
    assert cli("report", "run_001", "--format", "pdf").code == 0
    arguments = (browser / "arguments.json").read_text()
    assert "--host-resolver-rules=MAP * ~NOTFOUND" in arguments
    assert ("--no-sandbox" in arguments) == (os.geteuid() == 0)
    [profile] = [one for one in arguments.split('"') if one.startswith("--user-data-dir=")]
    assert not Path(profile.partition("=")[2]).parent.exists(), "nothing of it is left"
    asked = (browser / "asked.txt").read_text().split()
    assert asked.index("Emulation.setScriptExecutionDisabled") < asked.index("Page.navigate")


@pytest.mark.parametrize(
    ("mode", "pdf", "said"),
    [
        ("ends", PDF, "it has ended"),
        ("refuses", PDF, "no page today"),
        ("babbles", PDF, "does not answer like Chromium (DevTools protocol)"),
        ("prints", b"not a PDF", "is not a PDF"),
        ("prints", PDF[:20], "is not a PDF"),
    ],
)
def test_a_failing_browser_leaves_the_old_file_and_the_error_names_html(
    cli: Cli, runs: Runs, browser: Path, tmp_path: Path, mode: str, pdf: bytes, said: str
) -> None:
    failing_tests(runs)
    stand_in(browser, mode, pdf)
    (tmp_path / "run_001.pdf").write_text("of before")
    answer = cli("report", "run_001", "--format", "pdf")
    assert answer.code == 1
    assert said in answer.err and "critiqor report run_001 --format html" in answer.err
    assert "\x1b" not in answer.err
    assert (tmp_path / "run_001.pdf").read_text() == "of before"
    assert sorted(one.name for one in tmp_path.glob("run_001.pdf*")) == ["run_001.pdf"]


def test_a_browser_that_does_not_finish_is_ended_with_all_that_it_started(
    cli: Cli, runs: Runs, browser: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_tests(runs)
    stand_in(browser, "hangs")
    monkeypatch.setattr(chromium, "PRINT_SECONDS", 3.0)
    answer = cli("report", "run_001", "--format", "pdf")
    assert (answer.code, "it did not finish in time" in answer.err) == (1, True)
    child = int((browser / "child.pid").read_text())
    wait_until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


def test_without_a_chromium_the_error_suggests_html(
    cli: Cli, runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing_tests(runs)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(chromium, "NAMES", ())
    monkeypatch.setattr(chromium, "MAC_APPLICATIONS", ())
    answer = cli("report", "run_001", "--format", "pdf", "--json")
    assert (answer.code, answer.error["exit_code"]) == (1, 1)
    assert "critiqor report run_001 --format html" in answer.error["fix"]
    assert VARIABLE in answer.error["message"]
    assert not list(tmp_path.glob("*.pdf*"))


def test_a_chromium_is_found_by_its_usual_names_or_by_the_variable(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    found = script(tmp_path / "bin" / NAMES[-1], "#!/bin/sh\n")
    environment = {"PATH": str(tmp_path / "bin")}
    assert find_chromium("x", environment).program == found
    better = script(tmp_path / "bin" / NAMES[0], "#!/bin/sh\n")
    assert find_chromium("x", environment).program == better
    own = script(tmp_path / "own", "#!/bin/sh\n")
    assert find_chromium("x", {**environment, VARIABLE: str(own)}).program == own
    with pytest.raises(CritiqorError, match="is not an executable program"):
        find_chromium("x", {**environment, VARIABLE: str(tmp_path / "gone")})


def test_a_browser_that_cannot_be_started_is_an_error(cli: Cli, runs: Runs, browser: Path) -> None:
    failing_tests(runs)
    script(browser / "chromium", "#!/there/is/no/such/interpreter\n")
    answer = cli("report", "run_001", "--format", "pdf")
    assert (answer.code, "did not print the report" in answer.err) == (1, True)
