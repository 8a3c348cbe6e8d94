"""Every file that the search for crashes has used or found is read without a crash, whole and damaged."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from mutations import COUNT, bounded, mutated
from readers import READERS

CORPUS = Path(__file__).with_name("corpus")
FILES = sorted(path for path in CORPUS.rglob("*") if path.is_file())


def test_every_reader_has_a_corpus() -> None:
    assert {path.parent.name for path in FILES} == READERS.keys()


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_saved_file_is_read_or_refused(path: Path) -> None:
    READERS[path.parent.name](path.read_bytes())


@pytest.mark.parametrize("reader", READERS)
def test_damaged_versions_of_them_are_read_or_refused(reader: str, figure: Callable[[str], None]) -> None:
    files = [path for path in FILES if path.parent.name == reader]
    tries = max(60 * len(files), COUNT)
    slowest = 0.0
    for seed in range(tries):
        path = files[seed % len(files)]
        began = time.process_time()
        with bounded(reader):
            READERS[reader](mutated(path.read_bytes(), f"{path.name} {seed}"))
        slowest = max(slowest, time.process_time() - began)
    figure(f"reader {reader}: {tries} damaged versions of {len(files)} files, at most {slowest:.2f} s of CPU time")
