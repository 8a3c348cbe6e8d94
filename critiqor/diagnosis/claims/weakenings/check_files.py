"""Which files decide whether a check passes: tests, expected outputs, settings of checks, pipelines."""

from __future__ import annotations

import re
from functools import lru_cache

from critiqor.diagnosis.claims.weakenings.patterns import pattern

_PROSE = re.compile(r"\.(?:md|rst|txt|adoc)$", re.IGNORECASE)


def is_test(path: str) -> bool:
    """Return whether a file holds tests."""
    return pattern("test_files").search(path) is not None and not is_expected(path) and not _PROSE.search(path)


def is_expected(path: str) -> bool:
    """Return whether a file holds what a check compares with: a snapshot, a golden file, a baseline."""
    return pattern("expected_files").search(path) is not None and not re.search(
        r"\.(?:py|[jt]sx?|go|rs|java|rb|cs|kt)$", path
    )


def is_setting(path: str) -> bool:
    """Return whether a file belongs to a check because it sets how strict the check is."""
    return pattern("setting_files").search(path) is not None or is_pipeline(path)


def is_hook(path: str) -> bool:
    """Return whether a file is a hook, or says which hooks there are."""
    return re.search(r"\.husky|\.git/hooks|\.pre-commit-config|lefthook", path) is not None


@lru_cache(maxsize=1024)
def decides_checks(path: str) -> bool:
    """Return whether a file decides what checks do: tests, what they expect, settings, hooks."""
    return is_expected(path) or is_test(path) or is_setting(path) or is_hook(path)


def is_pipeline(path: str) -> bool:
    """Return whether a file says which checks run, and what their failure means."""
    return pattern("pipeline_files").search(path) is not None
