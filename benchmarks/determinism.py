"""Whether the same evidence gives the same diagnosis, byte for byte, under every Python that is here.

    python benchmarks/determinism.py [--json]

Looks for Python 3.11 and later on PATH and among the versions of pyenv, makes a virtual environment for each, and
diagnoses the same streams of events there, every time with another hash seed, time zone and language. Prints which
interpreters were used: with a single one, nothing was compared but its environments.
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
    """What this interpreter makes of the streams."""
    from diagnosis import STREAMS

    from critiqor.diagnosis import Diagnoser
    from critiqor.model import Coverage

    told = hashlib.sha256()
    for stream in STREAMS.values():
        examination = Diagnoser()
        for event in islice(stream(), EVENTS):
            examination.observe(event)
        concluded = examination.conclude("run_001", "sha256:0", Coverage(agent_events=EVENTS), "")
        told.update(msgspec.json.encode(concluded))
    return told.hexdigest()


def interpreters() -> dict[str, str]:
    """One of every minor version that can run Critiqor, by its full version."""
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
        return ""  # a shim of pyenv for a version that is not chosen here


def digests_of(path: str, folder: Path) -> list[str]:
    """What another interpreter makes of them, once for each environment."""
    subprocess.run([path, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    needed = f"msgspec=={msgspec.__version__}"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", needed]
    subprocess.run(install, check=True)
    told = []
    for environment in ENVIRONMENTS:
        variables = {**os.environ, **environment, "PYTHONPATH": str(HERE.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [python, str(HERE / "determinism.py"), "--digest"]
        told.append(subprocess.run(command, env=variables, capture_output=True, text=True, check=True).stdout.strip())
    return told


def main() -> None:
    if "--digest" in sys.argv:
        print(digest())
        return
    report = {}
    for version, path in interpreters().items():
        with tempfile.TemporaryDirectory() as name:
            report[version] = digests_of(path, Path(name) / "venv")
    same = len({told for digests in report.values() for told in digests}) == 1
    if "--json" in sys.argv:
        print(json.dumps({"digests": report, "same": same}))
    else:
        for version, digests in report.items():
            print(f"Python {version}: {', '.join(told[:16] for told in digests)}")
        compared = f"{len(report)} interpreters, {len(ENVIRONMENTS)} environments each"
        print(f"{compared}: {'the same bytes' if same else 'NOT the same bytes'} (the same bytes)")
    if not same:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
