"""Checks that the same evidence gives the same diagnosis, byte for byte, under every installed Python.

    python benchmarks/determinism.py [--json]

Finds Python 3.11 and later on PATH and in pyenv, creates a virtual environment for each, and diagnoses the same streams
of events there, each time with another hash seed, time zone and language. Prints the interpreters that were used: with
a single one, only its environments are compared.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path

import msgspec

HERE = Path(__file__).parent
EVENTS = 5000
ENVIRONMENTS = (
    {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"},
    {"PYTHONHASHSEED": "4242", "TZ": "Asia/Kathmandu", "LC_ALL": "C"},
)


def digest() -> str:
    """Return the digest of the diagnoses of all streams under this interpreter."""
    from diagnosis import STREAMS

    from critiqor.diagnosis import Diagnoser
    from critiqor.model import Coverage

    result = hashlib.sha256()
    for stream in STREAMS.values():
        diagnoser = Diagnoser()
        for event in islice(stream(), EVENTS):
            diagnoser.observe(event)
        diagnosis = diagnoser.conclude("run_001", "sha256:0", Coverage(agent_events=EVENTS), "")
        result.update(msgspec.json.encode(diagnosis))
    return result.hexdigest()


def interpreters() -> dict[str, str]:
    """Return one interpreter per supported minor version, by full version."""
    names = [f"python3.{minor}" for minor in range(11, 30)]
    paths = [sys.executable, *(path for name in names if (path := shutil.which(name)))]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    paths += [str(path) for path in sorted(pyenv.glob("3.*/bin/python"))]
    found: dict[tuple[int, ...], tuple[str, str]] = {}
    for path in paths:
        version = version_of(path)
        numbers = tuple(map(int, version.split("."))) if version else ()
        if numbers >= (3, 11):
            found.setdefault(numbers[:2], (version, path))
    return dict(found.values())


def version_of(path: str) -> str:
    command = [path, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""  # a pyenv shim for a version that is not selected here


def digests_of(path: str, folder: Path) -> list[str]:
    """Return the digests under another interpreter, one per environment."""
    subprocess.run([path, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    needed = f"msgspec=={msgspec.__version__}"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", needed]
    subprocess.run(install, check=True)
    digests = []
    for environment in ENVIRONMENTS:
        variables = {**os.environ, **environment, "PYTHONPATH": str(HERE.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [python, str(HERE / "determinism.py"), "--digest"]
        digests.append(
            subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout.strip()
        )
    return digests


def main() -> None:
    if "--digest" in sys.argv:
        print(digest())
        return
    report = {}
    for version, path in interpreters().items():
        with tempfile.TemporaryDirectory() as name:
            report[version] = digests_of(path, Path(name) / "venv")
    same = len({each for digests in report.values() for each in digests}) == 1
    if "--json" in sys.argv:
        print(json.dumps({"digests": report, "same": same}))
    else:
        for version, digests in report.items():
            print(f"Python {version}: {', '.join(each[:16] for each in digests)}")
        compared = f"{len(report)} interpreters, {len(ENVIRONMENTS)} environments each"
        print(f"{compared}: {'the same bytes' if same else 'NOT the same bytes'} (the same bytes)")
    if not same:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
