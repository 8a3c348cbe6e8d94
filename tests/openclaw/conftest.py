from __future__ import annotations

import pytest
from openclaw.install import VERSIONS


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Each pinned OpenClaw."""
    return str(request.param)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.openclaw)
