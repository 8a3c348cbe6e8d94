"""Reader of V8's .heapprofile files: sampled allocations that were still held when the file was written."""

from __future__ import annotations

from collections import Counter
from heapq import nlargest

import msgspec

from critiqor.model.profiles import AllocationSite, CodeFrame
from critiqor.timeline.profiles.artifacts import Artifact, Size, UnusableError, read_content
from critiqor.timeline.profiles.cpu_hotspots import MAX_FUNCTIONS, ROOT, outermost_totals
from critiqor.timeline.profiles.frame_names import CallFrame, FrameIndex

MAX_SITES_LISTED = 20


class _Site(msgspec.Struct, gc=False, rename="camel"):
    call_frame: CallFrame
    self_size: Size
    children: list[_Site] = []


class _Document(msgspec.Struct):
    head: _Site


_decoder = msgspec.json.Decoder(_Document)


class Allocations:
    """Adds up heap profiles."""

    def __init__(self) -> None:
        self._own: Counter[CodeFrame] = Counter()
        self._total: Counter[CodeFrame] = Counter()
        self.held_bytes = 0

    def add(self, artifact: Artifact) -> None:
        """Add the profile in a file. Raises UnusableError."""
        try:
            head = _decoder.decode(read_content(artifact)).head
        except (msgspec.ValidationError, RecursionError):
            raise UnusableError("foreign") from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise UnusableError("damaged") from None
        frames = FrameIndex()
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
        for frame, size in zip(frames, outermost_totals(numbers, parents, sizes, len(frames)), strict=True):
            self._total[frame] += size
        if len(self._total) > MAX_FUNCTIONS:
            self._total = Counter(dict(self._total.most_common(MAX_FUNCTIONS // 2)))
            self._own = Counter({frame: self._own[frame] for frame in self._total})

    def sites(self) -> list[AllocationSite]:
        """Return the functions that allocated the most themselves."""
        largest = nlargest(
            MAX_SITES_LISTED, self._own.items(), key=lambda item: (item[1], item[0].name, item[0].file or "")
        )
        return [
            AllocationSite(function=frame, self_bytes=size, total_bytes=self._total[frame])
            for frame, size in largest
            if size and frame.name != ROOT
        ]
