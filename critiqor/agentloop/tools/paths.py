"""Paths that a model names, and what the file system said about them, in the words that OpenClaw uses.

A sandboxed run stays in its workspace: a path is followed through `..` and links to where it really leads, and refused
if that is outside. Files are then opened without following a last link, so that a link made in between leads nowhere.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from critiqor.agentloop.tools.tool import ToolContext

_REASONS = {
    errno.ENOENT: "no such file or directory",
    errno.EACCES: "permission denied",
    errno.EPERM: "operation not permitted",
    errno.EISDIR: "illegal operation on a directory",
    errno.ENOTDIR: "not a directory",
    errno.ENOSPC: "no space left on device",
    errno.EROFS: "read-only file system",
    errno.ELOOP: "too many symbolic links encountered",
    errno.ENAMETOOLONG: "name too long",
    errno.EINVAL: "invalid argument",
    errno.EIO: "i/o error",
    errno.EMFILE: "too many open files",
}


class ToolError(Exception):
    """A tool cannot do what it was asked; its words are for the model."""


def resolve(path: str, context: ToolContext) -> Path:
    """The place that a model means; raises `ToolError` where a sandboxed run may not go."""
    if not path.strip():
        raise ToolError(
            "Missing required parameter: path (received: path=<empty-string>). "
            "Supply correct parameters before retrying."
        )
    if "\0" in path:
        raise ToolError("The argument 'path' must be a string without null bytes.")
    try:
        if path.startswith("~/") and not context.sandboxed:
            path = context.environment.get("HOME", "~") + path[1:]
        place = context.workspace / path
        if not context.sandboxed:
            return Path(os.path.normpath(place))
        root = context.workspace.resolve()
        real = place.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ToolError(str(error)) from error
    if real != root and root not in real.parents:
        raise ToolError(f"Path escapes sandbox root ({root}): {path}")
    return real


def open_file(place: Path, flags: int, context: ToolContext) -> int:
    """Open without waiting for anybody, and in a sandbox without following a last link."""
    link = os.O_NOFOLLOW if context.sandboxed else 0
    return os.open(place, flags | os.O_CLOEXEC | os.O_NONBLOCK | link, 0o666)


def reason(error: OSError, call: str, place: Path | None = None) -> str:
    """`ENOENT: no such file or directory, access '/there'`."""
    number = error.errno or 0
    code = errno.errorcode.get(number, "EIO")
    words = _REASONS.get(number) or (os.strerror(number).lower() if number else "i/o error")
    return f"{code}: {words}, {call}" + (f" '{place}'" if place is not None else "")
