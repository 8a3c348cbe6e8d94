"""`critiqor fleet diagnose` with real worker processes, of a pool and of a Dask cluster, some of which are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest
from fleet_cluster import Cluster, free_port
from fleet_runs import Fleet, without_times
from support import PATIENCE_SECONDS, critiqor_command, environment, wait_until
from terminal import shown

from critiqor.diagnosis import RULE_SET_VERSION


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    home = tmp_path / "cluster"
    home.mkdir()
    with ExitStack() as ends:
        yield Cluster(home, ends)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path, runs_per_host=8, reads=200)


def start_diagnosing(fleet: Fleet, home: Path, *options: str) -> subprocess.Popen[str]:
    command = critiqor_command("fleet", "diagnose", "--store", fleet.url, "--json", *options)
    return subprocess.Popen(
        command,
        env=environment(home),
        cwd=home,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def stored(fleet: Fleet) -> int:
    return sum(1 for _ in fleet.store.list("diagnoses"))


def wait_for_some(fleet: Fleet, driver: subprocess.Popen[str]) -> None:
    """Wait until a few diagnoses are stored, but not nearly all."""
    deadline = time.monotonic() + 4 * PATIENCE_SECONDS
    while stored(fleet) < 2:
        assert driver.poll() is None, driver.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def assert_complete(fleet: Fleet) -> None:
    """Every run has a diagnosis, which is that of its host byte for byte but for times."""
    assert stored(fleet) == len(fleet.manifests)
    for manifest in fleet.manifests:
        found = fleet.stored_diagnosis(manifest, RULE_SET_VERSION)
        assert found is not None
        assert without_times(found) == without_times(fleet.local_diagnosis(manifest))


def report_of(driver: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = driver.communicate(timeout=4 * PATIENCE_SECONDS)
    assert driver.returncode == 0, err
    report: dict[str, Any] = json.loads(out)["data"]
    return report


def pool_of(driver: subprocess.Popen[str]) -> list[psutil.Process]:
    return [each for each in psutil.Process(driver.pid).children() if "spawn_main" in " ".join(each.cmdline())]


def test_a_killed_process_of_the_pool_loses_nothing(fleet: Fleet, tmp_path: Path) -> None:
    driver = start_diagnosing(fleet, tmp_path, "--workers", "2")
    wait_for_some(fleet, driver)
    os.kill(pool_of(driver)[0].pid, signal.SIGKILL)
    assert stored(fleet) < len(fleet.manifests)
    out, err = driver.communicate(timeout=4 * PATIENCE_SECONDS)
    assert driver.returncode == 0
    assert "a worker process died" in err
    report = json.loads(out)["data"]
    assert (report["selected"], report["failed"]) == (16, 0)
    assert report["diagnosed"] + report["already_diagnosed"] == 16
    assert_complete(fleet)


def test_a_driver_that_was_killed_is_repeated_to_go_on(fleet: Fleet, tmp_path: Path) -> None:
    driver = start_diagnosing(fleet, tmp_path, "--workers", "2")
    wait_for_some(fleet, driver)
    workers = pool_of(driver)
    driver.kill()
    driver.communicate()
    wait_until(lambda: not any(map(is_working, workers)))
    done = stored(fleet)
    assert 2 <= done < len(fleet.manifests)
    report = report_of(start_diagnosing(fleet, tmp_path, "--workers", "2"))
    assert (report["diagnosed"], report["already_diagnosed"], report["failed"]) == (16 - done, done, 0)
    assert report["different"] == 16
    assert_complete(fleet)


def is_working(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_cluster_whose_worker_is_killed_makes_the_same_diagnoses(
    fleet: Fleet, cluster: Cluster, tmp_path: Path
) -> None:
    damaged = fleet.manifests.pop()
    fleet.bundle_file(damaged).write_bytes(b"no archive")
    cluster.add_worker()
    cluster.wait_for_workers()
    driver = start_diagnosing(fleet, tmp_path, "--cluster", cluster.address)
    wait_for_some(fleet, driver)
    os.kill(cluster.workers[0].pid, signal.SIGSTOP)
    done = stored(fleet)
    assert done < len(fleet.manifests)
    cluster.add_worker()
    cluster.workers[0].kill()
    out, err = driver.communicate(timeout=4 * PATIENCE_SECONDS)
    report = json.loads(out)["data"]
    assert driver.returncode == 1, err
    assert [(each["host_id"], each["run_id"]) for each in report["problems"]] == [(damaged.host_id, damaged.run_id)]
    # A task whose worker died after it had stored the diagnosis is repeated, and finds it there.
    assert report["diagnosed"] + report["already_diagnosed"] == 15
    assert "Traceback" not in err
    assert_complete(fleet)


def test_a_cluster_that_goes_away_is_reported_and_the_work_is_continued_without_it(
    fleet: Fleet, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.add_worker()
    cluster.wait_for_workers()
    driver = start_diagnosing(fleet, tmp_path, "--cluster", cluster.address)
    wait_for_some(fleet, driver)
    cluster.workers[0].kill()
    cluster.scheduler.kill()
    out, err = driver.communicate(timeout=4 * PATIENCE_SECONDS)
    assert driver.returncode == 1
    error = json.loads(out)["error"]
    assert "has gone away" in error["message"]
    assert "type the same command again" in error["fix"]
    assert "Traceback" not in err
    report = report_of(start_diagnosing(fleet, tmp_path, "--workers", "2"))
    assert report["already_diagnosed"] >= 2
    assert_complete(fleet)


def test_a_cluster_that_nobody_answers_for_or_without_workers_is_reported(tmp_path: Path, cluster: Cluster) -> None:
    fleet = Fleet(tmp_path, hosts=("build-1",), runs_per_host=1)
    cluster.wait_for_workers()
    nobody = f"tcp://127.0.0.1:{free_port()}"
    for address, message in (
        (nobody, f"no Dask scheduler answers at {nobody}"),
        ("nonsense", "no Dask scheduler answers at nonsense"),
        (cluster.address, f"the cluster at {cluster.address} has no workers"),
    ):
        driver = start_diagnosing(fleet, tmp_path, "--cluster", address)
        out, err = driver.communicate(timeout=4 * PATIENCE_SECONDS)
        assert driver.returncode == 1
        error = json.loads(out)["error"]
        assert error["message"] == message
        assert error["fix"]
        assert not err


def test_a_terminal_shows_progress_with_rate_and_rest(fleet: Fleet, tmp_path: Path) -> None:
    seen = shown("fleet", "diagnose", "--store", fleet.url, "--workers", "1", home=tmp_path, columns=120)
    assert seen.code == 0
    assert " of 16 runs" in seen.unstyled
    assert " a second" in seen.unstyled
    assert " rest " in seen.unstyled
    assert "16 runs: 16 diagnosed" in seen.words
