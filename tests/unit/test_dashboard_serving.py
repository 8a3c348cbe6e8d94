"""The dashboard as a process: where it listens, how it is reached, how it ends."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import psutil
import pytest
from dashboards import failing_tests
from served import Served
from support import PATIENCE_SECONDS, Cli, Runs, attached, recorded, run_critiqor
from terminal import shown

from critiqor.cli import browser
from critiqor.dashboard.web.bind_address import DEFAULT_PORT


@pytest.fixture
def served(runs: Runs, tmp_path: Path) -> Iterator[Served]:
    failing_tests(runs)
    process = Served(runs, tmp_path, "run_001")
    yield process
    process.killed()


def test_it_listens_on_loopback_alone_and_ends_when_interrupted(served: Served) -> None:
    listening = [
        each.laddr for each in psutil.Process(served.process.pid).net_connections() if each.status == psutil.CONN_LISTEN
    ]
    assert [address.ip for address in listening] == ["127.0.0.1"]
    assert [address.port for address in listening] == [served.data["port"]]
    assert served.ended() == 0


def test_the_link_opens_it_and_its_cookie_is_all_that_is_needed(served: Served) -> None:
    link = served.data["link"]
    assert urlsplit(link).hostname == "127.0.0.1"
    assert len(parse_qs(urlsplit(link).query)["token"][0]) >= 43
    with httpx2.Client(trust_env=False) as client:
        assert client.get(f"{served.data['address']}/runs").status_code == 403
        assert client.get(link).status_code == 200
        page = client.get(f"{served.data['address']}/runs/run_001")
        assert page.status_code == 200 and "run_001" in page.text
        assert "server" not in page.headers
        assert client.get(f"{served.data['address']}/runs", headers={"host": "evil.example"}).status_code == 403


def test_an_open_stream_shows_events_and_does_not_delay_the_end(runs: Runs, served: Served) -> None:
    run_id = runs.start()
    with httpx2.Client(trust_env=False, timeout=PATIENCE_SECONDS) as client:
        client.get(served.data["link"])
        with client.stream("GET", f"{served.data['address']}/runs/{run_id}/live/stream") as stream:
            lines = stream.iter_lines()
            next(line for line in lines if line == "event: state")
            runs.write(run_id, recorded(1, "message_end", payload={"text": "written later"}))
            assert "written later" in next(line for line in lines if "message_end" in line)
            assert served.ended() == 0


def test_the_help_names_the_usual_port(tmp_path: Path) -> None:
    assert f"[default: {DEFAULT_PORT}, or a free one]" in " ".join(
        run_critiqor("dashboard", "--help", home=tmp_path).stdout.split()
    )


def test_a_port_in_use_is_an_error(runs: Runs, cli: Cli) -> None:
    failing_tests(runs)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        answer = cli("dashboard", "--json", "--port", str(taken.getsockname()[1]))
    assert answer.code == 1
    assert "cannot listen on" in answer.error["message"]


def test_with_several_tenants_some_must_be_named(runs: Runs, cli: Cli) -> None:
    failing_tests(runs, tenant_id="ours")
    failing_tests(runs, tenant_id="their's")
    answer = cli("dashboard", "--json")
    assert answer.code == 2
    commands = [line.strip() for line in answer.error["fix"].splitlines()]
    assert commands == [
        "critiqor dashboard --tenant ours",
        """critiqor dashboard --tenant 'their'"'"'s'""",
        """critiqor dashboard --tenant ours --tenant 'their'"'"'s'""",
    ]


def test_several_tenants_are_shown_together_and_others_are_not(runs: Runs, tmp_path: Path) -> None:
    for tenant in ("ours", "yours", "theirs"):
        failing_tests(runs, tenant_id=tenant)
    served = Served(runs, tmp_path, "--tenant", "ours", "--tenant", "yours", "--tenant", "ours")
    try:
        assert served.data["tenants"] == ["ours", "yours"]
        cookie = {"Cookie": served.cookie}
        listed = served.ask("/runs", headers=cookie).body.decode()
        assert "/runs/run_001" in listed and "/runs/run_002" in listed
        assert "run_003" not in listed and "theirs" not in listed
        assert served.ask("/compare?run=run_001&run=run_002", headers=cookie).status == 200
        assert served.ask("/compare?run=run_001&run=run_003", headers=cookie).status == 404
        assert served.ask("/runs/run_003", headers=cookie).status == 404
    finally:
        served.killed()


def test_a_variable_or_a_setting_names_one_tenant_whatever_its_name(
    runs: Runs, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    failing_tests(runs, tenant_id="two words")
    failing_tests(runs, tenant_id="two")
    received: dict[str, Any] = {}
    monkeypatch.setattr("critiqor.dashboard.web.serving.serve", lambda *_, **options: received.update(options))
    monkeypatch.setenv("CRITIQOR_TENANT_ID", "two words")
    assert cli("dashboard").code == 0
    assert received["tenants"] == ("two words",)
    monkeypatch.delenv("CRITIQOR_TENANT_ID")
    assert cli("dashboard").code == 0
    assert received["tenants"] == ()
    (tmp_path / "critiqor.toml").write_text('tenant_id = "from a file"')
    assert cli("dashboard").code == 0
    assert received["tenants"] == ("from a file",)
    assert cli("dashboard", "--tenant", "two", "--tenant", "two words").code == 0
    assert received["tenants"] == ("two", "two words")


@pytest.mark.parametrize("host", ["192.0.2.1", "[2001:db8::1]", "2001:db8::1", "::ffff:192.0.2.1"])
def test_a_public_address_needs_require_token(runs: Runs, cli: Cli, host: str) -> None:
    failing_tests(runs)
    answer = cli("dashboard", "--json", "--host", host)
    assert answer.code == 2
    assert f"critiqor dashboard --host {quote(host)} --require-token" in answer.error["fix"]
    # Nobody has these addresses, so that it goes no further than to the system.
    assert "cannot listen on" in cli("dashboard", "--json", "--host", host, "--require-token").error["message"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "[::]", "::ffff:0.0.0.0", "0x0", "0"])
@pytest.mark.parametrize("option", [[], ["--require-token"]])
def test_a_wildcard_address_is_refused(runs: Runs, cli: Cli, host: str, option: list[str]) -> None:
    failing_tests(runs)
    answer = cli("dashboard", "--json", "--host", host, *option)
    assert answer.code == 2
    assert "--host ADDRESS" in answer.error["fix"]


def test_another_address_of_this_machine_is_served_by_its_own_name_alone(runs: Runs, tmp_path: Path) -> None:
    failing_tests(runs, visibility="public")
    served = Served(runs, tmp_path, "--host", "127.0.0.2", "--require-token")
    try:
        assert served.data["address"] == f"http://127.0.0.2:{served.port}"
        named = f"127.0.0.2:{served.port}"
        assert served.ask("/runs/run_001", host=named).status == 403
        assert served.ask("/runs/run_001", host=named, headers={"Cookie": served.cookie}).status == 200
        for other in (f"127.0.0.1:{served.port}", f"localhost:{served.port}"):
            assert served.ask("/runs/run_001", host=other, headers={"Cookie": served.cookie}).status == 403
    finally:
        served.killed()


def test_where_a_token_is_required_a_link_to_a_run_is_one(runs: Runs, tmp_path: Path) -> None:
    run_id = failing_tests(runs, visibility="public")
    served = Served(runs, tmp_path, "--require-token")
    try:
        address, origin = f"/runs/{run_id}", {"Origin": f"http://{served.host}", "Cookie": served.cookie}
        assert served.data["requires_token"] is True
        assert served.ask(address).status == 403
        made = served.ask(f"{address}/links", "POST", headers=origin).body.decode()
        link = re.search(r"/share/([\w-]+)", made)
        assert link
        entered = served.ask(link[0])
        assert entered.status == 200
        assert entered.headers["set-cookie"].startswith(f"critiqor_{served.port}=")
        assert served.ask(address, headers={"Cookie": f"critiqor_{served.port}={link[1]}"}).status == 200
    finally:
        served.killed()


@pytest.mark.parametrize("arguments", [["run_009"], ["run_001", "--tenant", "other"], ["../run_001"]])
def test_an_unknown_run_is_an_error_before_the_dashboard_opens(runs: Runs, cli: Cli, arguments: list[str]) -> None:
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
def test_a_browser_is_opened_only_with_a_terminal_and_a_display(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, variables: dict[str, str], looks: bool
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "CI"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("sys.stdin", Terminal(is_terminal))
    monkeypatch.setattr("sys.stdout", Terminal(is_terminal))
    assert browser.has_display() is looks


@pytest.mark.parametrize(("arguments", "opened"), [([], ["run_001"]), (["--no-dashboard"], []), (["--json"], [])])
def test_finalize_opens_the_dashboard_if_there_is_a_display(
    runs: Runs, cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: list[str], opened: list[str]
) -> None:
    runs.start()
    requested: list[str] = []
    monkeypatch.setattr(browser, "has_display", lambda: True)
    monkeypatch.setattr(browser, "open_dashboard", lambda run_id, runs_dir: requested.append(run_id))
    assert cli("finalize", *arguments).code == 0
    assert requested == opened


def test_other_verbs_do_not_import_the_web_server(tmp_path: Path) -> None:
    code = "import sys, critiqor.cli.verbs.dashboard, critiqor.cli.verbs.finalize; print(sorted(sys.modules))"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert not [name for name in ("starlette", "uvicorn", "jinja2", "critiqor.dashboard") if f"'{name}'" in loaded]


def test_finalize_in_a_terminal_without_a_display_says_how_to_look(runs: Runs, tmp_path: Path) -> None:
    run_id = runs.start()
    runs.write(run_id, attached(), recorded(2), recorded(3, "agent_end"))
    result = shown("finalize", "--runs-dir", runs.paths.runs_dir, home=tmp_path, columns=200)
    assert f"its link: critiqor dashboard {run_id} --runs-dir {runs.paths.runs_dir}" in result.text
    again = shown("finalize", run_id, "--no-dashboard", "--runs-dir", runs.paths.runs_dir, home=tmp_path, columns=200)
    assert "its link" not in again.text
