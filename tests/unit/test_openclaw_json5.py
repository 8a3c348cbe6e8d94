from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from critiqor.openclaw import Json5Error, parse_json5


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("// a comment\n{a: 1} /* and\nanother */", {"a": 1}),
        ("[1, 2, ]", [1, 2]),
        ("{'a': 1, \"b\": 2, $c_1: 3, d\\u0065: 4,}", {"a": 1, "b": 2, "$c_1": 3, "de": 4}),
        ("{ключ: 1, null: 2, Infinity: 3}", {"ключ": 1, "null": 2, "Infinity": 3}),
        ("[0xFF, -0x10, +1, .5, 5., -1.5e3, 0]", [255, -16, 1, 0.5, 5.0, -1500.0, 0]),
        ("[+Infinity, -Infinity]", [math.inf, -math.inf]),
        ("[true, false, null]", [True, False, None]),
        ("'it\\'s\\x20\\u00e9\\n\\0\\q'", "it's é\n\0q"),
        ("'one \\\nline\\\r\nonly'", "one lineonly"),
        ("'\\ud83d\\ude00'", "😀"),
        ("'a\u2028b'", "a\u2028b"),
        ("\ufeff{}", {}),
        ("\u00a0\t\v\f[]\u2003", []),
        ("{a: 1, a: 2}", {"a": 2}),
    ],
)
def test_reads_what_people_type(text: str, value: object) -> None:
    assert parse_json5(text) == value


def test_reads_nan() -> None:
    assert math.isnan(parse_json5("NaN"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "// only a comment",
        "{",
        "[1 2]",
        "[,]",
        "[1,,2]",
        "{a}",
        "{1: 2}",
        "{a: 1}}",
        "01",
        "1.2.3",
        "1e",
        "0x",
        "0xg",
        "1_000",
        "tru",
        "undefined",
        "Infinityx",
        "'a\nb'",
        "'a",
        "'\\",
        "'\\x4'",
        "'\\u00'",
        "'\\1'",
        "/* never closed",
        "#",
    ],
)
def test_refuses_what_is_not_json5(text: str) -> None:
    with pytest.raises(Json5Error):
        parse_json5(text)


def test_error_names_line_and_column() -> None:
    with pytest.raises(Json5Error, match="line 3, column 3: expected ',' or '}', found 'b'") as caught:
        parse_json5("{\n  a: 1\r\n  b: 2\n}")
    assert (caught.value.line, caught.value.column) == (3, 3)


def test_error_of_an_unclosed_string_points_to_its_start() -> None:
    with pytest.raises(Json5Error, match="line 1, column 5: this string is never closed"):
        parse_json5("{a: 'b}")


@pytest.mark.parametrize("text", ["[" * 100_000, "{a:" * 100_000, "[" * 100_000 + "]" * 100_000])
def test_deep_nesting_is_an_error_and_not_a_crash(text: str) -> None:
    with pytest.raises(Json5Error, match="nested more than"):
        parse_json5(text)


def test_reads_numbers_of_any_length() -> None:
    assert parse_json5("9" * 250) == int("9" * 250)
    assert parse_json5("9" * 5000) == math.inf


_plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_plain, st.booleans())
def test_every_json_text_is_json5_with_the_same_meaning(value: object, ascii_only: bool) -> None:
    assert parse_json5(json.dumps(value, ensure_ascii=ascii_only)) == value


@given(st.text(alphabet="{}[]:,'\"\\/*+-.0123456789xeINaftn \n"))
def test_any_other_text_is_a_value_or_a_json5_error(text: str) -> None:
    try:
        parse_json5(text)
    except Json5Error as error:
        assert error.line >= 1
        assert error.column >= 1
