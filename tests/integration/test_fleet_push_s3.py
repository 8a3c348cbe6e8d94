"""An object store with the interface of S3, in a process of its own: failing requests, killed and concurrent pushes."""

from __future__ import annotations

import contextlib
import hashlib
import io
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest
from object_stores import BUCKET, environment_of, failing_proxy, free_port, s3_server, seal_small_run
from support import PATIENCE_SECONDS, Cli, Runs, attached, critiqor_command, environment, recorded, wait_until

from critiqor.fleet.errors import FleetUnavailableError
from critiqor.fleet.index.opening import open_index
from critiqor.fleet.store import object_store, request_errors
from critiqor.fleet.store.object_store import FleetStore, open_store
from critiqor.fleet.store.outbox import PushOutbox, SenderState
from critiqor.fleet.store.verification import incomplete_bundles, verify_store


@pytest.fixture(scope="module")
def s3() -> Iterator[int]:
    with s3_server() as port:
        yield port


class Machine:
    """A machine of the fleet: a home with settings, a runs folder, and the way to the store."""

    def __init__(self, home: Path, name: str, url: str, port: int, push: str = "private") -> None:
        self.home, self.name, self.url = home / name, name, url
        self.runs = Runs(self.home / "runs")
        self.extra = {"XDG_CONFIG_HOME": str(self.home / "config"), "XDG_DATA_HOME": str(home / "data")}
        self.extra |= environment_of(port)
        settings = self.home / "config" / "critiqor" / "config.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(f'[fleet]\nstore = "{url}"\npush = "{push}"\nhost = "{name}"\n')

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Call a verb, and wait for its end."""
        command, variables = critiqor_command(*arguments), environment(self.home, **self.extra)
        return subprocess.run(command, env=variables, cwd=self.home, capture_output=True, text=True, check=False)

    def start(self, *arguments: str, **extra: str) -> subprocess.Popen[bytes]:
        """Start a verb."""
        variables = environment(self.home, **{**self.extra, **extra})
        out = subprocess.DEVNULL
        return subprocess.Popen(critiqor_command(*arguments), env=variables, cwd=self.home, stdout=out, stderr=out)


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return f"s3://{BUCKET}/{hashlib.sha256(request.node.name.encode()).hexdigest()[:16]}"


@pytest.fixture(autouse=True)
def no_sender_is_left(tmp_path: Path) -> Iterator[None]:
    yield
    for process in psutil.process_iter(["cmdline"]):
        with contextlib.suppress(psutil.NoSuchProcess):
            command = process.info["cmdline"] or []
            if "critiqor.fleet" in command and any(word.startswith(str(tmp_path)) for word in command):
                process.kill()


def opened(url: str, port: int, monkeypatch: pytest.MonkeyPatch) -> FleetStore:
    for name, value in environment_of(port).items():
        monkeypatch.setenv(name, value)
    return open_store(url)


def check_every_run_is_there_once(store: FleetStore, machines: list[Machine], sealed: int) -> None:
    manifests = list(store.manifests())
    assert store.problems == []
    assert len({(each.host_id, each.run_id, each.seal) for each in manifests}) == len(manifests) == sealed
    assert {(each.host_id, each.run_id) for each in manifests} == {
        (machine.name, run_id) for machine in machines for run_id in machine.runs.paths.run_ids()
    }
    assert len(list(store.list("bundles"))) == sealed
    assert incomplete_bundles(store) == []
    assert [result.problems for result in verify_store(store, manifests) if not result.intact] == []


def indexed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    monkeypatch.setenv("XDG_DATA_HOME", machine.extra["XDG_DATA_HOME"])
    with open_index(None) as index:
        return sorted((run.host, run.run) for run in index.runs())


def test_runs_are_pushed_to_s3_verified_there_and_pulled(
    s3: int, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, "build-7", url, s3)
    seal_small_run(machine.runs)
    pushed = machine("push")
    assert pushed.returncode == 0, pushed.stderr
    assert "1 run stored" in pushed.stdout
    check_every_run_is_there_once(opened(url, s3, monkeypatch), [machine], 1)
    assert machine("verify", "--store", url).returncode == 0
    assert machine("pull", "build-7/run_001", "--runs-dir", "other").returncode == 0
    assert machine("verify", "run_001", "--runs-dir", "other").returncode == 0


def test_runs_are_verified_in_threads_without_a_crash(tmp_path: Path) -> None:
    """In every new process, threads meet each type of document for the first time."""
    machine = Machine(tmp_path, "build-7", f"file://{tmp_path}/store", 1)
    for _ in range(10):
        seal_small_run(machine.runs)
    assert machine("push").returncode == 0
    verifications = [machine.start("verify", "--store", machine.url) for _ in range(6)]
    assert [process.wait() for process in verifications] == [0] * 6


def test_a_missing_bucket_and_a_refused_connection_are_clear_messages_and_runs_wait(s3: int, tmp_path: Path) -> None:
    for name, url, port in (("a", "s3://no-such-bucket/x", s3), ("b", f"s3://{BUCKET}/x", free_port())):
        machine = Machine(tmp_path, name, url, port)
        seal_small_run(machine.runs)
        pushed = machine("push")
        assert pushed.returncode == 1
        assert "1 run waiting" in pushed.stdout
        assert "the store s3://" in pushed.stderr
        assert "Traceback" not in pushed.stderr
        assert "made-up" not in pushed.stderr
        assert "1 waiting" in machine("fleet", "status", "--offline").stdout


@pytest.mark.parametrize(
    ("backlog", "answers", "cause"),
    [(0, False, "no connection was made in time"), (50, False, "no answer came in time"), (50, True, "error")],
)
def test_a_store_that_does_not_answer_is_given_up_after_one_request_and_all_runs_wait(
    runs: Runs, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backlog: int, answers: bool, cause: str
) -> None:
    """No connection is accepted; or none is answered; or all are closed at once."""
    for name, seconds in {"CONNECT_SECONDS": 0.1, "ANSWER_SECONDS": 0.3, "GIVE_UP_SECONDS": 0.2}.items():
        monkeypatch.setattr(object_store, name, seconds)
    Machine(tmp_path, "build-7", f"s3://{BUCKET}/x", 1)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "build-7" / "config"))
    for _ in range(5):
        seal_small_run(runs)
    with silent_endpoint(backlog, closes=answers) as (port, connections):
        for name, value in environment_of(port).items():
            monkeypatch.setenv(name, value)
        pushed = cli("push")
        assert pushed.code == 1
        assert "5 runs waiting" in pushed.out
        assert f"the store s3://{BUCKET}/x failed to read manifests/build-7/run_001-" in pushed.err
        assert cause in pushed.err
        assert len(connections) <= 2 * (object_store.RETRIES + 1)
    assert len(PushOutbox(runs.paths).names("waiting")) == 5


@pytest.mark.parametrize("code", ["403 SignatureDoesNotMatch", "401 Denied", "400 AuthorizationHeaderMalformed"])
def test_wrong_credentials_are_not_tried_again_and_the_message_names_them(
    code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, _, name = code.partition(" ")
    answer = f"<Error><Code>{name}</Code></Error>".encode()
    with answering_endpoint(int(status), answer) as (port, requests):
        store = opened("s3://bucket/x", port, monkeypatch)
        tried: list[Callable[[], object]] = [store.check, lambda: store.create("a", b""), lambda: store.read("a")]
        for place, request in enumerate(tried, 1):
            with pytest.raises(FleetUnavailableError, match=name) as caught:
                request()
            assert caught.value.fix == "check the credentials, the region and the rights of the store"
            assert len(requests) == place


def test_missing_credentials_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering_endpoint(404, b"") as (port, _):
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        monkeypatch.setattr(request_errors, "_METADATA", re.compile(rf"http://127.0.0.1:{port}/latest"))
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(FleetUnavailableError, match="no credentials of the store s3://bucket are set") as caught:
            open_store("s3://bucket").check()
        assert caught.value.fix == "set the variables of the provider, such as AWS_ACCESS_KEY_ID"


@contextlib.contextmanager
def answering_endpoint(status: int, answer: bytes) -> Iterator[tuple[int, list[str]]]:
    """Give every request the same answer. Yield the port and the paths of the requests."""
    requests: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            requests.append(self.path)
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = _answer  # noqa: N815

        def log_message(self, format: str, *values: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port, requests
        server.shutdown()


@contextlib.contextmanager
def silent_endpoint(backlog: int, *, closes: bool) -> Iterator[tuple[int, list[socket.socket]]]:
    """Listen at a port, and answer nothing. Yield the port and the connections; without a backlog, there are none."""
    connections: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=backlog) as listening, contextlib.ExitStack() as ends:
        port = listening.getsockname()[1]

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connections.append(listening.accept()[0])
                    if closes:
                        connections[-1].close()

        if backlog:
            threading.Thread(target=accept, daemon=True).start()
        else:
            for _ in range(3):  # the first ones fill the queue
                client = ends.enter_context(socket.socket())
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", port))
        yield port, connections
        listening.shutdown(socket.SHUT_RDWR)


def test_a_large_object_is_sent_in_parts_and_is_never_replaced(
    s3: int, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "MAX_SINGLE", 1 << 20)
    monkeypatch.setattr(object_store, "PART_BYTES", 5 << 20)
    first, second = (random.Random(seed).randbytes(12 << 20) for seed in (1, 2))
    digests = [hashlib.sha256(data).hexdigest() for data in (first, second)]
    with failing_proxy(s3, 0.1) as port:
        store = opened(url, port, monkeypatch)
        store.create_from_file("bundles/h/r.zip", io.BytesIO(first), len(first), f"sha256:{digests[0]}")
        assert not store.create_from_file("bundles/h/r.zip", io.BytesIO(second), len(second), f"sha256:{digests[1]}")
        assert store.sealed_file("bundles/h/r.zip").digest == f"sha256:{digests[0]}"
        with store.reader("bundles/h/r.zip") as file:
            file.seek(-5, 2)
            assert file.read() == first[-5:]
    assert list(opened(url, s3, monkeypatch).list("uploads")) == []


def test_pushes_that_are_killed_at_any_moment_lose_and_double_nothing(
    s3: int, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, "build-7", url, s3)
    for number in range(12):
        seal_small_run(machine.runs, f"Answer {number}.")
    chance = random.Random(5)
    for _ in range(6):
        process = machine.start("push")
        time.sleep(chance.uniform(0.3, 1.5))
        process.kill()
        process.wait()
    assert machine("push").returncode == 0
    check_every_run_is_there_once(opened(url, s3, monkeypatch), [machine], 12)
    assert indexed(machine, monkeypatch) == [("build-7", run_id) for run_id in machine.runs.paths.run_ids()]


def test_two_machines_and_two_pushes_of_one_at_once_through_a_store_that_fails_every_tenth_request(
    s3: int, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with failing_proxy(s3, 0.1) as port:
        machines = [Machine(tmp_path, name, url, port) for name in ("build-7", "build-8")]
        for machine in machines:
            for number in range(8):
                seal_small_run(machine.runs, f"Answer {number}.")
        # Its settings name no store, so it has no outbox with a lock: both store the same runs at the same time.
        bare = tmp_path / "bare" / "critiqor" / "config.toml"
        bare.parent.mkdir(parents=True)
        bare.write_text('[fleet]\nhost = "build-7"\n')
        same = machines[0].start("push", "--to", url, "--allow", "private", XDG_CONFIG_HOME=str(tmp_path / "bare"))
        pushes = [same, *(machine.start("push") for machine in machines)]
        for process in pushes:
            process.wait(PATIENCE_SECONDS * 4)
        # A store that fails ten times in a row makes a push wait; the next one catches up.
        for machine in machines:
            wait_until(lambda machine=machine: machine("push").returncode == 0)  # type: ignore[misc]
    check_every_run_is_there_once(opened(url, s3, monkeypatch), machines, 16)
    assert len(indexed(machines[0], monkeypatch)) == 16


def test_finalize_pushes_in_the_background_and_catches_up_when_the_store_returns(
    s3: int, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    machine = Machine(tmp_path, "build-7", url, port)
    for _ in range(2):
        run_id = machine.runs.start()
        machine.runs.write(run_id, attached(), recorded(2, "agent_start"), recorded(3, "agent_end"))
        finalized = machine("finalize", "--no-dashboard")
        assert finalized.returncode == 0, finalized.stderr
        assert f"{run_id} is pushed to {url} in the background (private runs too, full content)" in finalized.stderr
        wait_until(lambda: PushOutbox(machine.runs.paths).state().reason)
    assert "the last attempt failed: the store" in machine("fleet", "status", "--offline").stdout
    with _forwarded(port, s3):
        store = opened(url, s3, monkeypatch)
        # On a slow machine, many attempts have failed by now, and the next one would be late.
        PushOutbox(machine.runs.paths).save_state(SenderState())
        wait_until(lambda: machine("runs").returncode == 0 and len(list(store.manifests())) == 2)
        wait_until(lambda: len(indexed(machine, monkeypatch)) == 2)
    check_every_run_is_there_once(store, [machine], 2)


@contextlib.contextmanager
def _forwarded(port: int, target: int) -> Iterator[None]:
    """Let an S3 endpoint appear at another port."""
    command = [sys.executable, str(Path(__file__).parent.parent / "object_stores.py"), str(target), "0", str(port)]
    process = subprocess.Popen(command)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_a_finalize_that_is_killed_after_sealing_is_pushed_by_the_next_process(
    s3: int, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, "build-7", url, s3)
    run = seal_small_run(machine.runs)
    PushOutbox(run.paths).expect(run.id)  # what it leaves behind
    store = opened(url, s3, monkeypatch)
    assert machine("runs").returncode == 0
    wait_until(lambda: len(list(store.manifests())) == 1)


def test_a_private_run_is_not_pushed_by_finalize_where_only_shared_ones_are(
    s3: int, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, "build-7", url, s3, push="shared")
    run_id = machine.runs.start()
    machine.runs.write(run_id, attached(), recorded(2, "agent_start"), recorded(3, "agent_end"))
    finalized = machine("finalize", "--no-dashboard")
    assert finalized.returncode == 0
    assert "run_001 stays on this machine: it is private" in finalized.stderr
    assert machine("push").returncode == 0
    assert list(opened(url, s3, monkeypatch).manifests()) == []


_WITHOUT_EXTRA = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"obstore", "psycopg", "psycopg_pool", "distributed", "dask", "pyarrow"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
sys.argv = ["critiqor", *sys.argv[1:]]
from critiqor.cli import main
try:
    main()
finally:
    loaded = [name for name in sys.modules if name.startswith(("critiqor.fleet", "obstore"))]
    print("loaded:", *sorted(loaded), file=sys.stderr)
"""


