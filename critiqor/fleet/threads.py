"""Work on many runs in threads, which mostly wait for a store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_prepared: set[type[msgspec.Struct]] = set()


def map_in_threads(
    work: Callable[[_Item], _Result], items: Sequence[_Item], pool: ThreadPoolExecutor
) -> Iterator[_Result]:
    """Yield the results of items in their order.

    The first item is done by the caller's thread, which imports what the others need. After that, everything is known
    that msgspec has to know about structs: two threads that decode the first document of a type at the same time crash
    the process, because msgspec hands out what it knows about a struct before that is complete.
    """
    if not items:
        return
    yield work(items[0])
    _prepare_structs(msgspec.Struct)
    yield from pool.map(work, items[1:])


def _prepare_structs(kind: type[msgspec.Struct]) -> None:
    for each in kind.__subclasses__():
        if each not in _prepared:
            _prepared.add(each)
            with contextlib.suppress(TypeError, NameError):  # one that is never decoded, with a type that cannot be
                msgspec.json.Decoder(each)
        _prepare_structs(each)
