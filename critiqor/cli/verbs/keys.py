"""`critiqor keys init`, `critiqor keys show`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from critiqor.cli.options import json_option
from critiqor.cli.output import answer

if TYPE_CHECKING:
    from critiqor.storage.seals.signing_key import SigningKey

_HELP = {"help_option_names": ["-h", "--help"]}


@click.group(context_settings=_HELP)
def keys() -> None:
    """Make or show the key with which seals are signed, and the signers that are trusted.

    \b
    critiqor keys init                        make a key; finalize and diagnose then sign
    critiqor keys show                        its fingerprint, and the line by which others trust it

    The key is in your configuration folder. Programs that run as your user, an agent for example, can read it.
    """


@keys.command(context_settings=_HELP)
@click.option("--name", help="Name of the signer.  [default: your user name and host, user@host]")
@json_option
def init(name: str | None, as_json: bool) -> None:
    """Make an Ed25519 key and trust it. An existing key is never replaced."""
    from critiqor.storage.seals.signing_key import create_signing_key

    key = create_signing_key(name)
    text = [f"made {key.path}", *_lines(key), "Seals and diagnoses are signed from now on.", "Next: critiqor finalize"]
    answer("keys", key, "\n".join(text), as_json=as_json)


@keys.command(context_settings=_HELP)
@json_option
def show(as_json: bool) -> None:
    """Show the key, the line by which others trust it, and the signers that you trust."""
    from critiqor.storage.seals.signing_key import read_signing_key

    key = read_signing_key()
    text = [f"key: {key.path}", *_lines(key), f"trusted signers, in {key.trusted_signers}:"]
    answer("keys", key, "\n".join([*text, *(f"  {name}" for name in key.signers)]), as_json=as_json)


def _lines(key: SigningKey) -> list[str]:
    return [
        f"signer: {key.name}",
        f"fingerprint: {key.fingerprint}",
        "to trust it on another machine, add this line to trusted_signers in its configuration folder:",
        f"  {key.trusted_line}",
    ]