def without_extra(machine: Machine, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _WITHOUT_EXTRA, *arguments]
    variables = environment(machine.home, **machine.extra)
    return subprocess.run(command, env=variables, cwd=machine.home, capture_output=True, text=True, check=False)


def test_without_the_extra_the_message_names_it_and_finalize_works(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "build-7", f"file://{tmp_path}/store", 1)
    run_id = machine.runs.start()
    machine.runs.write(run_id, attached(), recorded(2, "agent_start"), recorded(3, "agent_end"))
    finalized = without_extra(machine, "finalize", "--no-dashboard")
    assert finalized.returncode == 0, finalized.stderr
    assert "the extra `fleet` is not installed" in finalized.stderr
    for arguments in (("push",), ("pull", "a/b"), ("verify", "--store", f"file://{tmp_path}/store")):
        refused = without_extra(machine, *arguments)
        assert refused.returncode == 1
        assert "this needs the extra `fleet`, which is not installed (obstore is missing)" in refused.stderr
        assert 'pip install ".[fleet]"' in refused.stderr
        assert "Traceback" not in refused.stderr
    assert "not installed" in without_extra(machine, "fleet", "status").stdout


def test_other_verbs_import_nothing_of_the_fleet(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "build-7", f"file://{tmp_path}/store", 1)
    seal_small_run(machine.runs)
    (machine.home / "config" / "critiqor" / "config.toml").unlink()
    for arguments in (("--help",), ("runs",), ("show", "run_001"), ("verify", "run_001"), ("push", "--help")):
        called = without_extra(machine, *arguments)
        assert called.returncode == 0, called.stderr
        assert called.stderr.endswith("loaded:\n")
    assert socket.gethostname() not in without_extra(machine, "fleet", "status", "--json").stdout
