"""Every file that the search for crashes has used or found is read without a crash, whole and damaged."""

from __future__ import annotations

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


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_damaged_version_of_it_is_read_or_refused(path: Path) -> None:
    whole = path.read_bytes()
    for seed in range(20 * COUNT):
        with bounded(path.parent.name):
            READERS[path.parent.name](mutated(whole, f"{path.name} {seed}"))
