"""The seal of diagnosis.json: a digest of everything before it, and the signature of the user's key.

Without a key the digest detects damage and careless changes only, because anybody can compute it again.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import msgspec

from critiqor.model.diagnosis import Diagnosis
from critiqor.storage.atomic import json_document, read_regular_file, write_bytes

_SEAL = b',\n  "seal": {'
"""Begin of the last member. A line break is escaped within strings, and deeper members have more spaces before them."""


class DiagnosisSeal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Digest and signature of a diagnosis."""

    digest: str
    """`sha256:` followed by the digest of the bytes of diagnosis.json before the comma in front of `seal`."""
    signature: str | None = None
    """The SSH signature of the user's key over the digests of diagnosis and evidence and the rule set."""
    unsigned: str | None = None
    """Why it was not signed although there was a key."""


class SealedDiagnosis(Diagnosis, kw_only=True):
    """A diagnosis as in diagnosis.json."""

    seal: DiagnosisSeal | None = None
    """Null in a diagnosis of an older version, and outside of diagnosis.json."""


class FoundSeal(NamedTuple):
    """The seal of a diagnosis.json, and the digest of its content as it is now."""

    seal: DiagnosisSeal
    found: str


class _Tail(msgspec.Struct, forbid_unknown_fields=True):
    # Of two members with the same name, readers take the last one: none may follow the seal.
    seal: DiagnosisSeal


def write_diagnosis(path: Path, diagnosis: Diagnosis) -> None:
    """Write a diagnosis.json with its seal, signed if the user has a key."""
    write_bytes(path, sealed_diagnosis(diagnosis))


def sealed_diagnosis(diagnosis: Diagnosis) -> bytes:
    """Return the content of a diagnosis.json with its seal, signed if the user has a key."""
    # Imported here, because lists of runs only read seals.
    from critiqor.storage.seals.signatures import diagnosis_message
    from critiqor.storage.seals.signing_key import sign

    content = msgspec.json.format(msgspec.json.encode(diagnosis), indent=2).removesuffix(b"\n}")
    digest = _digest(content)
    message = diagnosis_message(diagnosis.run_id, diagnosis.evidence_digest, diagnosis.rule_set_version, digest)
    signed = sign(message)
    seal = DiagnosisSeal(digest=digest, signature=signed.signature, unsigned=signed.unsigned)
    return json_document(SealedDiagnosis(**msgspec.structs.asdict(diagnosis), seal=seal))


def read_diagnosis_seal(path: Path) -> FoundSeal | None:
    """Read the seal of a diagnosis.json; None if the file has none as its last member."""
    try:
        data = read_regular_file(path)
    except OSError:
        return None
    return find_seal(data)


def find_seal(data: bytes) -> FoundSeal | None:
    """Return the seal in the content of a diagnosis.json; None if it has none as its last member."""
    start = data.rfind(_SEAL)
    if start < 0:
        return None
    try:
        seal = msgspec.json.decode(b"{" + data[start + 1 :], type=_Tail).seal
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return FoundSeal(seal, _digest(memoryview(data)[:start]))


def diagnosis_problem(found: FoundSeal | None, *, is_required: bool) -> str | None:
    """Compare a diagnosis.json with its seal; None if they agree, or if it has none and an older version made it."""
    if found is None:
        return "diagnosis.json was changed: its seal is missing or damaged" if is_required else None
    return None if found.seal.digest == found.found else "diagnosis.json was changed after it was made"


def _digest(content: bytes | memoryview) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
