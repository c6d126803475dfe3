"""The project does not grow unnoticed: ``make size``, and how it counts."""

from pathlib import Path

import pytest

from size.__main__ import exceeded, limits, measured
from size.lines import code_lines


def test_nothing_is_larger_than_its_limit():
    assert exceeded(measured(), limits()) == {}


@pytest.mark.parametrize(
    ("name", "text", "lines"),
    [
        ("a.py", '"""Doc.\n\nMore."""\n\n# why\nx = [\n    1,\n]\n', 3),
        ("b.py", 'def f():\n    """Doc."""\n    return """a\nb"""  # c\n', 3),
        ("c.cpp", "// a\n/* b\n c */ int x;\n\nchar* s = \"// no\";\nauto r = 'c';\n", 3),
        ("d.ts", "const a = `//\n${b}`;\n// c\n", 2),
    ],
)
def test_lines_that_carry_a_token_are_counted(tmp_path: Path, name, text, lines):
    (tmp_path / name).write_text(text)
    assert code_lines(tmp_path / name) == lines
