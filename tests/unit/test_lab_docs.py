"""docs/lab.md is true to the code and to the scenarios that are shipped."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from critiqor.lab.scenario import Expectation, FaultFree, ModelStep, Provider, Scenario, Turn, World
from critiqor.lab.scenario_file import parse_scenario, shipped_scenarios

TEXT = (Path(__file__).parent.parent.parent / "docs" / "lab.md").read_text()


@pytest.mark.parametrize("struct", [Scenario, Turn, ModelStep, World, Provider, FaultFree, Expectation])
def test_every_key_of_a_scenario_is_documented(struct: type[msgspec.Struct]) -> None:
    keys = [name for name in struct.__struct_fields__ if (struct, name) != (Scenario, "name")]
    assert [name for name in keys if f"`{name}`" not in TEXT and f"{name} = " not in TEXT] == []


def test_the_example_is_a_scenario() -> None:
    [example] = re.findall(r"```toml\n(.+?)```", TEXT, re.DOTALL)
    assert parse_scenario(example.encode(), "example").expect.primary == "false_success_claim"


def test_the_shipped_scenarios_are_counted_and_those_that_do_not_apply_everywhere_are_listed_with_the_reason() -> None:
    shipped = shipped_scenarios()
    assert f"\n{len(shipped)} scenarios:" in TEXT
    listed = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \|$", TEXT, re.MULTILINE)
    assert listed == [(one.name, one.on[0], one.because) for one in shipped if len(one.on) == 1]
