"""Different calls that lead to nothing new: rephrased queries, the same page again, names that do not exist."""

from __future__ import annotations

from collections import Counter

from critiqor.diagnosis.collections.fingerprints import fingerprint
from critiqor.diagnosis.loops.clusters import Loop, LoopClusters
from critiqor.diagnosis.loops.hits import hits_of
from critiqor.diagnosis.loops.repetitions import is_orientation
from critiqor.diagnosis.loops.subjects import searched_for, subject_of_call
from critiqor.diagnosis.signals.text import stems, words
from critiqor.diagnosis.signals.tool_calls import runs_commands
from critiqor.spans.calls import Kind, ToolCall

MIN_SAME_ANSWERS = 4
"""Minimum number of consecutive calls of one tool, not all identical, that returned the same result."""
MIN_SAME_ANSWER_BYTES = 200
"""Minimum size in bytes of a result that different calls do not return by coincidence."""
MIN_MISSES = 4
"""Minimum number of results that say that the same name does not exist."""
MIN_QUESTION_WORDS = 5
"""Minimum number of words for arguments to count as a question, not as a name or a path."""
MIN_EMPTY_SEARCHES = 7
"""Minimum number of searches for one thing that find nothing."""
MIN_VARIANTS = 0.6
"""Minimum share of them that are spellings of others; the others may be about something else."""
MAX_COMPARED_SEARCHES = 16
"""Maximum number of searches that are compared with each other."""
MAX_KNOWN_ITEMS = 4096
"""Maximum number of hits of a tool that are remembered."""
ASKING = (Kind.LOOKUP, Kind.COMMAND)
"""Calls whose results are compared, in addition to those that list something."""
_EFFECTS = (Kind.CHANGE, Kind.ACTION)
_EXTENSIONS = frozenset(
    ("pdf", "docx", "doc", "txt", "md", "csv", "json", "xlsx", "py", "js", "ts", "html", "yml", "yaml")
)


class Rewordings:
    """The same query with its words in another order: a search does not find more the second time."""

    def __init__(self, clusters: LoopClusters) -> None:
        self._clusters = clusters
        self._questions: dict[bytes, ToolCall] = {}
        self._loops: dict[bytes, Loop] = {}

    def add(self, call: ToolCall) -> None:
        if call.arguments.count(" ") < MIN_QUESTION_WORDS - 1:
            return
        question = words(call.arguments)
        if len(question) < MIN_QUESTION_WORDS:
            return
        key = fingerprint(call.tool, *sorted(question))
        first = self._questions.setdefault(key, call)
        if call.same_call != first.same_call:
            loop = self._loops.get(key)
            if loop is None:
                loop = self._loops[key] = Loop(first, "the same words in another order", 1)
            loop.stale.append(call)
            self._clusters.grow(loop)


class _Sequence:
    """Consecutive calls of one tool with the same result."""

    def __init__(self, first: ToolCall) -> None:
        self.loop = Loop(first, "other arguments, the same result", 2)
        self._distinct = {first.same_call}
        self._subjects: set[str] = set()
        self._compared = -1
        """Number of stale calls whose subject was compared; -1 before the first comparison."""

    def add(self, call: ToolCall) -> None:
        self.loop.stale.append(call)
        self._distinct.add(call.same_call)

    @property
    def is_loop(self) -> bool:
        first, stale = self.loop.first, self.loop.stale
        if len(stale) + 1 < MIN_SAME_ANSWERS or len(self._distinct) == 1:
            return False
        # A short result that is the same for calls about different things is an answer to each of them.
        is_answer = first.output_size < MIN_SAME_ANSWER_BYTES
        return not is_answer or (first.kind is Kind.LOOKUP and not first.nothing_found and self._is_about_one_thing())

    def _is_about_one_thing(self) -> bool:
        if self._compared < 0:
            self._subjects.add(subject_of_call(self.loop.first.arguments))
            self._compared = 0
        while len(self._subjects) == 1 and self._compared < len(self.loop.stale):
            self._subjects.add(subject_of_call(self.loop.stale[self._compared].arguments))
            self._compared += 1
        return len(self._subjects) == 1


