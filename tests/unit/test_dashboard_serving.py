"""The dashboard as a process: where it listens, how it is reached, how it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import psutil
import pytest
from dashboards import failing_tests
from support import PATIENCE_SECONDS, Cli, Runs, critiqor_command, environment, recorded

from critiqor.cli import browser


class Served:
    """A dashboard in a process of its own."""

    def __init__(self, runs: Runs, home: Path, *arguments: str) -> None:
        command = critiqor_command("dashboard", "--json", "--no-browser", "--runs-dir", runs.folder, *arguments)
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(home), cwd=home, text=True)
        assert self.process.stdout
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if line == "}\n":
                break
        self.told: dict[str, Any] = json.loads("".join(lines))["data"]

    def ended(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_SECONDS)


@pytest.fixture
def served(runs: Runs, tmp_path: Path) -> Iterator[Served]:
    failing_tests(runs)
    process = Served(runs, tmp_path, "run_001")
    yield process
    process.process.kill()
    process.process.wait()


def test_it_listens_on_loopback_alone_and_ends_when_interrupted(served: Served) -> None:
    listening = [
        each.laddr for each in psutil.Process(served.process.pid).net_connections() if each.status == psutil.CONN_LISTEN
    ]
    assert [address.ip for address in listening] == ["127.0.0.1"]
    assert [address.port for address in listening] == [served.told["port"]]
    assert served.ended() == 0


def test_the_link_opens_it_and_its_cookie_is_all_that_is_needed(served: Served) -> None:
    link = served.told["link"]
    assert urlsplit(link).hostname == "127.0.0.1"
    assert len(parse_qs(urlsplit(link).query)["token"][0]) >= 43
    with httpx2.Client(trust_env=False) as client:
        assert client.get(f"{served.told['address']}/runs").status_code == 403
        assert client.get(link).status_code == 200
        page = client.get(f"{served.told['address']}/runs/run_001")
        assert page.status_code == 200 and "run_001" in page.text
        assert "server" not in page.headers
        assert client.get(f"{served.told['address']}/runs", headers={"host": "evil.example"}).status_code == 403


def test_a_path_that_climbs_is_refused_as_it_is_sent(served: Served) -> None:
    token = parse_qs(urlsplit(served.told["link"]).query)["token"][0]
    port = served.told["port"]
    for path in ("/runs/../../etc/passwd", "/runs/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/static/../../cli/group.py"):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as connection:
            head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: critiqor_{port}={token}\r\n"
            connection.sendall(f"{head}Connection: close\r\n\r\n".encode())
            answer = connection.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 404"), path


def test_an_open_stream_tells_what_is_recorded_and_does_not_keep_it_from_ending(runs: Runs, served: Served) -> None:
    run_id = runs.start()
    with httpx2.Client(trust_env=False, timeout=PATIENCE_SECONDS) as client:
        client.get(served.told["link"])
        with client.stream("GET", f"{served.told['address']}/runs/{run_id}/live/stream") as stream:
            lines = stream.iter_lines()
            next(line for line in lines if line == "event: state")
            runs.write(run_id, recorded(1, "message_end", payload={"text": "written later"}))
            assert "written later" in next(line for line in lines if "message_end" in line)
            assert served.ended() == 0


def test_a_port_that_is_taken_is_told(runs: Runs, cli: Cli) -> None:
    failing_tests(runs)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        answer = cli("dashboard", "--json", "--port", str(taken.getsockname()[1]))
    assert answer.code == 1
    assert "cannot be used" in answer.error["message"]


def test_of_several_tenants_one_must_be_chosen(runs: Runs, cli: Cli) -> None:
    failing_tests(runs, tenant_id="ours")
    failing_tests(runs, tenant_id="their's")
    answer = cli("dashboard", "--json")
    assert answer.code == 2
    assert "critiqor dashboard --tenant ours" in answer.error["fix"]


@pytest.mark.parametrize("arguments", [["run_009"], ["run_001", "--tenant", "other"], ["../run_001"]])
def test_a_run_that_is_not_there_is_told_before_anything_is_opened(runs: Runs, cli: Cli, arguments: list[str]) -> None:
    failing_tests(runs)
    answer = cli("dashboard", "--json", *arguments)
    assert answer.code in (1, 2)
    assert "run" in answer.error["message"]


class Terminal:
    """Standard input or output, as a terminal or not."""

    def __init__(self, is_one: bool) -> None:
        self.isatty = lambda: is_one


@pytest.mark.parametrize(
    ("is_terminal", "variables", "looks"),
    [
        (True, {"DISPLAY": ":0"}, True),
        (True, {"WAYLAND_DISPLAY": "wayland-0"}, True),
        (True, {}, False),
        (False, {"DISPLAY": ":0"}, False),
        (True, {"DISPLAY": ":0", "CI": "true"}, False),
    ],
)
def test_a_browser_is_opened_only_where_somebody_looks(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, variables: dict[str, str], looks: bool
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "CI"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("sys.stdin", Terminal(is_terminal))
    monkeypatch.setattr("sys.stdout", Terminal(is_terminal))
    assert browser.somebody_looks() is looks


@pytest.mark.parametrize(("arguments", "opened"), [([], ["run_001"]), (["--no-dashboard"], []), (["--json"], [])])
def test_finalize_opens_it_where_somebody_looks_and_wants_it(
    runs: Runs, cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: list[str], opened: list[str]
) -> None:
    runs.start()
    asked: list[str] = []
    monkeypatch.setattr(browser, "somebody_looks", lambda: True)
    monkeypatch.setattr("critiqor.cli.dashboard.open_dashboard", lambda run_id, runs_dir: asked.append(run_id))
    assert cli("finalize", *arguments).code == 0
    assert asked == opened


def test_the_verbs_of_every_day_do_not_load_the_web_server(tmp_path: Path) -> None:
    code = "import sys, critiqor.cli.dashboard, critiqor.cli.finalize; print(sorted(sys.modules))"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert not [name for name in ("starlette", "uvicorn", "jinja2", "critiqor.dashboard") if f"'{name}'" in loaded]
