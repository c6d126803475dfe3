"""Names give way to numbers, and no value is broken in two."""

import io

import pytest
from rich.console import Console

from opscope.cli.narrow import in_lines, numbers_table


def printed(what, width):
    file = io.StringIO()
    Console(file=file, width=width).print(what)
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 60, 200])
def test_numbers_stay_whole(width):
    names = ["Net.encoder.layers.11.attention.output.dense", "short"]
    numbers = [("Calls", ["1,000", "2"]), ("Total", ["123.45 ms", "0 ns"])]
    lines = printed(numbers_table("Module", names, numbers, width), width)
    assert all("123.45 ms" in line or "0 ns" in line for line in lines[1:])
    assert "1,000" in lines[1]
    assert max(map(len, lines)) <= width
    assert (names[0] in lines[1]) == (width == 200)


def test_lines_break_between_values():
    parts = ["forward 2.95 KiB", "backward 2.89 KiB", "8 B"]
    assert in_lines("At its peak:", parts, 100) == (
        "At its peak: forward 2.95 KiB, backward 2.89 KiB, 8 B"
    )
    assert in_lines("At its peak:", parts, 30) == (
        "At its peak: forward 2.95 KiB,\n  backward 2.89 KiB, 8 B"
    )
    assert in_lines("Nothing", [], 5) == "Nothing"
