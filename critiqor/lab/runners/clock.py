"""A faster clock for a Python program, so that minutes of silence take less than a second.

    python -m critiqor.lab.runners.clock SPEED START MODULE [ARGUMENTS…]

runs a module like `python -m MODULE ARGUMENTS…`. From START on, in nanoseconds since 1970, the time of day and
`perf_counter` run faster; timers are not changed.
"""

from __future__ import annotations

import runpy
import sys
import time


def _speed_up(speed: float, start_ns: int) -> None:
    """Make the clock of this process run at `speed` from `start_ns` on."""
    real_ns = time.time_ns

    def faster_ns() -> int:
        return start_ns + round((real_ns() - start_ns) * speed)

    real_seconds = time.perf_counter
    begun = real_seconds()
    time.time_ns = faster_ns
    time.time = lambda: faster_ns() / 1e9
    time.perf_counter = lambda: begun + (real_seconds() - begun) * speed


if __name__ == "__main__":
    given_speed, given_start, module, *arguments = sys.argv[1:]
    _speed_up(float(given_speed), int(given_start))
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
