"""Names of runs in a store as users type them: `HOST/RUN`, or `HOST/RUN@DIGITS` with the first digits of the seal."""

from __future__ import annotations

import re
from typing import NamedTuple

from critiqor.errors import UnknownRunError, UsageError
from critiqor.fleet.manifest import HOST_ID, Manifest, seal_digits
from critiqor.fleet.store.object_store import FleetStore

_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_DIGITS = re.compile(r"[0-9a-f]{1,64}")


class Reference(NamedTuple):
    """A run of a store as a user names it."""

    host: str
    run: str
    digits: str = ""
    """First digits of the seal; empty if they were not given."""

    def __str__(self) -> str:
        return f"{self.host}/{self.run}" + (f"@{self.digits}" if self.digits else "")

    def names(self, manifest: Manifest) -> bool:
        """Return whether a manifest is one of a run with this name."""
        is_same = (manifest.host_id, manifest.run_id) == (self.host, self.run)
        return is_same and seal_digits(manifest.seal).startswith(self.digits)


def parse_reference(text: str) -> Reference:
    """Return what a user has typed. Raise `UsageError` if it names no run of a store."""
    host, _, rest = text.partition("/")
    run, at, digits = rest.partition("@")
    if not HOST_ID.fullmatch(host) or not _RUN.fullmatch(run) or (at and not _DIGITS.fullmatch(digits)):
        message = f"{text[:200]!r} names no run of a store"
        raise UsageError(message, fix="use HOST/RUN, such as build-7/run_012, or HOST/RUN@DIGITS of its seal")
    return Reference(host, run, digits)


def find_run(store: FleetStore, reference: Reference) -> Manifest:
    """Return the manifest to which a reference leads. Raise an error if there is none, or if there are several."""
    folder, start = f"manifests/{reference.host}", f"manifests/{reference.host}/{reference.run}-"
    names = [name for name in store.list(folder, after=start) if name.startswith(start)]
    found = [manifest for name in names if reference.names(manifest := store.manifest(name))]
    if len(found) == 1:
        return found[0]
    if not found:
        message = f"there is no run {reference} in {store.url}"
        raise UnknownRunError(message, fix=f"critiqor verify --store {store.url}   lists the runs of a store")
    choices = [f"{reference.host}/{reference.run}@{seal_digits(each.seal)[:8]}" for each in found]
    message = f"{reference} means {len(found)} runs: {', '.join(choices)}"
    raise UsageError(message, fix="name one of them with the digits of its seal")


def reference_to(manifest: Manifest) -> str:
    """Return the name of a run that means no other one of its host."""
    return f"{manifest.host_id}/{manifest.run_id}@{seal_digits(manifest.seal)[:8]}"
