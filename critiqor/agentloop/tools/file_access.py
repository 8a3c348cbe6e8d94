"""File access of tools: paths and their sandbox checks, opening files, and file system errors as OpenClaw words them.

The paths of a sandboxed run are resolved through `..` and links, and refused if they are outside the workspace. Files
are then opened without following a final link, so that a link created in between has no effect.
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
    """A tool failed; the message is for the model."""


def resolve_path(path: str, context: ToolContext) -> Path:
    """Return the absolute path of a tool argument; raises `ToolError` if it is invalid or outside the sandbox."""
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
        file_path = context.workspace / path
        if not context.sandboxed:
            return Path(os.path.normpath(file_path))
        root = context.workspace.resolve()
        real = file_path.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ToolError(str(error)) from error
    if real != root and root not in real.parents:
        raise ToolError(f"Path escapes sandbox root ({root}): {path}")
    return real


def open_file(file_path: Path, flags: int, context: ToolContext) -> int:
    """Open a file for a tool: without blocking, in a sandbox without following a final link. Return the descriptor."""
    link = os.O_NOFOLLOW if context.sandboxed else 0
    return os.open(file_path, flags | os.O_CLOEXEC | os.O_NONBLOCK | link, 0o666)


def format_os_error(error: OSError, call: str, file_path: Path | None = None) -> str:
    """Format a file system error as Node.js does: `ENOENT: no such file or directory, access '/there'`."""
    number = error.errno or 0
    code = errno.errorcode.get(number, "EIO")
    text = _REASONS.get(number) or (os.strerror(number).lower() if number else "i/o error")
    return f"{code}: {text}, {call}" + (f" '{file_path}'" if file_path is not None else "")


def write_file(file_path: Path, data: bytes, context: ToolContext) -> None:
    """Write a file for a tool and create its missing folders; raises `ToolError`."""
    try:
        file_path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(format_os_error(error, "mkdir", file_path.parent)) from error
    try:
        descriptor = open_file(file_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, context)
    except OSError as error:
        raise ToolError(format_os_error(error, "open", file_path)) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except OSError as error:
        raise ToolError(format_os_error(error, "write")) from error
