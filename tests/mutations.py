"""Seeded damage to files, as disks, editors, killed writers and agents do it, and limits for what reads them."""

from __future__ import annotations

import contextlib
import os
import random
import re
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

COUNT = int(os.environ.get("CRITIQOR_FAULTS", "3"))
"""Number of damaged versions of each kind of file."""
PATIENCE_SECONDS = 30
"""When a verb counts as waiting for ever: far longer than any of them needs here, however busy the machine is."""
PATIENCE_CPU_SECONDS = 5
"""When a verb counts as hanging while it computes: other programs do not matter."""
EXTRA_MEMORY = 1 << 30
"""Bytes of address space that a verb may take in addition to those in use before it."""
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null')
_NUMBERS = (
    b"1e999",
    b"-1",
    b"9" * 30,
    b"9" * 5000,
    b"1e308",
    b"-0.0",
    b"9223372036854775808",
    b"NaN",
    b"0.5",
    b"-1e12",
)
_TEXTS = (
    rb'"\ud800"',
    rb'"\udfff\ud800 x"',
    rb'"\u0000"',
    b'"' + b"x" * 70_000 + b'"',
    b'""',
    b'"9999-99-99T00:00:00Z"',
    b'"0001-01-01T00:00:00+23:59"',
    b'"../passwd"',
    b'"\xff\xfe"',
)
_VALUES = (b"null", b"true", b"[]", b"{}", b"[[]]", b'{"a":{"b":[1,"c"]}}', b"[null,1,{}]", *_NUMBERS, *_TEXTS)
_DEPTHS = (50, 300, 5_000, 100_000)


def mutated(data: bytes, seed: str) -> bytes:
    """Return the data with one to three mutations; the same ones for the same seed."""
    chance = random.Random(seed)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        data = chance.choice(MUTATIONS)(data, chance)
    return data


def _flip_bit(data: bytes, chance: random.Random) -> bytes:
    if not data:
        return b"\x01"
    place = chance.randrange(len(data))
    return data[:place] + bytes([data[place] ^ (1 << chance.randrange(8))]) + data[place + 1 :]


def _replace_byte(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data) + 1)
    return data[:place] + bytes([chance.choice(b'\x00\xff"{}[],:\\\n 0-')]) + data[place + 1 :]


def _truncate(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _remove_span(data: bytes, chance: random.Random) -> bytes:
    start, end = _span(data, chance)
    return data[:start] + data[end:]


def _repeat_span(data: bytes, chance: random.Random) -> bytes:
    start, end = _span(data, chance)
    return data[:end] + data[start:end] * chance.choice((1, 1, 3)) + data[end:]


def _swap_spans(data: bytes, chance: random.Random) -> bytes:
    a, b, c, d = sorted(chance.randrange(len(data) + 1) for _ in range(4))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _swap_bytes(data: bytes, chance: random.Random) -> bytes:
    if len(data) < 2:
        return data
    place = chance.randrange(len(data) - 1)
    return data[:place] + data[place + 1 : place + 2] + data[place : place + 1] + data[place + 2 :]


def _insert_bytes(data: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(data) + 1)
    inserted = chance.choice(
        (b"\x00", b"\x00" * 4096, b"\xff\xfe", b"\xc3", b"\n", b"\r\n", b"\xef\xbb\xbf", b'"', b"}")
    )
    return data[:place] + inserted + data[place:]


def _replace_value(data: bytes, chance: random.Random) -> bytes:
    """Replace a value of a JSON or TOML document, or a key, by one of another type."""
    start, end = _token(data, chance)
    return data[:start] + chance.choice(_VALUES) + data[end:]


def _swap_values(data: bytes, chance: random.Random) -> bytes:
    first, second = sorted((_token(data, chance), _token(data, chance)))
    if first[1] > second[0]:
        return data
    (a, b), (c, d) = first, second
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _nest(data: bytes, chance: random.Random) -> bytes:
    start, end = _token(data, chance)
    depth = chance.choice(_DEPTHS)
    opening, closing = chance.choice(((b"[", b"]"), (b'{"a":', b"}")))
    return data[:start] + opening * depth + data[start:end] + closing * depth + data[end:]


def _lengthen_line(data: bytes, chance: random.Random) -> bytes:
    start, end = _token(data, chance)
    padding = chance.choice((b"x", b" ", b"\xc3\xa9")) * chance.choice((20_000, 1_200_000))
    return data[:start] + b'"' + padding + b'"' + data[end:]


def _drop_line(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    del lines[chance.randrange(len(lines))]
    return b"".join(lines)


def _swap_lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    chance.shuffle(lines)
    return b"".join(lines)


def _span(data: bytes, chance: random.Random) -> tuple[int, int]:
    start = chance.randrange(len(data) + 1)
    return start, min(len(data), start + chance.choice((1, 2, 10, 100, 1000)))


def _token(data: bytes, chance: random.Random) -> tuple[int, int]:
    found = list(_TOKEN.finditer(data, chance.randrange(len(data) + 1), len(data)))[:50]
    return chance.choice(found).span() if found else (len(data), len(data))


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip_bit,
    _replace_byte,
    _truncate,
    _remove_span,
    _repeat_span,
    _swap_spans,
    _swap_bytes,
    _insert_bytes,
    _replace_value,
    _replace_value,
    _replace_value,
    _replace_value,
    _swap_values,
    _nest,
    _lengthen_line,
    _drop_line,
    _swap_lines,
)


class Hanging(BaseException):
    """A verb did not end."""


@contextlib.contextmanager
def bounded(verb: str) -> Iterator[None]:
    """Limit time and memory of what is executed. A `watch`, which may wait for ever, is interrupted as with Ctrl-C."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt if verb == "watch" and number == signal.SIGALRM else Hanging(str(frame))

    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (in_use + EXTRA_MEMORY, before[1]))
    timers = {signal.SIGALRM: signal.ITIMER_REAL, signal.SIGPROF: signal.ITIMER_PROF}
    handlers = {number: signal.signal(number, interrupt) for number in timers}
    signal.setitimer(signal.ITIMER_REAL, 0.5 if verb == "watch" else PATIENCE_SECONDS)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE_CPU_SECONDS)
    try:
        yield
    finally:
        for number, timer in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, handlers[number])
        resource.setrlimit(resource.RLIMIT_AS, before)
