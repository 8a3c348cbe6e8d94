"""What to do about a file or a folder that the system refuses, by what it says of it."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from shlex import quote


def fix_for(error: OSError) -> str | None:
    """What to type or to change; None where nobody but the user can know."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "make room on that disk, then type the same again"
    if error.errno == errno.EROFS:
        return "name a place that can be written to"
    if not isinstance(error.filename, str):
        return None
    path = Path(error.filename).absolute()
    # lexists, because a folder that may not be looked into is there all the same.
    there = next(each for each in (path, *path.parents) if os.path.lexists(each))
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"ls -ld {quote(str(there))}   shows who may use it"
    if error.errno == errno.ENOENT and there not in (path, path.parent):
        return f"mkdir -p {quote(str(path.parent))}"
    return None
