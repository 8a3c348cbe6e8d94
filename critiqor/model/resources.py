"""Memory and CPU of a process tree: what its processes used, by what they are there for."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class RoleUsage(msgspec.Struct, kw_only=True):
    """What the processes of one role used."""

    role: str
    processes: int = 0
    """How many of them were seen, over the whole run."""
    peak_rss_bytes: int = 0
    """Of all of them together, at the worst moment."""
    cpu_seconds: float = 0.0


class ResourcePoint(NamedTuple):
    """The whole tree at one moment."""

    seconds: float
    """Since the first sample."""
    rss_bytes: int
    cpu_seconds: float


class ResourceUsage(msgspec.Struct, kw_only=True):
    """What a process tree used, and how closely that was looked at."""

    interval_seconds: float
    samples: int
    overhead_seconds: float
    """CPU time that the sampling itself took."""
    peak_rss_bytes: int
    cpu_seconds: float
    roles: list[RoleUsage]
    series: list[ResourcePoint]
