"""Digests of files: of sealed evidence, and of the files that are sealed with it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from critiqor.model.evidence import SealedFile
from critiqor.storage.journal import read_chunks


def file_digest(path: Path, limit: int | None = None) -> str | None:
    """Return the digest for the verification of a file, or of its first `limit` bytes; None if there is no file."""
    digest = hashlib.sha256()
    try:
        for data in read_chunks(path, limit):
            digest.update(data)
    except FileNotFoundError:
        return None
    return f"sha256:{digest.hexdigest()}"


def sealed_file_problems(path: Path, sealed: SealedFile | None) -> list[str]:
    """Compare the digest of a file beside the evidence with its seal; what was added later is not part of it."""
    digest = file_digest(path, sealed.bytes) if sealed is not None else None
    if sealed is None or digest == sealed.digest:
        return []
    return [f"{path.name} " + ("is gone" if digest is None else "was changed")]
