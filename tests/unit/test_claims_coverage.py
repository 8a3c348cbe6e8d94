"""Whether everything that was asked for was done, once, and to the right target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from story import Story

CASES = [json.loads(line) for line in Path(__file__).with_name("fixtures").joinpath("claims-coverage.jsonl").open()]
"""Runs with what the user asked for, the calls, the answer, and whether the answer is wrong."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_what_was_left_out_done_twice_or_done_to_another_target_is_found(case: dict[str, Any]) -> None:
    story = Story().user(case["request"])
    for kind, *call in case["calls"]:
        getattr(story, kind)(*call)
    findings = story.says(case["answer"]).finishes().findings()
    assert any(finding.severity in ("medium", "high") for finding in findings) == case["is_wrong"]
