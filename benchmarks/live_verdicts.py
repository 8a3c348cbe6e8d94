"""The live verdict compared with that of finalize, over every scenario of the lab and random interleavings.

    python benchmarks/live_verdicts.py [--replays N] [--sample N]

Each scenario is played once on the embedded loop. Its journal is then replayed in pieces of random size, also of parts
of lines, in order and with lines a little out of order, while the live diagnosis follows; at the end its findings,
scores and cost are compared with those of finalize on the same files.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from live_replay import differences, replay

from critiqor.lab.runners.runner import Runner
from critiqor.lab.scenario_file import shipped_scenarios
from critiqor.run.store import Run


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--replays", type=int, default=4, help="Replays of each scenario; half of them out of order.")
    parser.add_argument("--sample", type=int, help="Only this many scenarios, chosen at random.")
    options = parser.parse_args()
    replays = options.replays
    scenarios = [scenario for scenario in shipped_scenarios() if "embedded" in scenario.on]
    if options.sample is not None:
        scenarios = random.Random(1).sample(scenarios, options.sample)
    compared, different = 0, []
    with tempfile.TemporaryDirectory() as name:
        for scenario in scenarios:
            folder = Path(name, scenario.name)
            played = Runner("embedded").play(scenario, folder)
            for number in range(replays):
                chance = random.Random(f"{scenario.name} {number}")
                run = Run.load(played.run_id, played.runs)
                again = replay(run, folder / f"replay {number}", chance, shuffled=bool(number % 2))
                compared += 1
                if found := differences(again.live, again.diagnosis):
                    different.append(f"{scenario.name}, replay {number}: {'; '.join(found)}")
    for line in different:
        print(line)
    print(f"{len(scenarios)} scenarios, {compared} replays: {len(different)} with other findings or scores (at most 0)")


if __name__ == "__main__":
    main()
