"""Fingerprints: short hashes by which texts and values are compared without keeping them."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="deterministic").encode


def canonical_json(value: Any) -> str:
    """Return a value as a JSON text with sorted keys, so that equal values have equal fingerprints."""
    return _encode(value).decode()


def encoded(text: str) -> bytes:
    """Return a text as the bytes of which a fingerprint is made: UTF-8, also of lone surrogates in evidence."""
    return text.encode("utf-8", "surrogatepass")


def fingerprint(*parts: str) -> bytes:
    """Return the fingerprint of these texts: a short hash, the same on every machine."""
    return fingerprint_of(encoded("\0".join(parts)))


def fingerprint_of(data: bytes) -> bytes:
    """Return the fingerprint of a text that is encoded already."""
    return hashlib.blake2b(data, digest_size=8).digest()
