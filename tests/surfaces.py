"""Everything that says something about a recorded run: verbs, formats and pages."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.shell_completion import ShellComplete
from dashboards import Dashboard
from support import Cli, Runs

from critiqor.cli.root_command import critiqor
from critiqor.dashboard.pages.site import RUN_PAGES
from critiqor.exporters.formats import FORMATS
from critiqor.model.formatting import format_sessions
from critiqor.run.store import Run

OTHER, RUN = "run_001", "run_002"
PAGES = (*(f"/runs/{RUN}/{name}".rstrip("/") for name in RUN_PAGES), "/runs", f"/compare?run={OTHER}&run={RUN}")
SHOWING_VERBS: dict[str, list[tuple[str, ...]]] = {
    "runs": [("runs",), ("runs", "--json")],
    "show": [("show", RUN), ("show", RUN, "--json")],
    "check": [("check", RUN), ("check", RUN, "--json"), ("check", RUN, "--github")],
    "compare": [("compare", OTHER, RUN), ("compare", RUN, OTHER, "--json")],
    "trends": [("trends",), ("trends", "--json")],
    "benchmark": [("benchmark", RUN), ("benchmark", OTHER, "--json")],
    "report": [("report", RUN), ("report", RUN, "--json")],
    "export": [("export", RUN, "--format", name, "-o", "-") for name in ("sarif", "junit", "otlp", "perfetto")],
    "diagnose": [("diagnose", RUN), ("diagnose", RUN, "--json")],
    "finalize": [("finalize", RUN, "--no-dashboard"), ("finalize", RUN, "--json")],
    "timeline": [("timeline", RUN)],
    "verify": [("verify", RUN)],
    "visibility": [("visibility", RUN)],
    "abort": [("abort", RUN)],
    "watch": [("watch", RUN)],
    "profile": [("profile", RUN)],
}
"""Verbs that answer about a recorded run, with the commands that are tried."""
TRIED_ELSEWHERE = {
    "pdf": "the pages of html, printed",
    "speedscope": "CPU profiles, without a verdict",
    "zip": "refuses evidence that is not intact",
    "atif": "messages and calls, without a verdict",
    **dict.fromkeys(("sarif", "junit", "otlp", "perfetto"), "exported by the verb above"),
}

WITHOUT_SESSIONS = {
    **dict.fromkeys(("timeline run_002", "verify run_002", "visibility run_002"), "answers about something else"),
    **dict.fromkeys(("abort run_002", "watch run_002", "profile run_002"), "refuses a finished run"),
    "completion": "one line with the headline",
    **dict.fromkeys((f"/runs/{RUN}/{name}" for name in ("evidence", "cost", "context", "live", "trust")), "no finding"),
    "benchmark run_001 --json": "ranks the other run",
}
"""Surfaces that say nothing about sessions."""

RULE_TEXTS = re.compile(r'"(?:help|fullDescription|shortDescription)": \{.*?\}', re.DOTALL)
"""Descriptions of failure types in SARIF, which are the same for every run."""


class Surface(NamedTuple):
    """Something that a user reads."""

    name: str
    text: str


def surfaces(runs: Runs, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Surface]:
    """Everything that says something about the second run."""
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    for commands in SHOWING_VERBS.values():
        for command in commands:
            answer = cli(*command)
            written = summary.read_text() if "--github" in command else ""
            yield Surface(" ".join(command), RULE_TEXTS.sub("", answer.out + answer.err + written))
    with monkeypatch.context() as patched:
        patched.setattr("critiqor.cli.output.can_draw", lambda stream: stream is sys.stdout)
        patched.setenv("COLUMNS", "200")
        for verb in ("runs", "show", "check", "compare", "trends", "benchmark", "finalize", "diagnose"):
            answer = cli(*SHOWING_VERBS[verb][0])
            yield Surface(f"{verb} on a terminal", " ".join((answer.out + answer.err).split()))
    for name in FORMATS.keys() - TRIED_ELSEWHERE.keys():
        file = tmp_path / f"report.{name}"
        answer = cli("report", RUN, "--format", name, "-o", file)
        text = file.read_text() if file.exists() else answer.err
        yield Surface(f"report --format {name}", visible(text) if name == "html" else text.replace("\\$", "$"))
    user = Dashboard(runs).user()
    for page in PAGES:
        yield Surface(page, visible(user.get(page).text))
    completion = ShellComplete(critiqor, {}, "critiqor", "_CRITIQOR_COMPLETE")
    offered = completion.get_completions(["show", "--runs-dir", str(runs.folder)], "")
    yield Surface("completion", "\n".join(f"{item.value} {item.help}" for item in offered if item.value == RUN))


def visible(page: str) -> str:
    """What a reader sees of a page, without markup, scripts and styles."""
    text = re.sub(r"<(script|style|head)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


def assert_a_failing_session_is_named(
    runs: Runs, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, session_key: str
) -> None:
    """The second run has several sessions, and only the one with this key has a finding of its own."""
    shown = {surface.name: surface.text.replace("\\_", "_") for surface in surfaces(runs, cli, monkeypatch, tmp_path)}
    with monkeypatch.context() as patched:
        shown["explain"], shown["explain --json"] = (cli("explain", RUN, *more).out for more in ((), ("--json",)))
        patched.setattr("critiqor.cli.output.can_draw", lambda stream: stream is sys.stdout)
        patched.setenv("COLUMNS", "200")
        shown["explain on a terminal"] = cli("explain", RUN).out
    diagnosis = Run(RUN, runs.paths).diagnosis
    worst, *others = diagnosis.sessions
    assert worst.session_key == session_key
    assert WITHOUT_SESSIONS.keys() <= shown.keys()
    assert [name for name, text in shown.items() if session_key not in text and name not in WITHOUT_SESSIONS] == []
    sentence = str(format_sessions(diagnosis))
    assert sentence.startswith(f"worst session {session_key}; ")
    verbs = ["show", "check", "compare", "trends", "benchmark", "finalize", "diagnose"]
    names = [*(name for name in shown if name.split()[0] in verbs and "--json" not in name), "runs", "runs --json"]
    names += [f"/runs/{RUN}", f"/runs/{RUN}/diagnosis", "/runs", PAGES[-1], "report run_002", "report --format html"]
    names += ["check run_002 --json", "runs on a terminal", "export run_002 --format junit -o -"]
    assert [name for name in names if sentence not in shown[name].lower()] == []
    placed = ["show run_002", "show on a terminal", f"/runs/{RUN}", f"/runs/{RUN}/diagnosis", f"/runs/{RUN}/playbook"]
    placed += ["report run_002", "report --format html", "check run_002 --github", "explain", "explain on a terminal"]
    placed += ["export run_002 --format sarif -o -", "check run_002"]
    place = f"session {session_key}, agent run {worst.agent_runs[0]}"
    assert [name for name in placed if place not in shown[name].lower()] == []
    listed = ["show run_002", "show on a terminal", f"/runs/{RUN}", "report run_002", "report --format html"]
    for each in others:
        key, trust = re.escape(str(each.session_key)), each.trust_score
        row = re.compile(rf"{key}\W+(?:{trust}\W+)?{each.readiness}|{trust} +{each.readiness} +\S+(?: +\S+)* +{key}")
        assert [name for name in listed if not row.search(shown[name])] == []
