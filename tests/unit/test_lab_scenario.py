"""Scenario files: reading, errors that name the wrong key, and writing without loss."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from critiqor.diagnosis import FAILURE_TYPES
from critiqor.errors import UsageError
from critiqor.lab.model.model_script import ToolUse
from critiqor.lab.scenario import Command, Expectation, ModelStep, Provider, Scenario, Turn, World
from critiqor.lab.scenario_file import (
    MAX_BYTES,
    parse_scenario,
    read_scenario,
    read_scenarios,
    select_scenarios,
    shipped_scenarios,
)
from critiqor.lab.scenario_text import scenario_text
from critiqor.lab.verdict import forbidden_types

WHOLE = """
description = "Something."
[[turns]]
message = "Do it."
[[turns.steps]]
text = "Done."
"""
SHIPPED = {scenario.name: scenario for scenario in shipped_scenarios()}


def read(folder: Path, text: str, name: str = "mine.toml") -> Scenario:
    file = folder / name
    file.write_text(text)
    return read_scenario(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("description = ", "it is not valid TOML"),
        (WHOLE, "`expect` is missing"),
        (WHOLE + "[expect]\nprimry = 'tool_loop'", "no key `expect.primry` (did you mean 'primary'?)"),
        (WHOLE + "steps = 3\n[expect]", "no key `turns[0].steps[0].steps`"),
        (WHOLE + "delay = 3\n[expect]", "`turns[0].steps[0].delay` (did you mean 'delay_s'?)"),
        (WHOLE + "status = 'bad'\n[expect]", "turns[0].steps[0].status: expected `int`, got `str`"),
        (WHOLE + "tools = [{ arguments = {} }]\n[expect]", "turns[0].steps[0].tools: a call has no name"),
        (WHOLE + "tools = [{ nam = 'exec' }]\n[expect]", "`turns[0].steps[0].tools[0].nam` (did you mean 'name'?)"),
        (WHOLE + "when = 'fault_free'\n[expect]", "turns[0].steps: all steps have when ="),
        (WHOLE + "[world.kil]\n[expect]", "no key `world.kil` (did you mean 'kill'?)"),
        (WHOLE + "[world.kill]\n[expect]", "`world.kill.request` is missing"),
        (WHOLE + "[world.files]\n'../x' = ''\n[expect]", "'../x' is not a path inside the workspace"),
        (WHOLE + "[expect]\nprimary = 'tool_lop'", "expect.primary: there is no failure type 'tool_lop'"),
        (WHOLE + "[expect]\nsessions = { man = 'ready' }", "no turn is of a session 'man' (did you mean 'main'?)"),
        (WHOLE + "[expect]\nabsent = ['tool_lop']", "(did you mean 'tool_loop'?)"),
        (WHOLE + "[expect]\nfindings = ['tool_loop']", "expect.primary: missing; name the main finding"),
        (WHOLE + "[expect]\nprimary='timeout'\nabsent=['timeout']", "expect.absent: timeout is also expected"),
        (WHOLE + "[expect]\ntrust = [80, 20]", "expect.trust: the lowest score comes first"),
        (
            WHOLE + "[expect]\ncoverage = { missing_record = 0 }",
            "no field 'missing_record' (did you mean 'missing_records'?)",
        ),
        ("on = ['embedded']\n" + WHOLE + "[expect]", "because: missing; explain why"),
        ("name = 'x'\n" + WHOLE + "[expect]", "name: remove this key; the file name is the scenario's name"),
        (WHOLE + WHOLE.split("\n", 2)[2] + "[expect]", "another turn has the same"),
        (WHOLE.replace('"Do it."', '"Do it."\nspawned = true') + "[expect]", "all turns are `spawned`"),
    ],
)
def test_a_bad_file_is_refused_with_the_name_of_the_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, text)
    assert refused.value.message.startswith("mine.toml: ")
    assert message in refused.value.message
    assert refused.value.fix is not None and "mine.toml" in refused.value.fix


def test_a_file_that_is_not_text_or_too_large_or_badly_named_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "b.toml").write_bytes(b"#" * (MAX_BYTES + 1))
    (tmp_path / "C D.toml").write_text(WHOLE + "[expect]")
    for name, message in (("a", "not valid TOML"), ("b", "larger than"), ("C D", "lowercase letters")):
        with pytest.raises(UsageError, match=message):
            read_scenario(tmp_path / f"{name}.toml")


def test_an_empty_folder_and_an_unknown_name_are_reported(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="contains no scenarios"):
        read_scenarios(tmp_path)
    read(tmp_path, WHOLE + "[expect]")
    with pytest.raises(UsageError, match="did you mean 'mine'"):
        select_scenarios(read_scenarios(tmp_path), ["mien"])
    assert [scenario.name for scenario in select_scenarios(read_scenarios(tmp_path), ["mine", "mine"])] == ["mine"]


def test_steps_are_repeated_and_played_with_or_without_the_fault(tmp_path: Path) -> None:
    text = """
    description = "Something."
    [[turns]]
    message = "Do it."
    steps = [
        { status = 500, times = 2, when = "fault" },
        { text = "fine", when = "fault_free" },
        { text = "Done." },
    ]
    [world]
    files = { a = "broken", b = "same" }
    timeout_s = 3
    kill = { request = 1 }
    [provider]
    api_key = ""
    [fault_free]
    files = { a = "whole" }
    provider = { api_key = "some" }
    [expect]
    primary = "provider_failure"
    """
    scenario = read(tmp_path, text)
    [script] = scenario.scripts()
    assert [(step.status, step.text) for step in script.steps] == [(500, ""), (500, ""), (200, "Done.")]
    free = scenario.without_fault()
    [script] = free.scripts()
    assert [(step.status, step.text) for step in script.steps] == [(200, "fine"), (200, "Done.")]
    assert free.world == World(files={"a": "whole", "b": "same"})
    assert free.provider.api_key == "some"
    assert free.without_fault() == free


def test_a_star_stands_for_every_type_that_is_not_expected() -> None:
    assert forbidden_types(Expectation(primary="timeout", absent=("tool_loop",))) == {"tool_loop"}
    assert forbidden_types(Expectation(primary="timeout", absent=("*",))) == set(FAILURE_TYPES) - {"timeout"}
    assert forbidden_types(Expectation()) == set(FAILURE_TYPES), "where nothing is expected, nothing may be found"


texts = some.text(max_size=40)
lines = some.text(alphabet='a"\\\n\t\r\x00\x7f\x9f\u2028é', max_size=20)
steps = some.builds(
    ModelStep,
    text=texts | lines,
    tools=some.lists(
        some.builds(
            ToolUse,
            name=some.just("exec"),
            arguments=some.dictionaries(texts, texts | lines | some.integers(-9, 9) | some.booleans(), max_size=3),
        ),
        max_size=2,
    ).map(tuple),
    times=some.integers(1, 3),
    delay_s=some.sampled_from([0.0, 0.5, 3.0]),
)
paths = some.text("ab./ \"'", min_size=1, max_size=5).filter(lambda path: path[0] != "/" and ".." not in path)
scenarios = some.builds(
    Scenario,
    name=some.just("any"),
    description=some.text(min_size=1, max_size=40),
    turns=some.lists(steps, min_size=1, max_size=3).map(lambda made: (Turn(message="Go.", steps=tuple(made)),)),
    world=some.builds(
        World,
        files=some.dictionaries(paths, lines, max_size=3),
        commands=some.lists(
            some.builds(Command, line=some.text(min_size=1, max_size=20), output=lines), max_size=2
        ).map(tuple),
    ),
    provider=some.builds(Provider, api_key=texts),
    config=some.dictionaries(texts, some.dictionaries(texts, some.booleans(), max_size=2), max_size=2),
    expect=some.just(Expectation(primary="timeout", trust=(10, 20), coverage={"missing_records": 0})),
)


@given(scenarios)
def test_a_scenario_that_is_written_reads_the_same(scenario: Scenario) -> None:
    text = scenario_text(scenario, "one\ntwo")
    assert text.startswith("# one\n# two\n\n")
    assert parse_scenario(text.encode(), "any") == scenario


def test_at_least_forty_scenarios_are_shipped_and_each_reads_the_same_when_it_is_written() -> None:
    assert len(SHIPPED) >= 40
    for name, scenario in SHIPPED.items():
        assert parse_scenario(scenario_text(scenario).encode(), name) == scenario


@pytest.mark.parametrize("kind", FAILURE_TYPES)
def test_every_type_has_a_true_case_and_a_near_miss(kind: str) -> None:
    assert any(kind in scenario.expect.types for scenario in SHIPPED.values())
    near = [one for one in SHIPPED.values() if kind in one.expect.absent and one.description.startswith("Near miss")]
    assert near, f"nothing that looks like {kind} and is none"


def test_every_scenario_says_where_it_cannot_be_played() -> None:
    for scenario in SHIPPED.values():
        assert bool(scenario.because) == (len(scenario.on) < 2)


def test_a_scenario_changes_without_its_fault() -> None:
    same = [one.name for one in SHIPPED.values() if one.has_fault and _played(one) == _played(one.without_fault())]
    assert same == [], "nothing tells these from what they are without their fault"


def _played(scenario: Scenario) -> object:
    return msgspec.to_builtins((scenario.scripts(), scenario.world, scenario.provider, scenario.config))
