"""`python -m critiqor.fleet`: the detached sender that `critiqor finalize` starts.

It prints nothing. How its attempts ended is in the outbox, where `critiqor fleet status` finds it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LINGER_SECONDS = 300.0
"""How long a sender tries to reach a store before it leaves the rest to the next process."""


def main() -> None:
    """Send what waits in the outbox of the runs folder that is the only argument."""
    from critiqor.fleet.settings import read_fleet
    from critiqor.fleet.store.sender import OutboxSender, send_in_background
    from critiqor.run.store import RunStore

    os.nice(10)
    settings = read_fleet()
    if settings.store is None or settings.push is None:
        return  # they were changed since it was started
    send_in_background(OutboxSender(RunStore(sys.argv[1]), settings, settings.push), LINGER_SECONDS)


def start_sender(runs_dir: Path) -> None:
    """Start this module, which sends the runs of a folder to a store, as a process that nobody waits for."""
    # It must not look like a process of a recorded run.
    environment = {name: value for name, value in os.environ.items() if name != "CRITIQOR_RUN_ID"}
    subprocess.Popen(
        # Without the current folder, in which an agent may have put modules of any name.
        [sys.executable, "-P", "-m", "critiqor.fleet", str(runs_dir)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=environment,
    )


if __name__ == "__main__":
    main()
