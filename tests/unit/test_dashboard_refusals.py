"""Requests that the dashboard refuses, at every route, sent over a socket."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
import uvicorn
from dashboards import Dashboard, event_ids, failing_tests
from served import Response, Served
from starlette.routing import Mount, Route
from support import PATIENCE_SECONDS, Runs

from critiqor.dashboard.pages.site import Site
from critiqor.dashboard.web import connections
from critiqor.dashboard.web.application import application
from critiqor.dashboard.web.bind_address import LOOPBACK, listen, resolve_host
from critiqor.dashboard.web.connections import Connection
from critiqor.dashboard.web.middleware import CONTENT_SECURITY
from critiqor.run.store import RunStore

SECRET_TEXT = b"npm test"
"""Text of every run that others must not see."""
FILLED = {"token": "x", "event_id": "EVENT", "session:path": "agent:main:main", "link_id": "x", "visibility": "public"}
FILLED |= {"finding_id": "finding_001", "judgement": "wrong"}


class Address(NamedTuple):
    """One route of the dashboard."""

    method: str
    path: str

    def of(self, run: str) -> str:
        return self.path.replace("{run_id}", run)

    @property
    def is_about_a_run(self) -> bool:
        return "{run_id}" in self.path


def _addresses() -> list[Address]:
    found = []
    for route in application(Site(RunStore("nowhere"), 1)).routes:
        if isinstance(route, Mount):
            found.append(Address("GET", f"{route.path}/icon.svg"))
            continue
        assert isinstance(route, Route) and route.methods
        path = re.sub(r"{([\w:]+)}", lambda name: FILLED.get(name[1], name[0]), route.path)
        found.append(Address("POST" if "POST" in route.methods else "GET", path))
    return found


NEEDS_MORE = ("/open", "/share", "/compare", "/runs/export", "/runs/removal")
"""Pages that need a token or the names of runs."""
ADDRESSES = _addresses()
ABOUT_A_RUN = [address for address in ADDRESSES if address.is_about_a_run]
every_address = pytest.mark.parametrize("address", ADDRESSES, ids=lambda address: f"{address.method} {address.path}")
every_run_address = pytest.mark.parametrize(
    "address", ABOUT_A_RUN, ids=lambda address: f"{address.method} {address.path}"
)
NOT_RUN_IDS = (
    "..",
    "../run_001",
    "..%2frun_001",
    "%2e%2e%2frun_001",
    "%2e%2e/run_001",
    "%252e%252e%252frun_001",
    "..\\run_001",
    "..%5crun_001",
    "%2e%2e%5crun_001",
    "....//run_001",
    "run_001%00",
    "%00",
    "run_001%2f..%2frun_001",
    "run_001%2fsession",
    "%2fetc%2fpasswd",
    "..%c0%afrun_001",
    "%ff%fe",
    "run_001%0a",
    "run_001%20",
    "RUN_001",
    "run_001.json",
    "run_001~",
    ".links",
    ".last_run",
    "active_session",
    "run_404",
    "a" * 200,
    "a" * 20_000,
    "%61" * 5000,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    runs = Runs(tmp_path_factory.mktemp("refusals") / "runs")
    failing_tests(runs, tenant_id="ours")
    failing_tests(runs, tenant_id="theirs", visibility="shared")
    return runs


@pytest.fixture(scope="module")
def served(folder: Runs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    process = Served(folder, tmp_path_factory.mktemp("home"), "--tenant", "ours")
    yield process
    process.killed()


@pytest.fixture(scope="module")
def locked(folder: Runs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A dashboard that requires a token."""
    process = Served(folder, tmp_path_factory.mktemp("locked"), "--tenant", "ours", "--require-token")
    yield process
    process.killed()


def user_headers(served: Served, cookie: str | None = None) -> dict[str, str]:
    """Return the headers of the user's browser."""
    return {"Origin": f"http://{served.host}", "Cookie": served.cookie if cookie is None else cookie}


def event_of(served: Served) -> str:
    return event_ids(served.ask("/runs/run_001/evidence", headers=user_headers(served)).body.decode())[0]


def test_the_table_has_every_address(served: Served) -> None:
    assert len(ADDRESSES) > 20
    event = event_of(served)
    for address in ADDRESSES:
        if address.method == "GET" and not address.path.startswith(NEEDS_MORE):
            path = address.of("run_001").replace("EVENT", event)
            assert served.ask(path, headers=user_headers(served)).status in (200, 303), path


@every_address
@pytest.mark.parametrize(
    "host",
    [
        "elsewhere.example",
        "127.0.0.1",
        "localhost",
        "127.0.0.1:1",
        "127.0.0.1.elsewhere.example:{port}",
        "0.0.0.0:{port}",
        "[::1]:{port}",
        "127.0.0.1:{port}@elsewhere.example",
        "127.0.0.1:{port},elsewhere.example",
        "2130706433:{port}",
    ],
)
def test_another_host_is_refused(served: Served, address: Address, host: str) -> None:
    named = host.replace("{port}", str(served.port))
    answer = served.ask(address.of("run_001"), address.method, host=named, headers=user_headers(served))
    _is_refused(answer, 403)


