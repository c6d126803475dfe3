import pytest

from opscope.readers.quoting import quoted


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("aten::mm", "«aten::mm»"),
        ("", "«»"),
        ("a » b « c", "«a \\xbb b \\xab c»"),
        ("\x1b[2J\u202e\n", "«\\x1b[2J\\u202e\\n»"),
        ("x" * 200, f"«{'x' * 160}… +40 characters»"),
        (12, "«12»"),
    ],
)
def test_a_text_is_one_line_between_marks(text, shown):
    assert quoted(text) == shown


@pytest.mark.parametrize("character", ["\x00", "\U000e0001", "»", "é", "\ud800"])
def test_a_long_text_of_anything_stays_short(character):
    shown = quoted(character * 1_000_000)
    assert len(shown) < 400
    assert shown.isprintable() and shown.count("«") == shown.count("»") == 1
