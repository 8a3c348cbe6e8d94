"""The cause behind a failure, which different tools word differently: a full disk, a refused login, a dead network."""

from __future__ import annotations

import re
from posixpath import dirname, normpath

from critiqor.diagnosis.signals.fast_patterns import pattern_check

MAX_EXAMINED = 2000
"""Maximum number of characters at either end of an output that are examined."""
DISK, LOGIN, NETWORK = "the disk is full", "the login is refused", "the network cannot be reached"
_DISK = re.compile(
    r"\benospc\b|\bedquot\b|no space left|disk (?:is )?full|disk quota exceeded"
    r"|(?:not enough|insufficient) (?:free |disk )*space|errno 28\b|wrote only \d+ of \d+ bytes"
)
_LOGIN = re.compile(
    r"bad credentials|authentication (?:failed|required)|\bunauthori[sz]ed\b|login required|not (?:logged|signed) in"
    r"|invalid (?:username or |access |auth |bearer |api |security )*(?:token|credentials|password|api[ _-]?key)\b"
    r"|(?:token|session|credentials?|api[ _-]?key)(?: \w+){0,2} (?:expired|revoked)|expired[ _-]?token"
    r"|invalid_(?:grant|token)|\brequest ?(?:has )?expired"
    r"|could not read (?:username|password)|permission denied \(publickey|password authentication failed"
    r"|access denied for user|authenticationerror|(?:http\S*|status|code|error)\W{1,3}401\b"
)
_NETWORK = re.compile(
    r"could not resolve|unable to resolve|name resolution|failure resolving|name or service not known"
    r"|nodename nor servname|\benotfound\b|\beai_again\b|getaddrinfo|network is unreachable|\benetunreach\b"
    r"|no route to host|\behostunreach\b"
    r"|failed to establish a new connection|no internet"
)
_REFUSED = re.compile(r"connection refused|\beconnrefused\b")
_DENIED = re.compile(r"\beacces\b|\beperm\b|permission denied|operation not permitted|read-only file system|\berofs\b")
_MISSING = re.compile(
    r"\benoent\b|no such (?:file|directory)|(?:file|directory)(?: or directory)? not found"
    r"|cannot find the (?:path|file)|can't cd to|path \S+ does not exist"
)
_may_name_disk = pattern_check("enospc", "edquot", "space", "disk ", "errno 28", "wrote only")
_may_name_missing = pattern_check("enoent", "no such", "not found", "cannot find", "can't cd", "does not exist")
_may_name_denied = pattern_check("eacces", "eperm", "denied", "not permitted", "read-only", "erofs")
_may_name_login = pattern_check(
    *("credential", "authentica", "authori", "login", "logged in", "signed in", "token", "password", "api", "expired"),
    *("revoked", "invalid_", "could not read", "publickey", "denied for user", "401"),
)
_may_name_network = pattern_check(
    *("resol", "name or service", "servname", "enotfound", "eai_again", "getaddrinfo", "unreach", "no route"),
    *("new connection", "no internet"),
)
# A search costs many times as much as these checks.
_CAUSES = (
    (DISK, _may_name_disk, _DISK.search),
    (LOGIN, _may_name_login, _LOGIN.search),
    (NETWORK, _may_name_network, _NETWORK.search),
)
_PLACE = re.compile(r"(?<![\w.@+/-])(?:~|\.{1,2}|[\w@+-][\w.@+-]*)?(?:/[\w.@+,=-]+)+/?")
_HOST = re.compile(r"(?<![\w.-])((?:[\w-]+\.)*[\w-]+):(\d{2,5})\b")


def cause_of_failure(text: str, *, writes: bool) -> str:
    """Return the cause that the output of a failed call names; empty if it names none.

    A path that does not exist is a cause by itself. If the call `writes` to it, the folder around it is missing.
    """
    examined = _ends(text)
    for cause, may_be_named, search in _CAUSES:
        if may_be_named(examined) and search(examined):
            return cause
    if "refused" in examined and _REFUSED.search(examined):
        host = _HOST.search(examined)
        return f"{host[0]} refuses connections" if host else ""
    missing = _may_name_missing(examined) and _MISSING.search(examined)
    if not missing and not (_may_name_denied(examined) and _DENIED.search(examined)):
        return ""
    place = _place(examined)
    if not place:
        return ""
    if missing:
        return f"missing {dirname(place) if writes and dirname(place) else place}"
    return f"denied {dirname(place) or place}"


def _ends(text: str) -> str:
    return (text if len(text) <= 2 * MAX_EXAMINED else f"{text[:MAX_EXAMINED]}\n{text[-MAX_EXAMINED:]}").lower()


def _place(text: str) -> str:
    """Return the path that an error is about: the last one before the message, else the first one after it."""
    for line in text.splitlines():
        error = _MISSING.search(line) or _DENIED.search(line)
        if error is None:
            continue
        before = _PLACE.findall(line, 0, error.start())
        after = _PLACE.search(line, error.end())
        if before or after:
            return normpath(before[-1] if before else after[0] if after else "")
    return ""


def missing_place(cause: str) -> str:
    """Return the path that is missing according to a cause; empty if the cause is another."""
    return cause[len("missing ") :] if cause.startswith("missing ") else ""