class SameAnswers:
    """Rephrased or paginated queries that return the same result each time, or the same hits in another order."""

    def __init__(self, clusters: LoopClusters) -> None:
        self._clusters = clusters
        self._last: dict[str, ToolCall] = {}
        """The last call of each tool."""
        self._items: dict[str, set[int]] = {}
        """Hits of each tool that was called twice: reading the hits of others would be wasted."""
        self._sequences: dict[str, _Sequence] = {}
        """Sequences of at least two calls, by tool."""

    def add(self, call: ToolCall) -> None:
        last = self._last.get(call.tool)
        if last is None or not _asks(last):
            self._last[call.tool] = call
            return
        if not _asks(call):
            return
        self._last[call.tool] = call
        known = self._items.get(call.tool)
        if known is None:
            known = self._items[call.tool] = set(hits_of(last))
        has_known_items = _has_known_items(call, known)
        if last.same_output != call.same_output and not has_known_items:
            self._sequences.pop(call.tool, None)
            return
        sequence = self._sequences.get(call.tool)
        if sequence is None:
            sequence = self._sequences[call.tool] = _Sequence(last)
        sequence.add(call)
        if sequence.is_loop:
            self._clusters.grow(sequence.loop)
        else:
            self._clusters.drop(sequence.loop)

    def end_sequences(self) -> None:
        """End all sequences, because a call changed something: the same result afterwards is new information."""
        self._sequences.clear()
        self._last.clear()
        self._items.clear()


def _asks(call: ToolCall) -> bool:
    return call.kind in ASKING or bool(hits_of(call))


def _has_known_items(call: ToolCall, known: set[int]) -> bool:
    """Add the hits of a call to those that are known. Return whether it has hits, and all of them were known."""
    hits = hits_of(call)
    if known.issuperset(hits):
        return bool(hits)
    if len(known) > MAX_KNOWN_ITEMS:
        known.clear()
    known.update(hits)
    return False


class EmptySearches:
    """Ever new spellings of a search that finds nothing."""

    def __init__(self, clusters: LoopClusters) -> None:
        self._clusters = clusters
        self._loop: Loop | None = None
        self._terms: list[frozenset[str]] = []
        """The beginnings of the words of the first searches."""
        self._subjects: set[frozenset[str]] = set()
        """What they look for, and where."""
        self._is_loop = False

    def add(self, call: ToolCall) -> None:
        if is_orientation(call):
            return
        if call.kind is not Kind.LOOKUP or not call.nothing_found:
            if self._loop is None or call.kind is not Kind.LOOKUP or self._subjects != {searched_for(call)}:
                self._loop = None  # a count that is zero says the same in another way
            return
        if self._loop is None or self._loop.first.tool != call.tool:
            self._loop = Loop(call, "other spellings, nothing found", 7)
            self._terms, self._is_loop = [frozenset(stems(words(call.arguments)))], False
            self._subjects = {searched_for(call)}
            return
        self._loop.stale.append(call)
        if len(self._terms) < MAX_COMPARED_SEARCHES:
            self._terms.append(frozenset(stems(words(call.arguments))))
            self._subjects.add(searched_for(call))
            count = len(self._terms)
            # Whatever is asked of a memory is about what the user wants to know.
            is_one = call.tool.startswith("memory_") or (len(self._subjects) == 1 and all(self._subjects))
            is_same = count >= MIN_SAME_ANSWERS and is_one
            is_reworded = count >= MIN_SAME_ANSWERS and not runs_commands(call.tool) and self._are_variants(1)
            self._is_loop = is_same or is_reworded or (count >= MIN_EMPTY_SEARCHES and self._are_variants(MIN_VARIANTS))
        if self._is_loop:
            self._clusters.grow(self._loop)
        else:
            self._clusters.drop(self._loop)

    def _are_variants(self, min_share: float) -> bool:
        """Return whether so many searches share a word with another one, apart from those that all have: the place."""
        common = frozenset.intersection(*self._terms)
        counts = Counter(word for terms in self._terms for word in terms - common - _EXTENSIONS)
        variants = sum(any(counts[word] > 1 for word in terms) for terms in self._terms)
        return bool(common) and variants >= min_share * len(self._terms)


class MissingNames:
    """A name that does not exist and is searched for in different ways."""

    def __init__(self, clusters: LoopClusters) -> None:
        self._clusters = clusters
        self._searches: dict[str, Loop] = {}
        self._most: Loop | None = None
        """The loop of the name with the most searches."""

    def add(self, call: ToolCall) -> None:
        if call.kind in _EFFECTS:
            self._searches.clear()
        for name in call.missed:
            loop = self._searches.get(name)
            if loop is None:
                loop = self._searches[name] = Loop(call, f"`{name}` was never found", 3)
            else:
                loop.stale.append(call)
            if self._most is None:
                self._most = loop
            elif len(loop.stale) > len(self._most.stale):
                self._clusters.drop(self._most)
                self._most = loop
            if loop is self._most and len(loop.stale) + 1 >= MIN_MISSES:
                self._clusters.grow(loop)
