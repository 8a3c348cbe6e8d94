"""Every rule about outputs has examples, and they hold."""

from __future__ import annotations

import re

import pytest

from critiqor.diagnosis.results.lines import read_lines
from critiqor.diagnosis.results.rules import (
    ANY_SCRIPT,
    RuleData,
    all_rules,
    candidates,
    program_data,
    rules_for,
    short_set,
)

RULES = tuple(all_rules())


@pytest.mark.parametrize("data", RULES, ids=lambda data: data.name)
def test_a_rule_matches_its_examples_and_misses_similar_lines(data: RuleData) -> None:
    rules = rules_for(*data.programs, *((ANY_SCRIPT,) if data.anywhere else ()))
    (rule,) = [rule for rule in rules.rules if rule.data.name == data.name]
    alone = short_set([rule])
    assert data.matches and data.misses
    for example in data.matches:
        text = f"{data.needs}\n{example.line}\n"
        assert rule in candidates(rules, text.lower()), "what it `has` are no whole words of the line"
        said = read_lines(text, alone)
        assert said is not None, example.line
        assert (said.state, said.rule) == (example.state, data.name)
        counts = {"failed": said.failed, "passed": said.passed, "total": said.total}
        expected = {name: getattr(example, name) for name in counts if getattr(example, name) is not None}
        assert {name: counts[name] for name in expected} == expected, example.line
        assert said.quote == example.line[:160].strip()
        assert text[said.start :].startswith(said.quote)
        assert said.reason
    for line in data.misses:
        assert read_lines(f"{data.needs}\n{line}\n", alone) is None, line


def test_the_names_of_rules_are_unique() -> None:
    names = [data.name for data in RULES]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("data", RULES, ids=lambda data: data.name)
def test_the_patterns_of_a_rule_are_bounded(data: RuleData) -> None:
    """A repeated group with an open repetition inside can take exponential time."""
    for pattern in (data.line, data.failed, data.passed, data.total):
        assert not re.search(r"[*+]\)[*+]|[*+]\)\{\d+,\}", pattern), pattern


def test_a_program_is_in_one_list_only() -> None:
    data = program_data()
    assert not data.lookups & data.setup
    assert not data.lookups & data.scripts - {"find"}
    assert not data.setup & data.scripts
