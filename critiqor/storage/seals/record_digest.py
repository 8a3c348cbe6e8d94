"""Digest of what is fixed in a run record when its evidence is sealed: everything but visibility and diagnosis."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import msgspec

from critiqor.model.record import Metadata, RunHead

_FIXED = ("run_id", "status", "lifecycle", "timestamps", "metadata", "owner", "cut", "seal")
_ADDED = ("slot", "recording", "continues", "segment")
"""Members of later versions, which a digest covers where they are set."""


def record_digest(head: RunHead) -> str:
    """Return the digest of the fixed members of a run record, which must be sealed."""
    if head.seal is None:
        raise ValueError("the run record has no seal yet")
    seal = msgspec.structs.replace(head.seal, record=None, signature=None, unsigned=None)
    metadata = msgspec.structs.replace(head.metadata, visibility=Metadata().visibility)
    added = {name: value for name in _ADDED if (value := getattr(head, name)) is not None}
    members = {**{name: getattr(head, name) for name in _FIXED}, **added, "seal": seal, "metadata": metadata}
    fixed = {name: _without_defaults(value) for name, value in members.items()}
    return f"sha256:{hashlib.sha256(msgspec.json.encode(fixed, order='sorted')).hexdigest()}"


def record_problem(head: RunHead) -> str | None:
    """Compare a sealed run record with its digest; None if they agree, or if an older version wrote no digest."""
    if head.seal is None or head.seal.record is None or head.seal.record == record_digest(head):
        return None
    return f"{head.run_id}.json was changed: its metadata, lifecycle, times or seal differ from what was sealed"


def _without_defaults(value: Any) -> Any:
    """Return a struct as a dictionary without default values, so that a field of a later version changes no digest."""
    if isinstance(value, msgspec.Struct):
        members = ((name, default, getattr(value, name)) for name, default in _fields(type(value)))
        return {name: _without_defaults(each) for name, default, each in members if each != default}
    return [_without_defaults(each) for each in value] if isinstance(value, list) else value


@cache
def _fields(kind: type[msgspec.Struct]) -> list[tuple[str, Any]]:
    """Return the fields of a struct with their defaults."""
    names, defaults = kind.__struct_fields__, kind.__struct_defaults__
    missing = [msgspec.NODEFAULT] * (len(names) - len(defaults))
    return list(zip(names, (*missing, *defaults), strict=True))
