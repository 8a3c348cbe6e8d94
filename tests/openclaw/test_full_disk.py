"""A real OpenClaw whose disk is full from some write of the recording on: its answer stays, every loss is counted.

The number of writes that are tried is `CRITIQOR_FAULTS`; the default is for `make test`. Every write of both versions:

    CRITIQOR_FAULTS=80 pytest -n 2 tests/openclaw/test_full_disk.py
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from openclaw.rig import FINAL_WORDS, LOCAL_TURN, rig

TRIES = int(os.environ.get("CRITIQOR_FAULTS", "2"))
PRELOADED = Path(__file__).parents[1] / "faults" / "full_disk.mjs"
WRITES = 80
"""At least as many as the recording of this turn makes: about 40 are records, the others depend on its duration."""


@pytest.mark.parametrize("first", [*range(1, WRITES, max(1, WRITES // TRIES)), WRITES])
def test_what_a_full_disk_refuses_is_counted_exactly(
    version: str, first: int, tmp_path: Path, figure: Callable[[str], None]
) -> None:
    with rig(tmp_path, version) as made:
        written = tmp_path / "writes"
        made.environment |= {"NODE_OPTIONS": f"--import={PRELOADED}", "FULL_DISK_FROM": str(first)}
        made.environment["FULL_DISK_COUNT"] = str(written)
        done = made.monitor(*LOCAL_TURN)
        assert done.returncode == 0, done.stderr
        assert FINAL_WORDS in done.stdout
        made.finalize()
        coverage = made.evidence()["coverage"]
        witness = coverage["witness"]
        kept = coverage["journal_lines"] - coverage["damaged_records"]
        counts = f"{witness['produced']} produced, {kept} kept, {witness['lost']} counted as lost"
        figure(f"OpenClaw {version}, disk full from write {first} of {written.read_text()} on: {counts}")
        assert witness["produced"] == kept + witness["lost"]
        assert witness["lost"] == coverage["missing_records"] + coverage["damaged_records"]
        assert witness["produced"] >= 30
        assert not any(witness[name] for name in ("removed", "changed", "inserted", "irregular_reports", "altered"))
        assert witness["lost"] == 0 or first <= int(written.read_text())
        assert ("records_lost" in made.critiqor("show", "run_001", "--json").stdout) == (witness["lost"] > 0)