@every_address
def test_no_host_and_two_hosts_are_refused(served: Served, address: Address) -> None:
    start = f"{address.method} {address.of('run_001')} HTTP/"
    tail = f"Cookie: {served.cookie}\r\nOrigin: http://{served.host}\r\nConnection: close\r\n\r\n"
    for head in ("1.0\r\n", "1.1\r\n", f"1.1\r\nHost: {served.host}\r\nHost: elsewhere.example\r\n"):
        answer = served.send((start + head + tail).encode())
        assert answer.status in (400, 403) and SECRET_TEXT not in answer.body


@every_address
@pytest.mark.parametrize(
    "origin",
    (
        *("null", "", "http://elsewhere.example", "https://{host}", "http://127.0.0.1", "HTTP://{host}"),
        *("http://{host}.elsewhere.example", "http://{host}/", "http://elsewhere.example http://{host}"),
    ),
)
def test_another_origin_is_refused(served: Served, folder: Runs, address: Address, origin: str) -> None:
    headers = {**user_headers(served), "Origin": origin.replace("{host}", served.host)}
    _is_refused(served.ask(address.of("run_001"), address.method, headers=headers), 403)
    assert folder.record("run_001")["metadata"]["visibility"] == "private"


@every_address
@pytest.mark.parametrize(
    "cookie", ["", "critiqor_{port}=", "critiqor_{port}=guessed", "critiqor_1={token}", "a=b; {token}"]
)
def test_without_a_valid_token_nothing_of_a_run_is_shown(
    served: Served, folder: Runs, address: Address, cookie: str
) -> None:
    header = cookie.replace("{port}", str(served.port)).replace("{token}", served.token)
    answer = served.ask(address.of("run_001"), address.method, headers=user_headers(served, header))
    assert SECRET_TEXT not in answer.body
    if address.is_about_a_run:
        # What is not good is refused; what is none at all finds nothing, and changes nothing.
        assert answer.status == (403 if "_{port}" in cookie or address.method == "POST" else 404)
    elif address.path in ("/runs", "/compare", "/open", "/share/x"):
        assert answer.status == 403
    assert folder.record("run_001")["metadata"]["visibility"] == "private"


@every_address
@pytest.mark.parametrize("cookie", ["", "critiqor_{port}=guessed"])
def test_a_required_token_protects_every_route(locked: Served, address: Address, cookie: str) -> None:
    headers = user_headers(locked, cookie.replace("{port}", str(locked.port)))
    answer = locked.ask(address.of("run_001"), address.method, headers=headers)
    assert answer.status == (200 if address.path.startswith(("/static/", "/favicon.ico")) else 403)


@every_run_address
def test_a_run_of_another_tenant_looks_like_a_missing_one(served: Served, folder: Runs, address: Address) -> None:
    theirs = served.ask(address.of("run_002"), address.method, headers=user_headers(served))
    none = served.ask(address.of("run_404"), address.method, headers=user_headers(served))
    assert (theirs.status, theirs.body) == (404, none.body.replace(b"run_404", b"run_002"))
    assert folder.record("run_002")["metadata"]["visibility"] == "shared"


@every_run_address
@pytest.mark.parametrize("name", NOT_RUN_IDS, ids=lambda name: name[:24])
def test_an_invalid_run_id_is_not_found(served: Served, address: Address, name: str) -> None:
    answer = served.ask(address.of(name), address.method, headers=user_headers(served))
    # Behind `/run_001/session/` and the like there is no address at all, or none for this method.
    assert answer.status in (404, 405)
    assert SECRET_TEXT not in answer.body and b"root:" not in answer.body


@every_address
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "get"])
def test_other_methods_are_refused(served: Served, folder: Runs, address: Address, method: str) -> None:
    answer = served.ask(address.of("run_001"), method, headers=user_headers(served))
    _is_refused(answer, 405)
    _is_refused(served.ask(address.of("run_001"), method, headers={"Cookie": served.cookie}), 403)
    assert folder.record("run_001")["metadata"]["visibility"] == "private"


@every_address
def test_a_change_is_made_by_post_and_a_page_is_not(served: Served, address: Address) -> None:
    other = "GET" if address.method == "POST" else "POST"
    _is_refused(served.ask(address.of("run_001"), other, headers=user_headers(served)), 405)


@pytest.mark.parametrize("address", [each for each in ADDRESSES if each.method == "GET"], ids=lambda each: each.path)
def test_a_head_request_returns_the_headers_and_ends(served: Served, address: Address) -> None:
    path = address.of("run_001").replace("EVENT", event_of(served))
    whole = served.ask(path, headers=user_headers(served))
    head = served.ask(path, "HEAD", headers=user_headers(served))
    assert (head.status, head.body) == (whole.status, b"")
    assert head.headers["content-security-policy"] == CONTENT_SECURITY


