"""ZIP archive of the files of a run, with checksums. The same run always gives the same bytes.

Times and permissions are fixed, files are sorted by name, and no file is held in memory as a whole. In the unpacked
folder, `sha256sum -c SHA256SUMS` checks the files.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from critiqor.model.report import Bundle, BundledFile
from critiqor.storage.atomic import open_regular_file

CHECKSUMS = "SHA256SUMS"
LEVEL = 6
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a ZIP archive can represent."""
_MODE = 0o100600 << 16
_UNIX = 3
_PIECE = 1 << 18
"""Number of bytes of a file that are read at once."""


def report(bundle: Bundle) -> Iterator[bytes]:
    """Yield the ZIP archive in pieces."""
    out = _Pipe()
    sums = []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for file in sorted(bundle.files, key=lambda file: file.name):
            digest = hashlib.sha256()
            yield from _packed(archive, out, f"{bundle.name}/{file.name}", file.size, _digested(file.read(), digest))
            sums.append(f"{digest.hexdigest()}  {file.name}\n")
        listing = "".join(sums).encode()
        yield from _packed(archive, out, f"{bundle.name}/{CHECKSUMS}", len(listing), [listing])
    yield out.take()


def packed_file(name: str, path: Path, limit: int | None = None) -> BundledFile:
    """Return a file for a ZIP archive, or its first `limit` bytes; it is read when it is packed."""
    size = path.stat().st_size if limit is None else limit
    return BundledFile(name, size, lambda: _pieces(path, size))


def packed_json(name: str, document: object) -> BundledFile:
    """Return a document for a ZIP archive, as indented JSON."""
    return packed_text(name, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def packed_text(name: str, content: bytes) -> BundledFile:
    """Return bytes as a file for a ZIP archive."""
    return BundledFile(name, len(content), lambda: [content])


def _pieces(path: Path, size: int) -> Iterator[bytes]:
    with open_regular_file(path) as file:
        while size > 0 and (piece := file.read(min(_PIECE, size))):
            size -= len(piece)
            yield piece


def _packed(archive: zipfile.ZipFile, out: _Pipe, name: str, size: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = _UNIX
    entry.external_attr = _MODE
    entry.file_size = size
    with archive.open(entry, "w") as file:
        for piece in pieces:
            file.write(piece)
            if data := out.take():
                yield data
    yield out.take()


def _digested(pieces: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for piece in pieces:
        digest.update(piece)
        yield piece


class _Pipe(io.RawIOBase):
    """A buffer that an archive is written to and read from while it grows; it cannot seek."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        self._pieces.append(bytes(data))
        return len(data)

    def take(self) -> bytes:
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data
