"""Reader of V8's .cpuprofile files: the call tree and the samples.

The tree is decoded as structs, the samples as plain numbers, piece by piece.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from critiqor.model.profiles import CodeFrame, CpuProfile
from critiqor.timeline.profiles.artifacts import (
    TROUBLE_TEXTS,
    Artifact,
    ArtifactLog,
    UnusableError,
    largest_artifacts,
    list_artifacts,
    read_content,
)
from critiqor.timeline.profiles.frame_names import CallFrame, FrameIndex

MAX_DEPTH = 4096
"""Depth of the call tree; V8 records a few hundred levels at most."""
MAX_DURATION_US = 31 * 86_400 * 1_000_000
"""A month: a longer profile is not plausible."""
PIECE = 1 << 16
QUARTER_HOUR = 900.0
MAX_ZONE_OFFSET = 15 * 3600.0
LATEST_START = 32_503_680_000.0
"""The year 3000, in seconds since 1970: the date of a file can be anything."""
MAX_WRITE_SECONDS = 20.0
"""Longest time from the end of a profile to the last byte of its file."""


class _Node(msgspec.Struct, gc=False, rename="camel"):
    id: int
    call_frame: CallFrame
    children: tuple[int, ...] = ()


class _Document(msgspec.Struct, rename="camel"):
    nodes: list[_Node]
    start_time: float
    end_time: float
    samples: msgspec.Raw
    time_deltas: msgspec.Raw


class _Tree(msgspec.Struct):
    frames: list[CodeFrame]
    node_frames: array[int]
    node_parents: array[int]
    places: dict[int, int]
    """From V8's node ids to indexes of `node_frames`."""


_decoder = msgspec.json.Decoder(_Document)


def read_cpu_profile(artifact: Artifact) -> CpuProfile:
    """Read the CPU profile in a file. Raises UnusableError."""
    try:
        document = _decoder.decode(read_content(artifact))
        tree = _tree(document.nodes)
        document.nodes = []
        duration = document.end_time - document.start_time
        samples = _places(document.samples, tree.places)
        starts = _starts(document.time_deltas, duration)
    except (msgspec.ValidationError, KeyError, OverflowError):
        raise UnusableError("foreign") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise UnusableError("damaged") from None
    if len(samples) != len(starts):
        raise UnusableError("foreign")
    duration_us = max(int(duration), starts[-1] if starts else 0)
    return CpuProfile(
        pid=artifact.pid,
        thread=artifact.thread,
        started_ms=_started_ms(artifact, duration_us),
        duration_us=duration_us,
        frames=tree.frames,
        node_frames=tree.node_frames,
        node_parents=tree.node_parents,
        samples=samples,
        starts_us=starts,
    )


def read_cpu_profiles(folder: Path, notes: list[str] | None = None) -> Iterator[CpuProfile]:
    """Yield the readable CPU profiles of a folder, the largest first, one in memory at a time.

    At the end, a sentence about each unreadable one is appended to `notes`.
    """
    log = ArtifactLog()
    yield from read_listed_cpu_profiles(list_artifacts(folder), log)
    if notes is not None:
        notes += [f"{problem.file} is left out: {TROUBLE_TEXTS[problem.trouble]}." for problem in log.problems]


def read_listed_cpu_profiles(artifacts: list[Artifact], log: ArtifactLog) -> Iterator[CpuProfile]:
    """Yield the readable CPU profiles among the files of a folder, the largest first; `log` notes the others."""
    return log.read_each(largest_artifacts(artifacts, "cpu_profile"), read_cpu_profile)


def _tree(nodes: list[_Node]) -> _Tree:
    """Build the tree with its nodes in preorder: every subtree directly follows its root."""
    if sum(len(node.children) for node in nodes) >= max(len(nodes), 1):
        raise UnusableError("foreign")  # more edges than a tree has
    known = {node.id: node for node in nodes}
    called = {child for node in nodes for child in node.children}
    frames = FrameIndex()
    tree = _Tree([], array("q"), array("q"), {})
    waiting = [(node.id, -1, 0) for node in reversed(nodes) if node.id not in called]
    while waiting:
        number, parent, depth = waiting.pop()
        node = known.get(number)
        # A node that is called by two others, or by itself, keeps its first place.
        if node is None or number in tree.places:
            continue
        if depth > MAX_DEPTH:
            raise UnusableError("foreign")
        place = tree.places[number] = len(tree.node_frames)
        tree.node_frames.append(frames.number(node.call_frame))
        tree.node_parents.append(parent)
        waiting += [(child, place, depth + 1) for child in reversed(node.children)]
    tree.frames = frames.all()
    return tree


def _places(raw: msgspec.Raw, places: dict[int, int]) -> array[int]:
    """Return the node index of each sample."""
    nodes = array("i")
    for numbers in _numbers(raw):
        nodes.extend(map(places.__getitem__, numbers))
    return nodes


def _starts(raw: msgspec.Raw, duration: float) -> array[int]:
    """Return the start of each sample in microseconds; one that V8 wrote out of order gets the latest time so far."""
    if not 0 <= duration <= MAX_DURATION_US:
        raise UnusableError("foreign")
    starts = array("q")
    now = latest = 0
    for numbers in _numbers(raw):
        for delta in numbers:
            now += delta
            if now > latest:
                latest = now
            starts.append(latest)
        if latest > MAX_DURATION_US:
            raise UnusableError("foreign")
    return starts


def _numbers(raw: msgspec.Raw) -> Iterator[list[int]]:
    """Decode a long list of integers in pieces, so that not all of them are objects at once."""
    text = memoryview(raw)
    if bytes(text[:1]) != b"[":
        raise msgspec.ValidationError("not a list")
    place, end = 1, len(text) - 1
    while place < end:
        piece = bytes(text[place : min(place + PIECE, end)])
        cut = len(piece) if place + len(piece) == end else piece.rfind(b",")
        if cut < 0:
            raise msgspec.ValidationError("not numbers")
        yield msgspec.json.decode(b"[" + piece[:cut] + b"]", type=list[int])
        place += cut + 1


def _started_ms(artifact: Artifact, duration_us: int) -> float | None:
    """Return when the profile began, computed from the file's time and duration and checked against its name.

    The name has the second of the start in an unknown time zone, so the check ignores whole quarters of an hour. A file
    that was changed or copied later has no known start.
    """
    if artifact.named_at is None:
        return None
    try:
        named = datetime.strptime(artifact.named_at, "%Y%m%d.%H%M%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
    started = artifact.written_at - duration_us / 1e6
    late = (started - named + 1) % QUARTER_HOUR - 1
    if late > MAX_WRITE_SECONDS or abs(started - named) > MAX_ZONE_OFFSET or not 0 <= started < LATEST_START:
        return None
    # What remains after that second is the time it took to write the file.
    return (started - max(late - 1, 0.0)) * 1000
