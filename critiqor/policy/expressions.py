"""Expressions of contracts and filters: CEL, checked and bounded before anything runs, evaluated on one event or run.

CEL has no cost bound of its own. An expression is therefore refused if it is deeply nested, if its loops can take many
steps, or if it has a costly or computed regular expression. The values of events are bounded, too (`event_values.py`),
and before each evaluation its time is estimated from their number: CEL copies values whenever it takes a member.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cache
from math import prod
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from cel import Context, Program

EventKind = Literal["call", "result", "message"]
"""What an expression is evaluated on: a tool call that begins, one that has returned, or a message."""

MAX_NESTING = 20
"""Maximum depth of brackets."""
MAX_STEPS = 400_000
"""Maximum number of steps that the loops of an expression can take: `all`, `exists`, `exists_one`, `map`, `filter`."""
MAX_ITEMS = 200
"""Maximum number of members of a list or an object of an event that loops go through."""
MAX_REGEX = 500
"""Maximum number of characters of a regular expression."""
MAX_REGEX_REPEATS = 100
"""Maximum product of the numbers of repetitions of a regular expression, as in `(a{10}){20}`."""

MAX_COST = 200_000
"""Maximum estimated time of one evaluation in microseconds; one that may take longer is not made."""

MEMBERS = {"call": ("tool", "args"), "result": ("status", "text", "json"), "message": ("role", "text")}
"""What the parts of an event have."""
_EVENT_NAMES: Mapping[str, tuple[str, ...]] = {**MEMBERS, "session": ()}
"""What an expression about an event sees, with the members of each; none for a plain value."""
_TYPES = frozenset(("int", "uint", "double", "string", "bool", "bytes", "list", "map", "null_type", "type"))
_LOOPS = frozenset(("all", "exists", "exists_one", "map", "filter"))
_FUNCTIONS = (
    frozenset(
        (
            *("size", "contains", "startsWith", "endsWith", "matches", "has", "dyn", "type", "timestamp", "duration"),
            *("int", "uint", "double", "string", "bytes", "max", "min"),
            *("getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate", "getDayOfWeek"),
            *("getHours", "getMinutes", "getSeconds", "getMilliseconds"),
        )
    )
    | _LOOPS
)
_TOKEN = re.compile(
    r"""(?P<text>(?:[rR][bB]?|[bB][rR]?)?(?:\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''
        |(?<=[rR])"[^"\n]*"|(?<=[rR])'[^'\n]*'|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    |(?P<comment>//[^\n]*)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<number>\d[\w.]*)
    |(?P<mark>\S)""",
    re.DOTALL | re.VERBOSE,
)
_REPEAT = re.compile(r"\{(\d+)?,?(\d+)?\}")
_PARSER_ERROR = re.compile(r"ERROR: <input>:(\d+):(\d+): (?:Syntax error: )?([^\n]*)")
_EXPECTING = re.compile(r" expecting .*")
_REFUSED = re.compile(r"Undefined variable or function: '(\w+)'")


_OPERATORS = {"and": "&&", "or": "||", "not": "!", "=": "=="}
"""Operators of other languages, and what they are in CEL."""
_FOREIGN_OPERATOR = re.compile(r"\b(?:and|or|not)\b|(?<![=!<>])=(?!=)")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_CONTROL_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\[abfv]")
"""Escapes in a text that is not raw: `\\b` is the end of a word in a regular expression only."""
_OTHER_CASE = re.compile(r"(?i)(to)?_?(lower|upper|casefold)(ascii|case)?")


class ExpressionError(ValueError):
    """An expression is invalid or too costly."""

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.offset = offset
        """Position of the character that the message is about."""


class EvaluationError(Exception):
    """An expression could not be evaluated on an event, so that nothing is known."""


class EventSize(NamedTuple):
    """How large the values of an event are, and of the earlier one that it is compared with."""

    values: int = 0
    """Number of all values."""
    longest: int = 0
    """Number of members of the longest list or object."""


class _Cost(NamedTuple):
    """What an expression does within so many loops."""

    tokens: int
    members: int
    """How often it takes a member, which copies that value."""
    filters: int
    maps: int
    regexes: int
    sums: int
    """Number of `+` in the expression, which can make lists longer."""
    literals: int
    """Maximum length of a list that is written in the expression."""


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


def _reason(error: Exception) -> str:
    """Return why CEL could not evaluate an expression, in words that its users understand."""
    text = " ".join(str(error).split()).partition(". ")[0].partition(": the operation")[0]
    if text == "No such overload":
        return "an operator or a function does not take such values; contains() searches a text, `in` a list"
    if refused := _REFUSED.fullmatch(text):
        return f"{refused[1]}() does not take such a value"
    return text[:160] or type(error).__name__


class Expression:
    """A valid expression about one event, or about what else has the `names` that it sees."""

    def __init__(
        self, source: str, *, sees_first: bool = False, names: Mapping[str, tuple[str, ...]] = _EVENT_NAMES
    ) -> None:
        """Raise `ExpressionError` if it is broken or too costly. `sees_first`: whether there is an earlier event."""
        tokens = _tokens(source)
        self._program = _compiled(source)
        self.source = source
        self.needs = _parts(tokens, names, sees_first=sees_first)
        """The parts of the event that it is about: `call`, `result`, `message`."""
        self.needs_of_first = _parts_of_first(tokens) if sees_first else frozenset()
        """The same for the earlier event."""
        self._costs = _costs(tokens)

    def is_true(self, context: Context, size: EventSize) -> bool:
        """Return whether it is true of an event. Raise `EvaluationError` if that cannot be known."""
        has_loops = len(self._costs) > 1
        if has_loops and self._estimate(size) > MAX_COST:
            raise EvaluationError(f"it would take too long on an event with {size.values} values")
        try:
            value = self._program.execute(context)
        except KeyError as error:
            raise EvaluationError(f"the event has no {error.args[0] if error.args else 'such key'!r}") from error
        except Exception as error:
            raise EvaluationError(_reason(error)) from error
        if not isinstance(value, bool):
            raise EvaluationError(f"the result is a {type(value).__name__}, neither true nor false")
        return value

    def _estimate(self, size: EventSize) -> float:
        """Return about how long an evaluation takes at most, in microseconds."""
        total = 0.0
        for depth, cost in enumerate(self._costs):
            values, longest = max(size.values, cost.literals), max(size.longest, cost.literals) * (1 + cost.sums)
            copied = 0.2 * cost.members + 0.4 * longest * cost.filters + 0.5 * longest**2 * cost.maps
            total += longest**depth * (0.5 * cost.tokens + 300 * cost.regexes + values * copied)
        return total


PARTS: Mapping[EventKind, frozenset[str]] = {
    "call": frozenset(("call",)),
    "result": frozenset(("call", "result")),
    "message": frozenset(("message",)),
}
"""What each kind of event has."""


def kind_of(expression: Expression, further: Iterable[str] = ()) -> EventKind:
    """Return the kind of event on which an expression is evaluated, given `further` parts that the event must have.

    Raise `ExpressionError` if no kind of event has all of them: a message has no `call`.
    """
    needs = {*expression.needs, *further}
    if "message" in needs and len(needs) > 1:
        raise ExpressionError(f"no event has both message and {min(needs - {'message'})}")
    if not needs:
        raise ExpressionError("it is about no event: use call, result or message")
    return "message" if "message" in needs else "result" if "result" in needs else "call"


def event_context(values: dict[str, Any]) -> Context:
    """Return what expressions are evaluated in: the values of an event by name."""
    _import_cel()
    from cel import Context

    return Context(variables=values)


@cache
def _import_cel() -> None:
    """Import CEL without its command line, which would import several large packages."""
    if "cel" not in sys.modules:
        sys.modules["cel.cli"] = ModuleType("cel.cli")
        import cel  # noqa: F401

        del sys.modules["cel.cli"]


def _compiled(source: str) -> Program:
    _import_cel()
    import cel

    try:
        return cel.compile(source)
    except ValueError as error:
        found = _PARSER_ERROR.search(str(error))
        if found is None:
            raise ExpressionError("it is no CEL expression") from error
        line, column, problem = int(found[1]), int(found[2]), _EXPECTING.sub("", found[3])
        lines = source.splitlines(keepends=True)
        offset = sum(map(len, lines[: line - 1])) + column - 1
        if operator := _FOREIGN_OPERATOR.search(_TOKEN.sub(_blank_text, source)):
            problem = f"{operator[0]} is no operator (did you mean {_OPERATORS[operator[0]]}?)"
            offset = operator.start()
        raise ExpressionError(f"it is no CEL expression: {problem}", min(offset, max(0, len(source) - 1))) from error


def _blank_text(token: re.Match[str]) -> str:
    """Return spaces for a text or a comment, so that only the rest of an expression is searched."""
    return " " * len(token[0]) if token.lastgroup in ("text", "comment") else token[0]


def _tokens(source: str) -> list[_Token]:
    """Return the tokens of an expression. Raise `ExpressionError` if it is too costly or uses unknown names."""
    if control := _CONTROL.search(source):
        text = f"it contains the control character {control[0]!r}"
        raise ExpressionError(f"{text}: put expressions with a backslash in single quotes", control.start())
    found = (token for token in _TOKEN.finditer(source) if token.lastgroup != "comment")
    tokens = [_Token(token.lastgroup or "mark", token[0], token.start()) for token in found]
    depths = _loop_depths(tokens)
    for number, token in enumerate(tokens):
        is_called = number + 1 < len(tokens) and tokens[number + 1].text == "("
        if token.kind != "name" or not is_called:
            continue
        if token.text not in _FUNCTIONS:
            hint = _suggestion(token.text, sorted(_FUNCTIONS))
            if _OTHER_CASE.fullmatch(token.text):
                hint = '; compare upper and lower case alike with matches(r"(?i)…")'
            raise ExpressionError(f"there is no function {token.text}(){hint}", token.start)
        if token.text == "matches":
            _check_regex(tokens, number, in_loop=depths[number] > 0)
    return tokens


def _loop_depths(tokens: list[_Token]) -> list[int]:
    """Return in how many loops each token is. Check the depth of brackets, and how many steps loops take at most."""
    depths: list[int] = []
    marks = [token.text for token in tokens if token.kind == "mark"]
    longest = MAX_ITEMS * (1 + marks.count("+")) + marks.count(",")
    is_loop: list[bool] = []
    steps = maps = 0
    for number, token in enumerate(tokens):
        if token.kind == "mark" and token.text in "([{":
            before = tokens[number - 1] if number else token
            is_loop.append(before.kind == "name" and before.text in _LOOPS)
            if len(is_loop) > MAX_NESTING:
                raise ExpressionError(f"brackets are nested more than {MAX_NESTING} deep", token.start)
            if is_loop[-1]:
                steps += longest ** sum(is_loop)
                maps += before.text == "map"
                if steps > MAX_STEPS:
                    raise ExpressionError("it is too costly: too many loops, or loops within loops", before.start)
                if maps > 1:
                    raise ExpressionError("it is too costly: only one map() is allowed", before.start)
        elif token.kind == "mark" and token.text in ")]}" and is_loop:
            is_loop.pop()
        depths.append(sum(is_loop))
    return depths


def _costs(tokens: list[_Token]) -> list[_Cost]:
    """Return what an expression does outside of loops, within one, and within two."""
    depths = _loop_depths(tokens)
    texts = [token.text if token.kind != "text" else "" for token in tokens]
    common = (texts.count("+"), texts.count(",") + 1)
    costs = []
    for depth in range(max(depths, default=0) + 1):
        here = [text for text, each in zip(texts, depths, strict=True) if each == depth]
        members = here.count(".") + here.count("[")
        costs.append(_Cost(len(here), members, here.count("filter"), here.count("map"), here.count("matches"), *common))
    return costs


_RAW = 'put r before the quotes, as in r"\\b[a-z]+"'


def _check_regex(tokens: list[_Token], number: int, *, in_loop: bool) -> None:
    """Check the regular expression of `text.matches(regex)` or `matches(text, regex)`, which must be a text."""
    end, depth = number + 1, 0
    for end in range(number + 1, len(tokens)):
        depth += (tokens[end].text in ("(", "[", "{")) - (tokens[end].text in (")", "]", "}"))
        if depth == 0:
            break
    last = tokens[end - 1]
    if last.kind != "text" or tokens[end - 2].text not in ("(", ","):
        raise ExpressionError("the regular expression of matches() must be a text in quotes", tokens[number].start)
    most = prod(max(int(found[1] or 1), int(found[2] or 1)) for found in _REPEAT.finditer(last.text))
    if len(last.text) > MAX_REGEX or most > MAX_REGEX_REPEATS:
        raise ExpressionError("the regular expression is too costly", last.start)
    if in_loop and most > 1:
        raise ExpressionError("a regular expression in a loop may not have numbers of repetitions", last.start)
    is_raw = last.text[:2].lower().rstrip("\"'") in ("r", "br", "rb")
    if not is_raw and (found := _CONTROL_ESCAPE.search(last.text)):
        at = last.start + found.end() - 2
        raise ExpressionError(f"{last.text[found.end() - 2 : found.end()]} is a control character here: {_RAW}", at)
    try:
        _compiled(f'"".matches({last.text})').execute({})
    except ExpressionError:
        raise ExpressionError(f"the regular expression is no valid text: {_RAW}", last.start) from None
    except Exception as error:
        reason = " ".join(str(error).rpartition("error: ")[2].split()).partition(". Check")[0]
        raise ExpressionError(f"the regular expression is invalid: {reason}", last.start) from error


def _parts(tokens: list[_Token], names: Mapping[str, tuple[str, ...]], *, sees_first: bool) -> frozenset[str]:
    """Return the parts of the event that an expression is about. Raise `ExpressionError` for an unknown name."""
    bound = {
        tokens[at + 2].text for at, each in enumerate(tokens[:-2]) if each.text in _LOOPS and tokens[at + 1].text == "("
    }
    parts = set()
    for number, token in enumerate(tokens):
        before, after = (tokens[at].text if 0 <= at < len(tokens) else "" for at in (number - 1, number + 1))
        if token.kind != "name" or before == "." or after == "(" or token.text in ("true", "false", "null", "in"):
            continue
        if token.text in bound or token.text in _TYPES or names.get(token.text) == ():
            continue
        if token.text == "first" and sees_first:
            _check_member(tokens, number, MEMBERS)
        elif token.text in names:
            parts.add(token.text)
            _check_member(tokens, number, names[token.text])
        else:
            known = [*names, *(["first"] if sees_first else [])]
            text = f"there is no {token.text}{_suggestion(token.text, known)}; an expression sees {', '.join(known)}"
            raise ExpressionError(text, token.start)
    return frozenset(parts)


def _parts_of_first(tokens: list[_Token]) -> frozenset[str]:
    """Return the parts of the earlier event that an expression takes; none if `has()` asks for one of them."""
    found = set()
    for number, token in enumerate(tokens[:-2]):
        before = [each.text for each in tokens[max(0, number - 2) : number]]
        is_part = token.text == "first" and token.kind == "name" and before[-1:] != ["."]
        if is_part and tokens[number + 1].text == "." and tokens[number + 2].kind == "name":
            is_whole = number + 3 < len(tokens) and tokens[number + 3].text == ")"
            if before == ["has", "("] and is_whole:
                return frozenset()  # it may be missing
            found.add(tokens[number + 2].text)
    return frozenset(found)


def _check_member(tokens: list[_Token], number: int, members: Iterable[str]) -> None:
    """Check the member that follows a part of an event, and for `first` the member of that."""
    if number + 2 >= len(tokens) or tokens[number + 1].text != "." or tokens[number + 2].kind != "name":
        return
    name = tokens[number + 2]
    if name.text not in (known := tuple(members)):
        text = f"{tokens[number].text} has no {name.text}{_suggestion(name.text, known)}; it has {', '.join(known)}"
        raise ExpressionError(text, name.start)
    if members is MEMBERS:
        _check_member(tokens, number + 2, MEMBERS[name.text])


def _suggestion(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word[:80], list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""
