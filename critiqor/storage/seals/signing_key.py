"""The user's signing key: made and used with `ssh-keygen`, kept beside the user's settings, never in a runs folder."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import NamedTuple

import msgspec

from critiqor.errors import CritiqorError, UsageError
from critiqor.storage.atomic import FILE_MODE
from critiqor.storage.paths import FOLDER_MODE, user_folder

NAMESPACE = "critiqor"
"""The namespace of the signatures: a signature that the key made for another purpose is not valid here."""
PROGRAM = "ssh-keygen"
TIMEOUT_SECONDS = 20.0
INSTALL = "install OpenSSH (its package is called openssh-client or openssh), then repeat the command"


class SigningKey(msgspec.Struct, frozen=True, kw_only=True):
    """The user's key and the people whose signatures are trusted."""

    path: str
    """The private key."""
    name: str
    """Name of the signer."""
    fingerprint: str
    trusted_line: str
    """The line by which others trust this key."""
    trusted_signers: str
    """The file with the trusted signers."""
    signers: list[str]
    """Names of the trusted signers."""


class Signed(NamedTuple):
    """A signature, or why there is none although there is a key; neither without a key."""

    signature: str | None = None
    unsigned: str | None = None


def key_path() -> Path:
    """Return the path of the user's private key, which need not exist."""
    return user_folder() / "signing_key"


def trusted_signers_path() -> Path:
    """Return the path of the file with the trusted signers, in the format of OpenSSH's allowed signers."""
    return user_folder() / "trusted_signers"


def create_signing_key(name: str | None) -> SigningKey:
    """Make an Ed25519 key for seals, without a passphrase, and trust it. A key that exists is never replaced."""
    path = key_path()
    if path.exists():
        fix = f"critiqor keys show; to make a new key, move {path} and {path.name}.pub away first"
        raise UsageError(f"there is already a signing key: {path}", fix=fix)
    signer = name or f"{getpass.getuser()}@{socket.gethostname()}"
    if not re.fullmatch(r"[^\s\"',*?!#]+", signer):
        message = f"{signer!r} is not a name for a signer: it must not contain spaces, quotes, commas or wildcards"
        raise UsageError(message, fix="critiqor keys init --name you@example.com")
    path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    made = run_keygen("-q", "-t", "ed25519", "-N", "", "-C", signer, "-f", str(path))
    if made.returncode:
        raise CritiqorError(f"the signing key cannot be made: {_reason(made)}", fix=f"look at {path.parent}")
    path.chmod(FILE_MODE)
    with os.fdopen(os.open(trusted_signers_path(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE), "a") as file:
        file.write(_trusted_line(path) + "\n")
    return read_signing_key()


def read_signing_key() -> SigningKey:
    """Return the user's signing key and the trusted signers. Raise an error if there is no key."""
    path = key_path()
    if not path.exists():
        raise UsageError("there is no signing key, so seals are not signed", fix="critiqor keys init")
    line = _trusted_line(path)
    listed = run_keygen("-l", "-f", f"{path}.pub")
    fingerprint = re.search(r"SHA256:\S+", listed.stdout)
    if listed.returncode or fingerprint is None:
        raise CritiqorError(f"{path}.pub cannot be read: {_reason(listed)}", fix=_restore_public(path))
    return SigningKey(
        path=str(path),
        name=line.split(" ", 1)[0],
        fingerprint=fingerprint.group(),
        trusted_line=line,
        trusted_signers=str(trusted_signers_path()),
        signers=_signers(),
    )


def sign(message: bytes) -> Signed:
    """Sign a message with the user's signing key. A seal without signature is better than none, so it never raises."""
    path = key_path()
    if not path.exists():
        return Signed()
    try:
        made = run_keygen("-q", "-Y", "sign", "-n", NAMESPACE, "-f", str(path), message=message)
    except CritiqorError as error:
        return Signed(unsigned=error.message)
    if made.returncode or not made.stdout.startswith("-----BEGIN SSH SIGNATURE-----"):
        return Signed(unsigned=f"{path} cannot be used: {_reason(made)}")
    return Signed(signature=made.stdout)


def run_keygen(*arguments: str, message: bytes = b"") -> subprocess.CompletedProcess[str]:
    """Run ssh-keygen on the signing key, with a message on its standard input. It never asks for a passphrase."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise CritiqorError(f"{PROGRAM} is not installed", fix=INSTALL)
    # Without a terminal and without a helper program it fails instead of asking.
    environment = {**os.environ, "LC_ALL": "C", "SSH_ASKPASS_REQUIRE": "never"}
    try:
        done = subprocess.run(
            [program, *arguments],
            input=message,
            capture_output=True,
            env=environment,
            timeout=TIMEOUT_SECONDS,
            start_new_session=True,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CritiqorError(f"{PROGRAM} does not work: {error}", fix=INSTALL) from error
    texts = (data.decode("utf-8", "replace") for data in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, *texts)


def _trusted_line(path: Path) -> str:
    try:
        kind, key, name = Path(f"{path}.pub").read_text("utf-8").split(maxsplit=2)
    except (OSError, ValueError) as error:
        raise CritiqorError(f"{path}.pub cannot be read: {error}", fix=_restore_public(path)) from error
    return f'{name.strip()} namespaces="{NAMESPACE}" {kind} {key}'


def _restore_public(path: Path) -> str:
    return f"ssh-keygen -y -f {path} > {path}.pub"


def _signers() -> list[str]:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        lines = trusted_signers_path().read_text("utf-8").splitlines()
        return [line.split()[0] for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return []


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """Return what ssh-keygen says, on one line; for a key that others can read, what to do."""
    said = " ".join((done.stderr or done.stdout).split())
    if "UNPROTECTED PRIVATE KEY" in said:
        return f"other users can read it; chmod 600 {key_path()}"
    if "incorrect passphrase" in said or "passphrase" in said.lower():
        return f"it has a passphrase; remove it with ssh-keygen -p -f {key_path()}"
    return said or f"exit code {done.returncode}"
