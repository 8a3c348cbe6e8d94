"""Policies with mistakes, and policies that are written to cost time or memory: each must be refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

LIMITS = ("cost_usd", "repeats", "tool_calls", "tokens", "model_calls", "minutes", "failures_in_a_row")
BAD_LIMITS = {
    "'5'": "must be a number or a table",
    "true": "must be a number or a table",
    "[1]": "must be a number or a table",
    "-1": ">= 0",
    "inf": "<=",
    "nan": ">= 0",
    "{}": "it has no max",
    "{ max = 'x' }": "expected",
    "{ max = 1, per = 'hour' }": "it must be one of agent_run, session, run, day",
    "{ max = 1, action = 'kill' }": "it must be one of notify, stop",
    "{ max = 1, maximum = 2 }": "there is no key 'maximum' (did you mean 'max'?)",
}
TEXT_PATTERNS = ("never", "always", "require")
TABLE_PATTERNS = ("before", "after", "at_most", "only_if")
BAD_PATTERNS = {
    "1": "expected",
    "true": "expected",
    "[[1]]": "expected",
    "''": "length",
    "{}": "it has no call",
    "{ call = 1 }": "expected",
    "{ call = 'true', unknown = 1 }": "",
}
EXPRESSIONS = {
    "call.tool ==": "it is no CEL expression",
    "call.tool == 'x' &&": "it is no CEL expression",
    "call.tool = 'x'": "it is no CEL expression",
    "(call.tool == 'x'": "it is no CEL expression",
    'call.tool == "x': "it is no CEL expression",
    "#": "it is no CEL expression",
    "call..tool": "it is no CEL expression",
    "call.?tool == 'x'": "it is no CEL expression",
    "'\\q' == call.tool": "it is no CEL expression",
    "has(call)": "it is no CEL expression",
    "tool == 'x'": "there is no tool",
    "cal.tool == 'x'": "there is no cal (did you mean call?)",
    "call.tol == 'x'": "call has no tol (did you mean tool?)",
    "result.output == 'x'": "result has no output",
    "message.content == 'x'": "message has no content",
    "first.call.tool == 'x'": "there is no first",
    "true": "it is about no event",
    "1 == 1": "it is about no event",
    "session == 'x'": "it is about no event",
    "message.text == call.tool": "no event has both message and call",
    "message.text == 'x' || result.status == 'ok'": "no event has both message and result",
    "lower(call.tool) == 'x'": "there is no function lower()",
    "call.tool.lowerAscii() == 'x'": "there is no function lowerAscii()",
    "call.tool.contain('x')": "there is no function contain() (did you mean contains?)",
    "call.tool.matches('(')": "the regular expression is invalid",
    "call.tool.matches('[z-a]')": "the regular expression is invalid",
    "call.tool.matches('(?=x)')": "the regular expression is invalid",
    "call.tool.matches('\\\\')": "the regular expression is invalid",
    "call.tool.matches(call.args.pattern)": "must be a text in quotes",
    "call.tool.matches('a' + 'b')": "must be a text in quotes",
    "matches(call.tool, call.tool)": "must be a text in quotes",
    "call.tool.matches()": "must be a text in quotes",
    "call.tool.matches('(a{100}){100}')": "the regular expression is too costly",
    "call.tool.matches('((((a{9}){9}){9}){9})')": "the regular expression is too costly",
    f"call.tool.matches('{'a|' * 300}a')": "the regular expression is too costly",
    f"{'(' * 100}call.tool == 'x'{')' * 100}": "brackets are nested more than 20 deep",
    f"{'[' * 400}call.tool{']' * 400} == 'x'": "brackets are nested more than 20 deep",
    f"{'{1: ' * 100}call.tool{'}' * 100} == 'x'": "brackets are nested more than 20 deep",
    f"{'size(' * 100}call.tool{')' * 100} == 1": "brackets are nested more than 20 deep",
    f"call.tool {'+' * 1900} 'x'": "it is no CEL expression",
    f"{'!' * 1999}": "it is no CEL expression",
    f"call.tool == '{'x' * 2000}'": "length",
    f"call.tool in [{', '.join(['1'] * 1000)}]": "length",
    "call.args.a.all(x, call.args.a.all(y, call.args.a.all(z, x == y)))": "too many loops",
    "call.args.a.all(x, [1, 2].all(y, [1, 2].exists(z, z == y)))": "too many loops",
    "(call.args.a + call.args.a + call.args.a).all(x, (call.args.a + call.args.a).all(y, x == y))": "too many loops",
    " && ".join(["call.args.a.all(x, call.args.a.all(y, x == y))"] * 11): "too many loops",
    "call.args.a.map(x, x).map(y, y) == call.args.b": "only one map() is allowed",
    "call.args.a.map(x, call.args.a.map(y, call.args.a)) == call.args.b": "only one map() is allowed",
    "call.args.a.all(x, x.matches('[0-9]{4}'))": "may not have numbers of repetitions",
}
"""Expressions about a single event, with what is said about them."""


class Hostile(NamedTuple):
    """A policy that must be refused."""

    name: str
    content: bytes
    said: str
    """A part of the message."""
    key: str | None
    """The key that the message names; None if the file as a whole is refused."""


def _contract(pattern: str) -> str:
    return f"min_trust = 1\n\n[[contracts]]\nid = 'a'\n{pattern}\n"


def _limits() -> Iterator[Hostile]:
    for name in LIMITS:
        for value, said in BAD_LIMITS.items():
            yield Hostile(
                f"{name} = {value}", f"min_trust = 1\n[limits]\n{name} = {value}\n".encode(), said, f"limits.{name}"
            )


def _patterns() -> Iterator[Hostile]:
    for name in (*TEXT_PATTERNS, *TABLE_PATTERNS):
        for value, said in BAD_PATTERNS.items():
            said = "expected" if name in ("always", "require") and value.startswith("{") else said
            said = "must be a table" if name in TABLE_PATTERNS and not value.startswith("{") else said
            yield Hostile(f"{name} = {value}", _contract(f"{name} = {value}").encode(), said, "contracts[0]")


def _expressions() -> Iterator[Hostile]:
    for source, said in EXPRESSIONS.items():
        literal = "'''" + source + "'''"
        yield Hostile(f"never = {source[:60]}", _contract(f"never = {literal}").encode(), said, "contracts[0].never")
    for pattern, key in (
        ("before = { call = 'call.tool == \"x\"', needs = 'call.' }", "contracts[0].before.needs"),
        ("before = { call = 'call.tool == \"x\"', needs = ['true', 'call.'] }", "contracts[0].before.needs[0]"),
        (
            "after = { call = 'call.tool == \"x\"', needs = 'call.tool == \"y\"', where = 'last.x' }",
            "contracts[0].after.where",
        ),
        ("only_if = { call = 'call.tool == \"x\"', holds = 'first.call.tool == \"y\"' }", "contracts[0].only_if.holds"),
        ("only_if = { call = 'call.tool == \"x\"', holds = 'message.text == \"y\"' }", "contracts[0].only_if.call"),
        ("never = { call = 'call.tool == \"x\"', after = [] }", "contracts[0].never.after"),
        ("at_most = { call = 'call.tool == \"x\"', times = -1 }", "contracts[0].at_most.times"),
        ("at_most = { call = 'call.tool == \"x\"', times = 1.5 }", "contracts[0].at_most.times"),
        (
            "before = { call = 'call.tool == \"x\"', needs = 'call.tool == \"x\"', first = 'x' }",
            "contracts[0].before.first",
        ),
    ):
        yield Hostile(pattern, _contract(pattern).encode(), "", key)


def _contracts() -> Iterator[Hostile]:
    never = "never = 'call.tool == \"x\"'"
    for name, text, said in (
        ("no pattern", "", "exactly one of"),
        ("two patterns", f"{never}\nalways = 'call.tool == \"x\"'", "it has never, always"),
        ("unknown key", f"{never}\nseverty = 'high'", "did you mean 'severity'?"),
        ("severity", f"{never}\nseverity = 'hihg'", "it must be one of critical"),
        ("per", f"{never}\nper = 'day'", "it must be one of agent_run, session"),
        ("says", f"{never}\nsays = 3", "expected str"),
        ("long says", f"{never}\nsays = '{'x' * 301}'", "length"),
        ("same id", f"{never}\n[[contracts]]\nid = 'a'\n{never}", "has the id 'a', too"),
        ("bad id", f"{never}\n[[contracts]]\nid = 'a b'\n{never}", "letters, digits"),
        ("no id", f"{never}\n[[contracts]]\n{never}", "it has no id"),
        ("empty", f"{never}\n[[contracts]]", "it has no id"),
    ):
        yield Hostile(name, _contract(text).encode(), said, "contracts[")
    many = "".join(f"[[contracts]]\nid = 'c{number}'\n{never}\n" for number in range(201))
    yield Hostile("too many", many.encode(), "at most 200 are allowed", "contracts")


def _files() -> Iterator[Hostile]:
    for name, content, said in (
        (
            "empty tables",
            b"require_intact = false\nrequire_observed = false\nrequire_finished = false\n[limits]",
            "no rules",
        ),
        ("no TOML", b"= 1", "cannot be read as TOML"),
        ("binary", bytes(range(256)), "cannot be read as TOML"),
        ("zeros", b"\0" * 1000, "cannot be read as TOML"),
        ("deep lists", b"limits = " + b"[" * 30_000, "cannot be read as TOML"),
        ("deep tables", b"limits = " + b"{ a = " * 10_000, "cannot be read as TOML"),
        ("digits", b"[limits]\ntokens = " + b"9" * 5000, "cannot be read as TOML"),
        ("same key", b"[limits]\ntokens = 1\ntokens = 2", "cannot be read as TOML"),
        ("open text", b"[[contracts]]\nid = '''" + b"x" * 60_000, "cannot be read as TOML"),
        ("large", b"#" * 70_000, "at most 65536 are allowed"),
        ("huge list", b"forbidden_types = [" + b"1," * 300_000 + b"]", "at most 65536 are allowed"),
    ):
        yield Hostile(name, content, said, None)
    for name, content, key, said in (
        ("dotted keys", b".".join([b"a"] * 300) + b" = 1", "a", "there is no rule 'a'"),
        ("long key", b"a" * 60_000 + b" = 1", "aaaa", "there is no rule"),
        ("many keys", b"".join(b"k%d = 1\n" % number for number in range(5000)), "k0", "there is no rule 'k0'"),
        ("limits as a list", b"limits = [1]", "limits", "it must be a table"),
        ("limits as a number", b"limits = 1", "limits", "it must be a table"),
        ("contracts as a table", b"[contracts]\nid = 'a'", "contracts", "it must be a list of tables"),
        ("contracts as a text", b"contracts = 'a'", "contracts", "it must be a list of tables"),
        ("contracts as numbers", b"contracts = [1, 2]", "contracts[0]", "it must be a table with the keys id"),
        ("notify as a text", b"notify = 'x'", "notify", "it must be a table"),
        ("unknown limit", b"[limits]\ncosts = 1", "limits.costs", "there is no key 'costs'"),
        ("limit in a table", b"[limits.tokens.max]\nx = 1", "limits.tokens.max", "expected float, got object"),
        ("date", b"[limits]\ntokens = 2024-05-15", "limits.tokens", "must be a number or a table"),
        (
            "long list",
            b"forbidden_types = [" + b"'x'," * 15_000 + b"]",
            "forbidden_types",
            "there is no failure type 'x'",
        ),
        ("deep value", b"min_trust = " + b"[" * 200 + b"]" * 200, "min_trust", "expected int"),
    ):
        yield Hostile(name, content, said, key)


HOSTILE = [*_limits(), *_patterns(), *_expressions(), *_contracts(), *_files()]
