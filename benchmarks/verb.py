"""Verbs of the command line as processes of their own: what a user waits for and what it takes of their memory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

CRITIQOR = str(Path(sys.executable).parent / "critiqor")
ENVIRONMENT = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}

# VmHWM is the peak since exec. The peak of a child in getrusage would include its parent's.
MEASURED = """
import os, sys
from critiqor.cli import main
try:
    main()
finally:
    print(*open("/proc/self/status"), *open("/proc/self/io"), file=sys.stderr)
    print("cpu_ms:", round(1000 * sum(os.times()[:2])), file=sys.stderr)
"""


MAIN = """
from critiqor.cli import main
main()
"""


def seconds(*arguments: str) -> float:
    """Return the wall-clock seconds of `critiqor ARGUMENTS`."""
    began = time.perf_counter()
    subprocess.run([CRITIQOR, *arguments], check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    return time.perf_counter() - began


def cpu_seconds(*arguments: str, prelude: str | None = None) -> float:
    """Return the CPU seconds of `critiqor ARGUMENTS`, which other processes of the machine disturb less.

    `prelude` is Python code that the process runs first; the time of two verbs with a prelude each can be compared.
    """
    command = [CRITIQOR] if prelude is None else [sys.executable, "-c", f"{prelude}\n{MAIN}"]
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, arguments)
    return usage.ru_utime + usage.ru_stime


def figures(*arguments: str) -> dict[str, int]:
    """Return what the kernel counts for `critiqor ARGUMENTS`: VmHWM is peak memory in KB, wchar the bytes written.

    `cpu_ms` is the CPU time in milliseconds.
    """
    command = [sys.executable, "-c", MEASURED, *arguments]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
    return {name: int(value) for name, value in re.findall(r"(\w+):\s+(\d+)", done.stderr)}


def peak_mb(*arguments: str) -> float:
    """Return the peak memory of `critiqor ARGUMENTS` in megabytes."""
    return figures(*arguments)["VmHWM"] / 1024
