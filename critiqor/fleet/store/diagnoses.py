"""Later diagnoses of stored runs: further objects beside the bundle, one per evidence and rule set."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from critiqor.fleet.errors import FleetError, FleetUnavailableError
from critiqor.fleet.manifest import RULE_SET, Manifest, diagnosis_path, rule_set_order, seal_digits
from critiqor.fleet.store.object_store import FleetStore
from critiqor.fleet.store.stored_bundle import MAX_DIAGNOSIS, decode_diagnosis, read_diagnosis
from critiqor.model import Diagnosis


class _Diagnosed(msgspec.Struct):
    rule_set_version: str
    evidence_digest: str


def put_diagnosis(store: FleetStore, seal: str, diagnosis: bytes) -> bool:
    """Store a diagnosis.json. Return False if there is one of this evidence and rule set already.

    Raise `FleetError` if it is no diagnosis of this evidence.
    """
    try:
        made = msgspec.json.decode(diagnosis, type=_Diagnosed)
        path = diagnosis_path(seal, made.rule_set_version)
    except (ValueError, RecursionError) as error:
        raise FleetError(f"the diagnosis cannot be stored: {error}") from error
    if made.evidence_digest != seal:
        raise FleetError("the diagnosis cannot be stored: it belongs to other evidence")
    return store.create(path, diagnosis)


def stored_rule_sets(store: FleetStore, seal: str) -> list[str]:
    """Return the rule sets by which evidence was diagnosed later, the newest first."""
    names = (name.rpartition("/")[2].removesuffix(".json") for name in store.list(f"diagnoses/{seal_digits(seal)}"))
    return sorted(filter(RULE_SET.fullmatch, names), key=rule_set_order, reverse=True)


def read_latest_diagnosis(store: FleetStore, manifest: Manifest) -> Diagnosis:
    """Return the diagnosis of a run by the newest rule set that is stored. One that cannot be used is left out."""
    later = read_first_usable(store, manifest, stored_rule_sets(store, manifest.seal))
    return read_diagnosis(store, manifest) if later is None else later


def read_first_usable(store: FleetStore, manifest: Manifest, rule_sets: Iterable[str]) -> Diagnosis | None:
    """Return the first usable one of the later diagnoses of a run by these rule sets, the newest of which comes first.

    None if that in the bundle is newer.
    """
    for rule_set in rule_sets:
        if rule_set_order(rule_set) <= rule_set_order(manifest.rule_set):
            break
        try:
            return read_later_diagnosis(store, manifest, rule_set)
        except FleetUnavailableError:
            raise
        except FleetError as error:
            store.problems.append(error.message)
    return None


def read_later_diagnosis(store: FleetStore, manifest: Manifest, rule_set: str) -> Diagnosis:
    """Return the diagnosis of a run by a rule set that was applied later. Raise `FleetError` if it cannot be used."""
    data = store.read(diagnosis_path(manifest.seal, rule_set), MAX_DIAGNOSIS)
    return decode_diagnosis(data, manifest, is_sealed=manifest.content == "full")
