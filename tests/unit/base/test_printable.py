"""Text of programs as others are given it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscope.base.printable import in_encoding, in_markdown, printable, spreadsheet_cell

ANY_TEXT = st.text(st.characters(exclude_categories=[]))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("aten::mm", "aten::mm"),
        ("模型 µ é", "模型 µ é"),
        ("\x1b[2J\x07", r"\x1b[2J\x07"),
        ("\x9b31m\x7f", r"\x9b31m\x7f"),
        ("a\u202eb\u2066\u200b\ufeff", r"a\u202eb\u2066\u200b\ufeff"),
        ("\u2028\u2029\U000e0041", r"\u2028\u2029\U000e0041"),
        ("\ud800", r"\ud800"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
    ],
)
def test_what_is_no_sign_is_spelled_out(text, shown):
    assert printable(text) == shown


@given(ANY_TEXT)
def test_the_result_is_printable_and_stays_as_it_is(text):
    shown = printable(text)
    assert shown.isprintable()
    assert printable(shown) == shown
    shown.encode("utf-8")


@given(
    ANY_TEXT, st.sampled_from(["ascii", "latin-1", "utf-8", "cp1252", "utf-16", "no-such", None])
)
def test_every_encoding_can_say_it(text, encoding):
    known = {"no-such": "ascii", None: "utf-8"}.get(encoding, encoding)
    in_encoding(printable(text), encoding).encode(known)


def test_our_own_signs_have_plain_forms():
    assert in_encoding("12 µs …", "ascii") == "12 us ..."
    assert in_encoding("12 µs", "latin-1") == "12 µs"
    assert in_encoding("模", "ascii") == r"\u6a21"


@pytest.mark.parametrize("start", "=+-@\uff1d\uff0b\uff0d\uff20")
def test_a_formula_is_text_in_a_spreadsheet(start):
    assert spreadsheet_cell(f"{start}cmd|' /C calc'!A0") == f"'{start}cmd|' /C calc'!A0"


@pytest.mark.parametrize("value", [-1, -1.5, 0, True, None, float("-inf"), 2**100])
def test_numbers_stay_numbers(value):
    assert spreadsheet_cell(value) is value


@pytest.mark.parametrize("text", ["-1", "+1.5e-3", "-inf", "aten::mm", "[[2, 3]]", ""])
def test_harmless_cells_are_left_alone(text):
    assert spreadsheet_cell(text) == text


def test_markdown_has_no_markup_from_names():
    assert in_markdown("<img> [a](b) `c` a|b\n# d") == r"\<img> \[a\](b) \`c\` a\|b\n# d"


@pytest.mark.parametrize("start", ["\t=1+1", "\r=1+1", "\n=1+1", "\x00=1+1"])
def test_no_sign_hides_a_formula(start):
    assert spreadsheet_cell(start)[0] == "\\"
