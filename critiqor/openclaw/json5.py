"""A small, strict parser for JSON5, the format of OpenClaw's configuration file.

JSON5 adds to JSON: comments, trailing commas, unquoted keys, single quotes, hexadecimal numbers
(https://spec.json5.org). The standard library does not support it, and one file does not justify a dependency.

Accepted trade-offs: numbers with a dot or an exponent become floats, and the last value of a repeated key is used, as
in JavaScript.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

MAX_NESTING = 200
"""Maximum number of nested objects and arrays; deeper nesting is an error instead of a stack overflow."""

_QUOTES = ('"', "'")
_LINE_ENDS = "\n\r\u2028\u2029"
_SPACE = re.compile(r"[\s\ufeff]+")
_COMMENT = re.compile(rf"//[^{_LINE_ENDS}]*|/\*.*?\*/", re.DOTALL)
_NUMBER = re.compile(
    r"[+-]?(?:(?P<hexadecimal>0[xX][0-9a-fA-F]+)|(?P<name>Infinity|NaN)"
    r"|(?P<decimal>(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))"
)
_WORD = re.compile(r"(?:[^\W\d]|[$_]|\\u[0-9a-fA-F]{4})(?:\w|[$\u200c\u200d]|\\u[0-9a-fA-F]{4})*")
_UNICODE_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HEX_DIGITS = {"x": re.compile(r"[0-9a-fA-F]{2}"), "u": re.compile(r"[0-9a-fA-F]{4}")}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_WORD_VALUES = {"true": True, "false": False, "null": None}


class Json5Error(ValueError):
    """The text is not JSON5; the message has the reason, line and column."""

    def __init__(self, reason: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {reason}")
        self.reason = reason
        """What is wrong, without line and column."""
        self.line = line
        """The line, counted from 1."""
        self.column = column
        """The character in the line, counted from 1."""


def parse_json5(text: str) -> Any:
    """Parse one JSON5 value. Raise `Json5Error` for anything else.

    >>> parse_json5("{plugins: {allow: ['telegram',], }, } // mine")
    {'plugins': {'allow': ['telegram']}}
    """
    return _Parser(text).document()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._open = 0

    def document(self) -> Any:
        self._skip_space()
        value = self._value()
        self._skip_space()
        if self._at < len(self._text):
            self._fail(f"unexpected {self._here()} after the end of the value")
        return value

    def _value(self) -> Any:
        character = self._peek()
        if character == "{":
            return self._nested(self._object)
        if character == "[":
            return self._nested(self._array)
        if character in _QUOTES:
            return self._string()
        # Before words, because Infinity and NaN are numbers that look like words.
        if number := _NUMBER.match(self._text, self._at):
            return self._number(number)
        word = _WORD.match(self._text, self._at)
        if not word or word.group() not in _WORD_VALUES:
            self._fail(f"expected a value, found {self._here()}")
        self._at = word.end()
        return _WORD_VALUES[word.group()]

    def _nested(self, read: Callable[[], Any]) -> Any:
        if self._open >= MAX_NESTING:
            self._fail(f"objects and arrays are nested more than {MAX_NESTING} levels deep")
        self._open += 1
        self._at += 1
        value = read()
        self._open -= 1
        return value

    def _object(self) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while not self._closes("}"):
            key = self._key()
            self._skip_space()
            if self._peek() != ":":
                self._fail(f"expected ':' after the key {key!r}, found {self._here()}")
            self._at += 1
            self._skip_space()
            members[key] = self._value()
            self._separator("}")
        return members

    def _array(self) -> list[Any]:
        items: list[Any] = []
        while not self._closes("]"):
            items.append(self._value())
            self._separator("]")
        return items

    def _closes(self, bracket: str) -> bool:
        self._skip_space()
        if self._peek() != bracket:
            return False
        self._at += 1
        return True

    def _separator(self, bracket: str) -> None:
        """Skip the comma after a member; a closing bracket is accepted instead and not consumed."""
        self._skip_space()
        if self._peek() == ",":
            self._at += 1
        elif self._peek() != bracket:
            self._fail(f"expected ',' or '{bracket}', found {self._here()}")

    def _key(self) -> str:
        if self._peek() in _QUOTES:
            return self._string()
        word = _WORD.match(self._text, self._at)
        if not word:
            self._fail(f"expected a key, found {self._here()}")
        self._at = word.end()
        return _UNICODE_ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), word.group())

    def _string(self) -> str:
        start, quote = self._at, self._text[self._at]
        self._at += 1
        parts: list[str] = []
        while (character := self._peek()) != quote:
            if not character:
                self._fail("this string is never closed", start)
            if character in "\n\r":
                self._fail("a string may not continue on the next line without a backslash")
            self._at += 1
            parts.append(self._escape() if character == "\\" else character)
        self._at += 1
        return _SURROGATE_PAIR.sub(_join_surrogates, "".join(parts))

    def _escape(self) -> str:
        start, character = self._at - 1, self._peek()
        self._at += 1
        if not character:
            self._fail("this escape sequence is incomplete", start)
        if character == "\r" and self._peek() == "\n":
            self._at += 1
        if character in _LINE_ENDS:
            return ""
        if character in _HEX_DIGITS:
            digits = _HEX_DIGITS[character].match(self._text, self._at)
            if not digits:
                self._fail(f"\\{character} needs {2 if character == 'x' else 4} hexadecimal digits", start)
            self._at = digits.end()
            return chr(int(digits.group(), 16))
        if character == "0" and not self._peek().isdecimal():
            return "\0"
        if character.isdecimal():
            self._fail(f"\\{character} is not an escape in JSON5", start)
        return _ESCAPES.get(character, character)

    def _number(self, number: re.Match[str]) -> int | float:
        self._at = number.end()
        following = self._peek()
        if following and (following.isalnum() or following in "_$."):
            self._fail("this is not a number", number.start())
        sign = -1 if number.group().startswith("-") else 1
        if digits := number["hexadecimal"]:
            return sign * int(digits, 16)
        if name := number["name"]:
            return sign * math.inf if name == "Infinity" else math.nan
        decimal = number["decimal"]
        # A float even without a dot: Python refuses integers of thousands of digits, and JavaScript has no integers.
        if not decimal.isdecimal() or len(decimal) > 300:
            return sign * float(decimal)
        return sign * int(decimal)

    def _skip_space(self) -> None:
        while True:
            if space := _SPACE.match(self._text, self._at):
                self._at = space.end()
            elif comment := _COMMENT.match(self._text, self._at):
                self._at = comment.end()
            elif self._text.startswith("/*", self._at):
                self._fail("this comment is never closed")
            else:
                return

    def _peek(self) -> str:
        """Return the current character; empty at the end of the text."""
        return self._text[self._at : self._at + 1]

    def _here(self) -> str:
        return repr(self._peek()) if self._peek() else "the end of the text"

    def _fail(self, reason: str, at: int | None = None) -> NoReturn:
        before = re.split("\r\n|[\n\r\u2028\u2029]", self._text[: self._at if at is None else at])
        raise Json5Error(reason, line=len(before), column=len(before[-1]) + 1)


def _join_surrogates(pair: re.Match[str]) -> str:
    return pair.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le")
