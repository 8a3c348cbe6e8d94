"""Verification of stored runs: bundle, seals and signatures, from what is in the store alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import msgspec

from critiqor.errors import CritiqorError
from critiqor.fleet.errors import FleetError, FleetUnavailableError
from critiqor.fleet.manifest import DIGEST_LENGTH, Manifest, diagnosis_path
from critiqor.fleet.reference import reference_to
from critiqor.fleet.scratch import scratch_folder
from critiqor.fleet.store.diagnoses import stored_rule_sets
from critiqor.fleet.store.object_store import FleetStore
from critiqor.fleet.store.stored_bundle import MAX_DIAGNOSIS, decode_diagnosis, read_diagnosis, unpack_bundle
from critiqor.fleet.threads import map_in_threads
from critiqor.model.evidence import SealedFile
from critiqor.model.verdict import Check
from critiqor.run.store import Run
from critiqor.storage.seals.verification import verify_run

THREADS = 4
MAX_LISTED = 1000
"""Maximum number of runs whose results a summary holds."""
_NUMBER = re.compile(rf"(?<=-[0-9a-f]{{{DIGEST_LENGTH}}})\.\d$")


class StoredVerification(msgspec.Struct, frozen=True, kw_only=True):
    """Result of verifying a stored run."""

    name: str
    """`HOST/RUN@DIGITS`."""
    host_id: str
    run_id: str
    seal: str
    intact: bool
    """Whether no check failed. Which ones were possible is in `checks`."""
    problems: list[str]
    checks: list[Check]


class StoreSummary:
    """Results of many runs: all are counted, and some are held."""

    def __init__(self, *, holds_intact: bool) -> None:
        """`holds_intact` is whether the results of runs are held that are not broken."""
        self._holds_intact = holds_intact
        self.verified = self.broken = self.signed = 0
        self.runs: list[StoredVerification] = []
        """At most a thousand."""

    def add(self, result: StoredVerification) -> None:
        """Count a result."""
        self.verified += 1
        self.broken += not result.intact
        self.signed += any(each.name == "evidence_signature" and each.state == "passed" for each in result.checks)
        if (self._holds_intact or not result.intact) and len(self.runs) < MAX_LISTED:
            self.runs.append(result)


def verify_store(store: FleetStore, manifests: Iterable[Manifest]) -> Iterator[StoredVerification]:
    """Verify stored runs, a few at the same time. Raise `FleetUnavailableError` if the store fails."""
    rest = iter(manifests)
    with scratch_folder("verify-") as scratch, ThreadPoolExecutor(THREADS) as pool:
        while batch := list(islice(rest, THREADS * 8)):
            yield from map_in_threads(lambda manifest: verify_stored(store, manifest, scratch), batch, pool)


def verify_stored(store: FleetStore, manifest: Manifest, scratch: Path | None = None) -> StoredVerification:
    """Compare the bundle of a run with its manifest, its files with their seals, and check the signatures.

    `scratch` is where it is unpacked, by default below the user's cache folder.
    """
    if manifest.content == "structure":
        checks = _structure_checks(store, manifest)
    else:
        with scratch_folder("run-", scratch) as folder:
            checks = _full_checks(store, manifest, folder)
    checks += _diagnosis_checks(store, manifest)
    problems = [check.explanation for check in checks if check.state == "failed"]
    return StoredVerification(
        name=reference_to(manifest),
        host_id=manifest.host_id,
        run_id=manifest.run_id,
        seal=manifest.seal,
        intact=not problems,
        problems=problems,
        checks=checks,
    )


def _full_checks(store: FleetStore, manifest: Manifest, folder: Path) -> list[Check]:
    try:
        run = unpack_bundle(store, manifest, folder)
        found = verify_run(run.paths, run.id)
    except FleetUnavailableError:
        raise
    except CritiqorError as error:
        return [Check(name="bundle", state="failed", explanation=error.message)]
    passed = Check(name="bundle", state="passed", explanation="the bundle is the one that its manifest describes")
    return [passed, _manifest_check(run, manifest), *(_without_timeline(run, check) for check in found.checks)]


def _manifest_check(run: Run, manifest: Manifest) -> Check:
    """Compare what a manifest says about a run with its record, which is sealed."""
    head = run.head()
    seal = head.seal
    stated = (manifest.metadata, manifest.timestamps, manifest.signature, manifest.sealed_at, manifest.events)
    found = seal and (head.metadata, head.timestamps, seal.signature, seal.sealed_at, seal.events)
    if stated != found:
        text = "the manifest does not say the same about the run as its sealed record"
        return Check(name="manifest", state="failed", explanation=text)
    return Check(name="manifest", state="passed", explanation="the manifest agrees with the sealed record")


def _without_timeline(run: Run, check: Check) -> Check:
    if check.name != "timeline" or run.timeline_path.exists():
        return check
    text = "OpenClaw's timeline was not stored, because a secret is in it"
    return Check(name="timeline", state="not checked", explanation=text)


def _structure_checks(store: FleetStore, manifest: Manifest) -> list[Check]:
    try:
        stated = SealedFile(manifest.bundle_size, manifest.bundle_digest)
        if store.sealed_file(manifest.bundle_path, stated.bytes) != stated:
            raise FleetError("the bundle is not the one that its manifest describes")
        read_diagnosis(store, manifest)
    except FleetUnavailableError:
        raise
    except CritiqorError as error:
        return [Check(name="bundle", state="failed", explanation=error.message)]
    text = "only structure was stored: its evidence can be verified on its own machine"
    return [
        Check(name="bundle", state="passed", explanation="the bundle is the one that its manifest describes"),
        Check(name="evidence", state="not checked", explanation=text),
    ]


def _diagnosis_checks(store: FleetStore, manifest: Manifest) -> list[Check]:
    """Check the later diagnoses of a run."""
    checks = []
    for rule_set in stored_rule_sets(store, manifest.seal):
        name = f"diagnosis {rule_set}"
        try:
            data = store.read(diagnosis_path(manifest.seal, rule_set), MAX_DIAGNOSIS)
            found = decode_diagnosis(data, manifest, is_sealed=manifest.content == "full")
        except FleetUnavailableError:
            raise
        except CritiqorError as error:
            checks.append(Check(name=name, state="failed", explanation=error.message))
            continue
        is_named = found.rule_set_version == rule_set
        text = "the later diagnosis is as it was made" if is_named else "the later diagnosis is by another rule set"
        checks.append(Check(name=name, state="passed" if is_named else "failed", explanation=text))
    return checks


def incomplete_bundles(store: FleetStore) -> list[str]:
    """Return the bundles that fail verification for want of a manifest: a push is under way, or was killed."""
    known = {_run_of(name) for name in store.list("manifests")}
    return sorted(name for name in store.list("bundles") if _run_of(name) not in known)


def _run_of(name: str) -> str:
    """Return the run that a manifest or a bundle belongs to; a bundle may have a number after the name of its run."""
    return _NUMBER.sub("", name.partition("/")[2].rpartition(".")[0])
