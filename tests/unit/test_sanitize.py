"""Text written by others, made safe to print."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from critiqor.model.sanitize import (
    Replacement,
    excerpt,
    quotation,
    remove_escape_sequences,
    replace_lone_surrogates,
    sanitize,
    sanitize_line,
)

HOSTILE = "\x1b[31mred\x1b[0m\u202e\x07 next\nline\tend"


def test_runs_of_unsafe_characters_become_one_space() -> None:
    assert sanitize(HOSTILE) == " [31mred [0m  next line end"
    assert sanitize(HOSTILE, collapse=True) == "[31mred [0m next line end"


def test_a_line_has_no_escape_sequences() -> None:
    assert sanitize_line(HOSTILE) == "red  next line end"


def test_line_breaks_and_tabs_stay_in_multiline_text() -> None:
    assert sanitize(HOSTILE, multiline=True) == " [31mred [0m  next\nline\tend"
    marked = sanitize(HOSTILE, multiline=True, replacement=Replacement.MARK)
    assert marked == "�[31mred�[0m�� next\nline\tend"


def test_every_unsafe_character_gets_a_visible_code_where_raw_data_is_shown() -> None:
    assert sanitize("a\x1b\u202e\ufeff", replacement=Replacement.CODE) == "a␛⟨U+202E⟩⟨U+FEFF⟩"


@pytest.mark.parametrize("replacement", Replacement)
def test_no_control_format_or_surrogate_character_passes(replacement: Replacement) -> None:
    always = {character for character in map(chr, range(sys.maxunicode + 1)) if _is_unsafe(character)}
    assert not always & set(sanitize("".join(sorted(always)), replacement=replacement))


def _is_unsafe(character: str) -> bool:
    # Format characters of single scripts, such as the Arabic number signs, are visible.
    return unicodedata.category(character) in ("Cc", "Zl", "Zp", "Cs") or (
        unicodedata.bidirectional(character) in ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI", "BN")
        and unicodedata.category(character) == "Cf"
        and ord(character) < 0x10000
    )


def test_a_long_text_is_cut_and_says_so() -> None:
    assert sanitize("x" * 11, max_length=10) == "x" * 9 + "…"
    assert sanitize("x" * 10, max_length=10) == "x" * 10
    assert sanitize("\x00" * 100 + "x", max_length=10) == " …"
    assert len(sanitize_line("y" * 10_000_000)) == 1000


def test_codes_are_not_cut_where_there_is_no_maximum() -> None:
    assert sanitize("\u202e" * 3, replacement=Replacement.CODE) == "⟨U+202E⟩" * 3


def test_an_excerpt_is_on_one_line() -> None:
    assert excerpt("one\n two\tthree", 9) == "one two …"


def test_text_with_half_a_surrogate_pair_can_be_encoded() -> None:
    assert replace_lone_surrogates("a\ud83db") == "a�b"
    assert replace_lone_surrogates("\ud83d\ude00") == "😀"


def test_links_and_titles_are_removed_with_their_contents() -> None:
    assert remove_escape_sequences("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b\x1b]8;;\x1b\\") == "ab"


def test_a_quotation_ends_without_the_full_stop_of_its_text() -> None:
    assert quotation("It works.") == "“It works”"
    assert quotation("Wait\nfor it...") == "“Wait for it...”"
    assert quotation("x" * 30, 10) == "“xxxxxxxxx…”"
