"""Structs of memory and CPU time of a process tree, by role."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class RoleUsage(msgspec.Struct, kw_only=True):
    """Usage of the processes of one role."""

    role: str
    processes: int = 0
    """Number of processes over the whole run."""
    peak_rss_bytes: int = 0
    """Peak of their sum."""
    cpu_seconds: float = 0.0


class ResourcePoint(NamedTuple):
    """The whole tree at one moment."""

    seconds: float
    """Since the first sample."""
    rss_bytes: int
    cpu_seconds: float


class ResourceUsage(msgspec.Struct, kw_only=True):
    """Usage of a process tree, and how it was sampled."""

    interval_seconds: float
    samples: int
    overhead_seconds: float
    """CPU time of the sampling itself."""
    peak_rss_bytes: int
    cpu_seconds: float
    roles: list[RoleUsage]
    series: list[ResourcePoint]
