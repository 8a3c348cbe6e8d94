"""A completed record shares blocks with the sealed evidence where the file system can, and is the same document."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from critiqor.storage import atomic
from critiqor.storage.atomic import AtomicFile, open_regular_file


def cloned(source: int, start: int, length: int, target: int, at: int) -> bool:
    """What a file system that shares blocks does, which refuses parts of blocks."""
    assert [number % 4096 for number in (start, length, at)] == [0, 0, 0]
    os.pwrite(target, os.pread(source, length, start), at)
    return True


@given(head=st.integers(0, 9000), start=st.integers(0, 9000), length=st.integers(0, 200_000), can=st.booleans())
def test_a_part_of_a_file_is_written_completely_whether_or_not_blocks_are_shared(
    tmp_path_factory: pytest.TempPathFactory, head: int, start: int, length: int, can: bool
) -> None:
    folder: Path = tmp_path_factory.mktemp("blocks")
    content = bytes(number % 251 for number in range(start + length + 100))
    (folder / "source").write_bytes(content)
    with pytest.MonkeyPatch.context() as patch, open_regular_file(folder / "source") as source:
        patch.setattr(atomic, "clone_range", cloned if can else lambda *_: False)
        with AtomicFile(folder / "target") as file:
            file.write(b"h" * head)
            assert file.write_range(source, start, start + length) == length
            file.write(b"end")
    written = (folder / "target").read_bytes()
    assert written[:head] == b"h" * head
    assert written[head:].endswith(content[start : start + length] + b"end")
    padding = written[head : len(written) - length - 3]
    assert padding.strip(b" ") == b"" and len(padding) < 4096 and (can or not padding)


def test_a_source_that_ends_early_is_reported(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"short")
    with open_regular_file(tmp_path / "source") as source, AtomicFile(tmp_path / "target") as file:
        assert file.write_range(source, 0, 100) == 5
