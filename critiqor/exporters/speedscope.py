"""CPU profiles as a file for speedscope: what each thread was doing, sample by sample.

One profile a thread, in microseconds since it began; functions are shared by all. Neighbouring samples of the same
stack are one. Where a thread was idle its stack is empty. Written piece by piece, so that it is never held as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import msgspec

from critiqor.model.event import iso_from_ms
from critiqor.model.profiles import IDLE, CodeFrame, CpuProfile

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
ROOT = "(root)"
"""What V8 puts below everything; speedscope has a root of its own."""
BATCH = 1000
"""Samples that are written at once."""
REMEMBERED = 4096
"""Stacks that are remembered as text."""

_encode = msgspec.json.encode


class _Stretch(NamedTuple):
    """One stack that was seen for a while."""

    node: int
    weight: int
    """Microseconds."""


def report(profiles: Iterable[CpuProfile]) -> Iterator[bytes]:
    """The file, piece by piece."""
    frames: dict[CodeFrame, int] = {}
    yield b'{"$schema":' + _encode(SCHEMA) + b',"exporter":"critiqor","activeProfileIndex":0,"profiles":['
    between = b"\n"
    for profile in profiles:
        yield between
        yield from _profile(profile, frames)
        between = b",\n"
    yield b'\n],"shared":{"frames":['
    between = b"\n"
    for frame in frames:
        yield between + _encode(_frame(frame))
        between = b",\n"
    yield b"\n]}}\n"


def _profile(profile: CpuProfile, frames: dict[CodeFrame, int]) -> Iterator[bytes]:
    numbers = [frames.setdefault(frame, len(frames)) for frame in profile.frames]
    unseen = [frame.name in (ROOT, IDLE) for frame in profile.frames]

    @lru_cache(maxsize=REMEMBERED)
    def stack(node: int) -> bytes:
        calls = []
        while node >= 0:
            frame = profile.node_frames[node]
            if not unseen[frame]:
                calls.append(numbers[frame])
            node = profile.node_parents[node]
        return _encode(calls[::-1])

    begin = profile.starts_us[0] if profile.starts_us else 0
    head = {
        "type": "sampled",
        "name": _name(profile),
        "unit": "microseconds",
        "startValue": begin,
        "endValue": profile.duration_us,
    }
    yield _encode(head)[:-1] + b',"samples":['
    yield from _joined(stack(stretch.node) for stretch in _stretches(profile))
    yield b'],"weights":['
    yield from _joined(b"%d" % stretch.weight for stretch in _stretches(profile))
    yield b"]}"


def _stretches(profile: CpuProfile) -> Iterator[_Stretch]:
    """Neighbouring samples of the same node as one; what took no time is left out."""
    node, since = -1, 0
    for sample, start in zip(profile.samples, profile.starts_us, strict=True):
        if sample != node:
            if start > since and node >= 0:
                yield _Stretch(node, start - since)
            node, since = sample, start
    if node >= 0 and profile.duration_us > since:
        yield _Stretch(node, profile.duration_us - since)


def _joined(items: Iterator[bytes]) -> Iterator[bytes]:
    between = b""
    while batch := list(islice(items, BATCH)):
        yield between + b",".join(batch)
        between = b","


def _frame(frame: CodeFrame) -> dict[str, str | int]:
    told: dict[str, str | int | None] = {"name": frame.name, "file": frame.file, "line": frame.line}
    return {name: value for name, value in told.items() if value is not None}


def _name(profile: CpuProfile) -> str:
    pid = "?" if profile.pid is None else profile.pid
    thread = f" thread {profile.thread}" if profile.thread else ""
    began = f", {iso_from_ms(int(profile.started_ms))}" if profile.started_ms is not None else ""
    return f"pid {pid}{thread}{began}"
