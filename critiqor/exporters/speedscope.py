"""CPU profiles in speedscope's format: the stack of each thread, sample by sample.

One profile per thread, in microseconds since its start, with a shared table of functions. Consecutive samples of the
same stack are merged. An idle thread has an empty stack. The file is written in chunks and never held in memory as a
whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import msgspec

from critiqor.model.profiles import IDLE, CodeFrame, CpuProfile
from critiqor.model.timestamps import iso_from_ms

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
ROOT = "(root)"
"""V8's root node; left out, because speedscope has its own root."""
BATCH_SAMPLES = 1000
"""Number of samples written at once."""
MAX_CACHED_STACKS = 4096
"""Maximum number of stacks whose text is cached."""

_encode = msgspec.json.encode


class _Stretch(NamedTuple):
    """A period in which a thread had the same stack."""

    node: int
    weight: int
    """Microseconds."""


def report(profiles: Iterable[CpuProfile]) -> Iterator[bytes]:
    """Yield the CPU profiles in speedscope's format, in chunks."""
    frames: dict[CodeFrame, int] = {}
    yield b'{"$schema":' + _encode(SCHEMA) + b',"exporter":"critiqor","activeProfileIndex":0,"profiles":['
    separator = b"\n"
    for profile in profiles:
        yield separator
        yield from _profile(profile, frames)
        separator = b",\n"
    yield b'\n],"shared":{"frames":['
    separator = b"\n"
    for frame in frames:
        yield separator + _encode(_frame(frame))
        separator = b",\n"
    yield b"\n]}}\n"


def _profile(profile: CpuProfile, frames: dict[CodeFrame, int]) -> Iterator[bytes]:
    indices = [frames.setdefault(frame, len(frames)) for frame in profile.frames]
    is_hidden = [frame.name in (ROOT, IDLE) for frame in profile.frames]

    @lru_cache(maxsize=MAX_CACHED_STACKS)
    def stack(node: int) -> bytes:
        calls = []
        while node >= 0:
            frame = profile.node_frames[node]
            if not is_hidden[frame]:
                calls.append(indices[frame])
            node = profile.node_parents[node]
        return _encode(calls[::-1])

    start = profile.starts_us[0] if profile.starts_us else 0
    head = {
        "type": "sampled",
        "name": _name(profile),
        "unit": "microseconds",
        "startValue": start,
        "endValue": profile.duration_us,
    }
    yield _encode(head)[:-1] + b',"samples":['
    yield from _joined(stack(stretch.node) for stretch in _stretches(profile))
    yield b'],"weights":['
    yield from _joined(b"%d" % stretch.weight for stretch in _stretches(profile))
    yield b"]}"


def _stretches(profile: CpuProfile) -> Iterator[_Stretch]:
    """Yield consecutive samples of the same node as one stretch; samples without duration are left out."""
    node, since = -1, 0
    for sample, start in zip(profile.samples, profile.starts_us, strict=True):
        if sample != node:
            if start > since and node >= 0:
                yield _Stretch(node, start - since)
            node, since = sample, start
    if node >= 0 and profile.duration_us > since:
        yield _Stretch(node, profile.duration_us - since)


def _joined(items: Iterator[bytes]) -> Iterator[bytes]:
    separator = b""
    while batch := list(islice(items, BATCH_SAMPLES)):
        yield separator + b",".join(batch)
        separator = b","


def _frame(frame: CodeFrame) -> dict[str, str | int]:
    fields: dict[str, str | int | None] = {"name": frame.name, "file": frame.file, "line": frame.line}
    return {name: value for name, value in fields.items() if value is not None}


def _name(profile: CpuProfile) -> str:
    pid = "?" if profile.pid is None else profile.pid
    thread = f" thread {profile.thread}" if profile.thread else ""
    began = f", {iso_from_ms(int(profile.started_ms))}" if profile.started_ms is not None else ""
    return f"pid {pid}{thread}{began}"
