"""Memory and CPU of a process tree, sampled from outside."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import wait_until

from critiqor.recording.resources import MAX_POINTS, ProcessSample, ResourceSampler, Usage, role_of


def sample(pid: int = 1, role: str = "gateway", rss: int = 100, cpu: float = 1.0) -> ProcessSample:
    return ProcessSample(pid, 0.0, role, rss, cpu)


def test_peak_of_a_role_is_the_sum_of_its_processes() -> None:
    usage = Usage()
    usage.add(0, [sample(1, rss=100), sample(2, rss=50), sample(3, "tool", rss=7)])
    usage.add(2, [sample(1, rss=120)])
    summary = usage.summary(2.0, 0.01)
    assert {role.role: (role.peak_rss_bytes, role.processes) for role in summary.roles} == {
        "gateway": (150, 2),
        "tool": (7, 1),
    }
    assert summary.peak_rss_bytes == 157


def test_cpu_time_of_ended_processes_is_kept() -> None:
    usage = Usage()
    usage.add(0, [sample(1, cpu=3.0), sample(2, "tool", cpu=1.5)])
    usage.add(2, [sample(1, cpu=4.0)])
    summary = usage.summary(2.0, 0.0)
    assert summary.cpu_seconds == 5.5


@given(st.integers(1, 4 * MAX_POINTS))
def test_series_is_bounded_and_begins_at_the_first_sample(count: int) -> None:
    usage = Usage()
    for moment in range(count):
        usage.add(moment, [sample()])
    summary = usage.summary(1.0, 0.0)
    assert summary.samples == count
    assert 1 <= len(summary.series) < MAX_POINTS
    assert summary.series[0].seconds == 0
    moments = [point.seconds for point in summary.series]
    assert moments == sorted(set(moments))


def test_memory_of_a_running_process_is_sampled() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; x = bytearray(30_000_000); time.sleep(60)"])
    try:
        sampler = ResourceSampler(lambda: [psutil.Process(child.pid)], interval=0.05)
        sampler.start()
        wait_until(lambda: psutil.Process(child.pid).memory_info().rss > 30_000_000)
        before = sampler.samples
        wait_until(lambda: sampler.samples > before + 1)
        summary = sampler.stop()
    finally:
        child.kill()
        child.wait()
    assert summary is not None
    assert summary.peak_rss_bytes > 30_000_000
    assert [role.role for role in summary.roles] == ["tool"]
    assert summary.overhead_seconds >= 0


def test_ended_process_tree_has_no_summary() -> None:
    sampler = ResourceSampler(list, interval=0.01)
    sampler.start()
    assert sampler.stop() is None
    assert psutil.pid_exists(os.getpid())


@pytest.mark.parametrize(
    ("name", "command", "role"),
    [
        ("openclaw-gateway", ["openclaw-gateway"], "gateway"),
        ("node", ["node", "/opt/openclaw/openclaw.mjs", "gateway", "run"], "gateway"),
        ("node", ["node", "/opt/openclaw/openclaw.mjs", "agent", "--local"], "openclaw"),
        ("node", ["node", "/srv/mcp-server/index.js"], "mcp server"),
        ("bash", ["bash", "-c", "pytest"], "tool"),
        ("python3", ["python3", "-m", "critiqor.agentloop", "agent", "--local"], "agent"),
        ("MainThread", ["/opt/node/bin/node", "worker.js"], "node"),
        ("node", ["node", "worker.js"], "node"),
    ],
)
def test_role_is_known_by_title_and_command_line(name: str, command: list[str], role: str) -> None:
    assert role_of(name, command) == role
