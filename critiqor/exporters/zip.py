"""Files that belong together as one ZIP archive, with their checksums: the same bytes whenever the same run is packed.

Times and permissions are fixed, the order is that of the names, and nothing is held as a whole. In the folder that
comes out, `sha256sum -c SHA256SUMS` checks it.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterable, Iterator

from critiqor.model.report import Bundle

CHECKSUMS = "SHA256SUMS"
LEVEL = 6
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The first moment that an archive can tell."""
_MODE = 0o100600 << 16
_UNIX = 3


def report(bundle: Bundle) -> Iterator[bytes]:
    """The archive, piece by piece."""
    out = _Pipe()
    sums = []
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for file in sorted(bundle.files, key=lambda file: file.name):
            digest = hashlib.sha256()
            yield from _packed(archive, out, f"{bundle.name}/{file.name}", file.size, _digested(file.read(), digest))
            sums.append(f"{digest.hexdigest()}  {file.name}\n")
        listing = "".join(sums).encode()
        yield from _packed(archive, out, f"{bundle.name}/{CHECKSUMS}", len(listing), [listing])
    yield out.taken()


def _packed(archive: zipfile.ZipFile, out: _Pipe, name: str, size: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    entry = zipfile.ZipInfo(name, _LONG_AGO)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = _UNIX
    entry.external_attr = _MODE
    entry.file_size = size
    with archive.open(entry, "w") as file:
        for piece in pieces:
            file.write(piece)
            if data := out.taken():
                yield data
    yield out.taken()


def _digested(pieces: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for piece in pieces:
        digest.update(piece)
        yield piece


class _Pipe(io.RawIOBase):
    """Where an archive is written to, and taken from as it grows; it cannot be gone back in."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> int:  # type: ignore[override]
        self._waiting.append(bytes(data))
        return len(data)

    def taken(self) -> bytes:
        data = b"".join(self._waiting)
        self._waiting.clear()
        return data
