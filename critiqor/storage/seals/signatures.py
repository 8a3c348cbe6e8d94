"""Signatures of seals: what is signed, and whether a signature is that of a trusted signer."""

from __future__ import annotations

import re
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from critiqor.errors import CritiqorError
from critiqor.model.timestamps import ms_from_iso
from critiqor.model.verdict import CheckState
from critiqor.storage.seals.signing_key import NAMESPACE, run_keygen, trusted_signers_path


class SignatureResult(NamedTuple):
    """Whether a signature is valid, and whose it is."""

    state: CheckState
    explanation: str
    signer: str | None = None
    fix: str | None = None


def evidence_message(run_id: str, evidence: str, record: str) -> bytes:
    """Return what is signed when evidence is sealed: the digests of session.json and of the run record."""
    return f"critiqor evidence\nrun {run_id}\nevidence {evidence}\nrecord {record}\n".encode()


def diagnosis_message(run_id: str, evidence: str, rule_set: str, diagnosis: str) -> bytes:
    """Return what is signed with a diagnosis: its digest, the digest of its evidence, and its rule set."""
    text = f"critiqor diagnosis\nrun {run_id}\nevidence {evidence}\nrule set {rule_set}\ndiagnosis {diagnosis}\n"
    return text.encode()


def check_signature(message: bytes, signature: str, moment: str) -> SignatureResult:
    """Return whether a signature of a message is valid, and which trusted signer made it.

    The key must have been valid at `moment`, in ISO 8601, the time at which it was signed.
    """
    try:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "signature")
            file.write_text(signature, "utf-8")
            return _check(message, str(file), moment)
    except CritiqorError as error:
        return SignatureResult("not checked", f"the signature was not checked: {error.message}", fix=error.fix)


def _check(message: bytes, file: str, moment: str) -> SignatureResult:
    plain = run_keygen("-Y", "check-novalidate", "-n", NAMESPACE, "-s", file, message=message)
    if plain.returncode:
        return SignatureResult("failed", "the signature does not belong to this content, or is damaged")
    found = re.search(r"SHA256:\S+", plain.stdout + plain.stderr)
    fingerprint = found.group() if found is not None else "unknown"
    trusted = trusted_signers_path()
    if not trusted.is_file():
        return _untrusted(fingerprint, "not checked")
    valid_at = f"-Overify-time={_local_time(moment)}"
    known = run_keygen("-Y", "find-principals", "-s", file, "-f", str(trusted), valid_at)
    names = known.stdout.replace(",", "\n").split()
    if known.returncode or not names:
        said = known.stdout + known.stderr
        if "expired" in said or "not yet valid" in said:
            text = f"the key {fingerprint} was not valid when it signed, {moment}, according to {trusted}"
            return SignatureResult("failed", text, fix=f"correct valid-before or valid-after in {trusted}")
        return _untrusted(fingerprint, "failed")
    name = names[0]
    checked = run_keygen(
        *("-Y", "verify", "-n", NAMESPACE, "-s", file, "-f", str(trusted), "-I", name, valid_at), message=message
    )
    if checked.returncode:
        text = f"{trusted} does not accept the key {fingerprint} of {name} for seals"
        return SignatureResult("failed", text, fix=f'its line in {trusted} needs namespaces="{NAMESPACE}"')
    return SignatureResult("passed", f"signed by {name} ({fingerprint})", name)


def _untrusted(fingerprint: str, state: CheckState) -> SignatureResult:
    """Return the result for an unknown key: a failure only for a user who has said whom to trust."""
    trusted = trusted_signers_path()
    text = f"signed with a key that is not trusted: {fingerprint}"
    fix = f"compare it with `critiqor keys show` of the signer, then add the line that it prints to {trusted}"
    return SignatureResult(state, text, fix=fix)


def _local_time(moment: str) -> str:
    """Return a time as OpenSSH takes it: without a time zone, so local time."""
    seconds = (ms_from_iso(moment) or 0) / 1000
    return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y%m%d%H%M%S")
