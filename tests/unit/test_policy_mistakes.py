"""Mistakes in policies: each is refused before anything runs, with its place; also the costly and the hostile ones."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import msgspec
import pytest
from hostile_policies import HOSTILE, Hostile
from hypothesis import given
from hypothesis import strategies as st

from critiqor.cli.settings import POLICY_TABLES
from critiqor.diagnosis import FAILURE_TYPES
from critiqor.policy.limits import Limit
from critiqor.policy.places import TomlPlaces, format_key
from critiqor.policy.policy_file import DEFAULT_POLICY, TABLES, PolicyError, parse_policy, parse_policy_tables


def test_there_are_at_least_200_of_them() -> None:
    assert len({each.content for each in HOSTILE}) >= 200


@pytest.mark.parametrize("policy", HOSTILE, ids=lambda policy: repr(policy.name[:60]))
def test_a_mistake_is_named_with_its_place(policy: Hostile) -> None:
    with pytest.raises(PolicyError) as raised:
        parse_policy(policy.content, "toml", FAILURE_TYPES)
    message = str(raised.value)
    assert policy.said.lower() in message.lower()
    assert len(message) < 4000
    if policy.key is not None:
        place = re.match(r"line (\d+), column (\d+): ", message)
        assert place and message[place.end() :].startswith(policy.key), message[:200]
        lines = policy.content.decode().split("\n")
        assert 1 <= int(place[2]) <= len(lines[int(place[1]) - 1]) + 1


def as_json(content: bytes) -> bytes | None:
    try:
        return msgspec.json.encode(tomllib.loads(content.decode()) or None)
    except (ValueError, RecursionError):
        return None


@pytest.mark.parametrize(
    "policy", [each for each in HOSTILE if as_json(each.content) is not None], ids=lambda policy: repr(policy.name[:60])
)
def test_the_same_mistake_in_json_is_named_with_its_key(policy: Hostile) -> None:
    with pytest.raises(PolicyError) as raised:
        parse_policy(as_json(policy.content) or b"", "json", FAILURE_TYPES)
    assert str(raised.value).startswith(policy.key or "it ")


def message_of(text: str) -> str:
    with pytest.raises(PolicyError) as raised:
        parse_policy(text.encode(), "toml", ())
    return str(raised.value)


def test_the_place_is_that_of_the_character_in_the_expression() -> None:
    before = "before = { call = 'call.tool == \"x\"', needs = 'call.tool == \"y\" && cal.args.x == 1' }"
    text = f"# comment = 1\n\n[[contracts]] # first\nid = 'a'\n{before}\n"
    assert message_of(text).startswith(f"line 5, column {before.index('cal.args') + 1}: contracts[0].before.needs: ")
    several = "[[contracts]]\nid = 'a'\nnever = '''call.tool == \"x\"\n  && call.toool == 1'''\n"
    assert message_of(several).startswith("line 4, column 11: contracts[0].never: call has no toool")
    first = "[[contracts]]\nid = 'a'\nnever = 'call.tool == \"x\"'\n"
    second = f"{first}[[contracts]]\nid = 'b'\n[contracts.after]\ncall = '1'\n"
    assert message_of(second).startswith("line 6, column 1: contracts[1].after: it has no needs; the keys are")


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (
            'call.tool = "pay"',
            "column 20: contracts[0].never: it is no CEL expression: = is no operator (did you mean ==?)",
        ),
        (
            'call.tool == "a and b" and call.tool == "c"',
            "column 33: contracts[0].never: it is no CEL expression: and is no",
        ),
        ("not has(call.args.path)", "not is no operator (did you mean !?)"),
        ('message.text.lower().contains("done")', 'compare upper and lower case alike with matches(r"(?i)…")'),
        ('message.text.matches("(open")', "the regular expression is invalid: unclosed group"),
        (
            r'message.text.matches("\bdone\b")',
            r"column 32: contracts[0].never: \b is a control character here: put r before",
        ),
        (r'message.text.matches("\d+")', "no valid text: put r before the quotes"),
        ("message.text.matches('\bdone')", "put expressions with a backslash in single quotes"),
    ],
)
def test_a_habit_of_another_language_is_named_with_what_is_right_here(expression: str, said: str) -> None:
    text = f"[[contracts]]\nid = 'a'\nnever = {msgspec.json.encode(expression).decode()}\n"
    if "column" in said:
        text = f"[[contracts]]\nid = 'a'\nnever = '{expression}'\n"
    assert said in message_of(text)


def test_a_word_boundary_in_a_raw_text_and_an_escaped_backslash_are_no_control_characters() -> None:
    for regex in (r'r"\bdone\b"', r'"\\bdone\\b"', r"R'\bdone'"):
        text = f"[[contracts]]\nid = 'a'\nnever = '''message.text.matches({regex})'''\n"
        assert parse_policy(text.encode(), "toml", ()).contracts


def test_an_earlier_event_without_what_a_condition_takes_of_it_is_a_mistake() -> None:
    where = "where = 'first.message.text == call.args.x'"
    text = (
        f"[[contracts]]\nid = 'a'\nbefore = {{ call = 'call.tool == \"x\"', needs = 'call.tool == \"y\"', {where} }}\n"
    )
    assert message_of(text).endswith("contracts[0].before.where: first is a call here, which has no message")
    asked = text.replace("first.message", "has(first.message) && first.message")
    assert parse_policy(asked.encode(), "toml", ()).contracts


def test_a_rule_of_the_gate_below_a_table_is_no_misspelled_limit() -> None:
    text = message_of("[limits]\nrepeats = 1\nmin_trust = 70\n")
    assert (
        text
        == "line 3, column 1: limits.min_trust: min_trust is a rule for a finished run: put it before the first table"
    )


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text(alphabet="xy'\"#=[]{}\\\n ", max_size=12)), max_size=6))
def test_places_are_found_in_any_file_that_the_parser_accepts(tables: list[tuple[str, str]]) -> None:
    text = "top = 1\n"
    expected: dict[tuple[Any, ...], int] = {("top",): 1}
    counts: dict[str, int] = {}
    for name, value in tables:
        index = counts[name] = counts.get(name, -1) + 1
        text += f"\n[[{name}]]  # [x]\n"
        expected[name, index] = text.count("\n")
        expected[name, index, "key"] = text.count("\n") + 1
        literal = msgspec.json.encode(value).decode()
        text += (
            f"key = {{ inner = {literal}, list = [\n  1, # ]\n  2] }}\n" if "{" not in value else f"key = {literal}\n"
        )
    document = tomllib.loads(text) if _accepts(text) else None
    if document is None:
        return
    places = TomlPlaces(text)
    assert {path: place.line for path in expected if (place := places.find(path))} == expected
    assert places.find(("nothing",)) is None


def _accepts(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def test_the_name_of_a_key() -> None:
    assert format_key(("contracts", 2, "before", "needs", 0)) == "contracts[2].before.needs[0]"


def test_the_tables_of_a_settings_file_are_a_policy_with_the_default_rules() -> None:
    settings = b"runs_dir = 'elsewhere'\n[limits]\ntokens = 5\ncost_usd = { max = 1, per = 'day', action = 'stop' }\n"
    policy = parse_policy_tables(settings + b"[notify]\nanything = 1\n")
    assert policy.min_trust == DEFAULT_POLICY.min_trust
    assert policy.limits.given == {"cost_usd": Limit(1.0, "day", "stop"), "tokens": Limit(5.0)}
    assert policy.notify == {"anything": 1}
    with pytest.raises(PolicyError, match=r"line 3, column 1: limits\.tokns"):
        parse_policy_tables(b"runs_dir = 'x'\n[limits]\ntokns = 1")
    assert parse_policy_tables(b"runs_dir = 'x'") == DEFAULT_POLICY
    assert set(TABLES) == POLICY_TABLES
