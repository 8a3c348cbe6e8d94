from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from support import Runs

# The same examples every time, and no verdict on how fast this machine is today.
settings.register_profile("deterministic", derandomize=True, deadline=None, database=None)
settings.load_profile("deterministic")


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path / "runs")
