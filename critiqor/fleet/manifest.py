"""The manifest of a run in an object store, and the names of its objects.

    manifests/<host>/<run>-<digest>.json    what is known about a run without reading its bundle
    bundles/<host>/<run>-<digest>.zip       the files of the run; `….2.zip` if a damaged object has that name
    diagnoses/<seal>/<rule set>.json        later diagnoses of its evidence

A runs folder numbers its runs from one, and a host may have several folders, so the digest of the sealed evidence is a
part of each name. An object is created once and never replaced.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from critiqor.model.diagnosis import Readiness
from critiqor.model.record import Metadata, Timestamps

MANIFEST_SCHEMA = "critiqor.fleet.manifest.v1"
DIGEST_LENGTH = 16
"""Number of hexadecimal digits of the seal that are a part of an object's name."""
HOST_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
MAX_BUNDLES = 9
"""How many names a bundle can have: the next one is used if what has the name is no bundle of its run."""
RULE_SET = re.compile(r"\d{1,5}(?:\.\d{1,5}){0,3}")
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

Content = Literal["full", "structure"]
"""What leaves a host: everything, or an anonymized view: structure and numbers, no names, paths or texts."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a run in a store."""

    schema_version: str = MANIFEST_SCHEMA
    host_id: str
    """Stable id of the machine that recorded the run."""
    run_id: str
    seal: str
    """`sha256:` followed by the digest of the evidence that was sealed on that machine."""
    signature: str | None = None
    """The SSH signature over the digests; null if the run was not signed."""
    metadata: Metadata
    """Agent, tenant, visibility and with which runs it is compared."""
    timestamps: Timestamps
    sealed_at: str
    events: int
    rule_set: str
    """The rule set of the diagnosis in the bundle."""
    verdict: Readiness | None = None
    """The verdict of that diagnosis."""
    critiqor_version: str
    openclaw_version: str | None = None
    content: Content = "full"
    bundle_size: int
    bundle_digest: str
    """`sha256:` followed by the digest of the bundle."""
    bundle_number: int = 1
    """Which of the names of a bundle this one has."""

    @property
    def name(self) -> str:
        """The name of the run in a store: `HOST/RUN-DIGEST`."""
        return stored_name(self.host_id, self.run_id, self.seal)

    @property
    def manifest_path(self) -> str:
        """The name of the object that holds this manifest."""
        return manifest_name(self.host_id, self.run_id, self.seal)

    @property
    def bundle_path(self) -> str:
        """The name of the object that holds the files of the run."""
        number = f".{self.bundle_number}" if self.bundle_number > 1 else ""
        return f"bundles/{self.name}{number}.zip"


def stored_name(host: str, run_id: str, seal: str) -> str:
    """Return the name that the manifest of a run has in a store: `HOST/RUN-DIGEST`."""
    return f"{host}/{run_id}-{seal_digits(seal)[:DIGEST_LENGTH]}"


def manifest_name(host: str, run_id: str, seal: str) -> str:
    """Return the name of the object that holds the manifest of a run."""
    return f"manifests/{stored_name(host, run_id, seal)}.json"


def decode_manifest(data: bytes, path: str) -> Manifest:
    """Decode the manifest in an object of this name. Raise `ValueError` that says why it is none.

    Others may have put anything into a store, so its names are checked before they become paths.
    """
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if manifest.schema_version != MANIFEST_SCHEMA:
        raise ValueError(f"its schema is {manifest.schema_version[:80]!r}, and this version reads {MANIFEST_SCHEMA}")
    if not HOST_ID.fullmatch(manifest.host_id) or not _RUN_ID.fullmatch(manifest.run_id):
        raise ValueError("the name of its host or run is not valid")
    if not _DIGEST.fullmatch(manifest.bundle_digest) or manifest.bundle_size < 0:
        raise ValueError("it does not describe its bundle")
    if not 1 <= manifest.bundle_number <= MAX_BUNDLES:
        raise ValueError("it names no bundle")
    if manifest.manifest_path != path:
        raise ValueError("it belongs to another name")
    return manifest


def diagnosis_path(seal: str, rule_set: str) -> str:
    """Return the name of the object that holds a later diagnosis, as manifests have names: by seal and rule set.

    Raise `ValueError` if the seal or the rule set cannot be a part of it.
    """
    if not RULE_SET.fullmatch(rule_set):
        raise ValueError(f"{rule_set[:40]!r} is no rule set")
    return f"diagnoses/{seal_digits(seal)}/{rule_set}.json"


def rule_set_order(rule_set: str) -> tuple[int, ...]:
    """Return a key that sorts the rule sets of manifests by age, the oldest first; an invalid one comes first."""
    return tuple(map(int, rule_set.split("."))) if RULE_SET.fullmatch(rule_set) else ()


def seal_digits(seal: str) -> str:
    """Return the hexadecimal digits of the seal in a manifest. Raise `ValueError` if it is not a seal."""
    if not _DIGEST.fullmatch(seal):
        raise ValueError(f"{seal!r} is no digest of sealed evidence")
    return seal.removeprefix("sha256:")
