"""A .heapprofile of V8: which functions had allocated what was still held when it was written, from samples."""

from __future__ import annotations

from collections import Counter
from heapq import nlargest

import msgspec

from critiqor.model.profiles import AllocationSite, CodeFrame
from critiqor.timeline.profiles.artifacts import Artifact, Size, UnusableError, content_of
from critiqor.timeline.profiles.hotspots import MOST_FUNCTIONS, ROOT, outermost
from critiqor.timeline.profiles.places import CallFrame, Frames

TOLD_SITES = 20


class _Site(msgspec.Struct, gc=False, rename="camel"):
    call_frame: CallFrame
    self_size: Size
    children: list[_Site] = []


class _Document(msgspec.Struct):
    head: _Site


_decoder = msgspec.json.Decoder(_Document)


class Allocations:
    """Adds up heap profiles, one after the other."""

    def __init__(self) -> None:
        self._own: Counter[CodeFrame] = Counter()
        self._total: Counter[CodeFrame] = Counter()
        self.held_bytes = 0

    def add(self, artifact: Artifact) -> None:
        """One more. Raises UnusableError."""
        try:
            head = _decoder.decode(content_of(artifact)).head
        except (msgspec.ValidationError, RecursionError):
            raise UnusableError("foreign") from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise UnusableError("damaged") from None
        frames = Frames()
        numbers: list[int] = []
        parents: list[int] = []
        sizes: list[int] = []
        waiting = [(head, -1)]
        while waiting:
            site, parent = waiting.pop()
            place = len(numbers)
            numbers.append(frames.number(site.call_frame))
            parents.append(parent)
            sizes.append(site.self_size)
            waiting += [(child, place) for child in reversed(site.children)]
        self._count(frames.all(), numbers, parents, sizes)

    def _count(self, frames: list[CodeFrame], numbers: list[int], parents: list[int], sizes: list[int]) -> None:
        self.held_bytes += sum(sizes)
        for number, size in zip(numbers, sizes, strict=True):
            self._own[frames[number]] += size
        for place in range(len(sizes) - 1, 0, -1):
            sizes[parents[place]] += sizes[place]
        for frame, size in zip(frames, outermost(numbers, parents, sizes, len(frames)), strict=True):
            self._total[frame] += size
        if len(self._total) > MOST_FUNCTIONS:
            self._total = Counter(dict(self._total.most_common(MOST_FUNCTIONS // 2)))
            self._own = Counter({frame: self._own[frame] for frame in self._total})

    def told(self) -> list[AllocationSite]:
        """The functions that had allocated the most themselves."""
        largest = nlargest(TOLD_SITES, self._own.items(), key=lambda item: (item[1], item[0].name, item[0].file or ""))
        return [
            AllocationSite(function=frame, self_bytes=size, total_bytes=self._total[frame])
            for frame, size in largest
            if size and frame.name != ROOT
        ]