@every_address
def test_a_too_large_request_is_refused_and_the_next_one_is_answered(served: Served, address: Address) -> None:
    long = "a" * 200_000
    path = address.of("run_001")
    for response in (
        served.ask(f"{path}?q={long}", address.method, headers=user_headers(served)),
        served.ask(path, address.method, headers={**user_headers(served), "X-Long": long}),
        served.ask(path, address.method, headers=user_headers(served, f"critiqor_{served.port}={long}")),
    ):
        assert response.status == 400 and SECRET_TEXT not in response.body
    many = {f"X-{number}": "x" for number in range(20_000)}
    assert served.ask(path, address.method, headers={**user_headers(served), **many}).status == 400
    assert served.ask("/static/icon.svg").status == 200


@pytest.mark.parametrize(
    "path",
    (
        *("/static/../gate.py", "/static/../../cli/group.py", "/static/%2e%2e/gate.py", "/static/..%2fgate.py"),
        *("/static/%252e%252e/gate.py", "/static/..\\gate.py", "/static//etc/passwd", "/static/%2fetc%2fpasswd"),
        *("/static/none", "/static/icon.svg%00", "/static/%00", "/static/" + "a" * 5000, "/static/" + "a/" * 2000),
        *("//static/../gate.py", "/static", "/static/", "http://elsewhere.example/static/icon.svg"),
    ),
)
def test_static_files_are_those_of_their_folder(served: Served, path: str) -> None:
    answer = served.ask(path)
    assert answer.status in (404, 405, 307)
    assert b"import" not in answer.body and b"root:" not in answer.body


def test_an_invalid_request_is_refused(served: Served) -> None:
    future = b"GET / HTTP/9.9\r\nConnection: close\r\n\r\n"
    for data in (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", future, b"GET\r\n\r\n", b"\x00" * 100_000):
        assert served.send(data).status in (400, 403)
    upgrade = {
        **user_headers(served),
        "Connection": "close, Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
    }
    answer = served.ask("/runs", headers=upgrade)
    assert answer.status == 200 and "upgrade" not in answer.headers


def test_proxy_headers_are_ignored(served: Served) -> None:
    forwarded = {
        "X-Forwarded-Host": "elsewhere.example",
        "X-Forwarded-Proto": "https",
        "Forwarded": "host=elsewhere.example",
    }
    answer = served.ask("/runs/", headers={**user_headers(served), **forwarded})
    assert answer.status == 307
    assert answer.headers["location"] == f"http://{served.host}/runs"


@pytest.mark.parametrize(
    "request_bytes",
    [b"", b"GET /runs HTTP/1.1\r\nHost: ", b"GET /static/icon.svg HTTP/1.1\r\nHost: {host}\r\n\r\nGET /"],
)
def test_an_incomplete_request_is_disconnected(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, request_bytes: bytes
) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.2)
    listener = listen(resolve_host(LOOPBACK), 0)
    port = listener.getsockname()[1]
    app = application(Site(RunStore(runs.folder), port))
    options = uvicorn.Config(
        app, http=Connection, ws="none", lifespan="off", log_level="critical", timeout_keep_alive=1
    )
    server = uvicorn.Server(options)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        with closing(socket.create_connection((LOOPBACK, port), timeout=PATIENCE_SECONDS)) as connection:
            connection.sendall(request_bytes.replace(b"{host}", f"127.0.0.1:{port}".encode()))
            while connection.recv(1 << 16):
                pass  # until the server closes it
    finally:
        server.should_exit = True
        thread.join(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    "place", ["run_path", "visibility_path", "evidence_summary_path", "diagnosis_path", "journal_path", "timeline_path"]
)
def test_a_pipe_instead_of_a_file_does_not_block(runs: Runs, place: str) -> None:
    run_id, other = failing_tests(runs), failing_tests(runs)
    path: Path = getattr(runs.paths, place)(run_id)
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path)
    client = Dashboard(runs).user()
    assert client.get(f"/runs/{run_id}").status_code == 404
    assert client.get(f"/compare?run={run_id}&run={other}").status_code == 404
    listed = client.get("/runs").text
    assert f"/runs/{other}" in listed and f"/runs/{run_id}" not in listed


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_links_are_read_only_from_a_regular_file(runs: Runs, tmp_path: Path, kind: str) -> None:
    run_id = failing_tests(runs, visibility="shared")
    dashboard = Dashboard(runs)
    guest = dashboard.guest(run_id)
    file = runs.folder / ".links.json"
    kept = file.rename(tmp_path / "links.json")
    if kind == "link":
        file.symlink_to(kept)
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.mkdir()
    assert guest.get(f"/runs/{run_id}").status_code == 403


def _is_refused(answer: Response, status: int) -> None:
    assert answer.status == status
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY
    assert "set-cookie" not in answer.headers
    assert SECRET_TEXT not in answer.body
