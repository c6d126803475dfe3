"""The peak as text."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.analysis.memory.peak import AliveBlocks, PeakGroup, PeakMemory
from opscope.export.peak_table import peak_table, size_text


def peak(by_stack=(), by_operator=(), by_line=(), **numbers):
    none = np.zeros(0, dtype=np.int64)
    given = {"before_bytes": 0, "unseen_bytes": 0, "uncertain_bytes": 0, **numbers}
    return PeakMemory(
        device="cuda:0",
        time_ns=5,
        total_bytes=4096,
        blocks=AliveBlocks(none, none, none, none, [], [], [], [], []),
        by_category=(PeakGroup("parameter", 1024, 2, 1024),),
        by_module=(),
        by_operator=tuple(by_operator),
        by_stack=tuple(by_stack),
        by_line=tuple(by_line),
        **given,
    )


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1024, "1.00 KiB"), (3 << 29, "1.50 GiB"), (1 << 60, "1024.00 PiB")],
)  # fmt: skip
def test_sizes(size, text):
    assert size_text(size) == text


def test_the_head_says_how_much_is_from_before_and_how_sure_that_is():
    lines = peak_table(peak(before_bytes=2048, unseen_bytes=512, uncertain_bytes=1024)).splitlines()

    assert lines[:4] == [
        "4.00 KiB in use on cuda:0 at its peak",
        "  2.00 KiB of it allocated before the recording",
        "  512 B of that not used or freed since",
        "  1.00 KiB of that possibly freed by then, unnoticed",
    ]
    assert peak_table(peak()).splitlines()[:2] == ["4.00 KiB in use on cuda:0 at its peak", ""]


def test_a_row_has_size_share_blocks_and_what_is_from_before():
    assert "parameter      1.00 KiB   25.0%        2      1.00 KiB" in peak_table(peak())


def test_more_rows_than_wanted_are_summed_up():
    groups = [PeakGroup(f"aten::op{i}", 100 - i, 1, 0) for i in range(10)]

    lines = peak_table(peak(by_operator=groups), most_rows=3).splitlines()

    shown = [line.split()[0] for line in lines if line.startswith(("aten::", "("))]
    assert shown == ["aten::op0", "aten::op1", "aten::op2", "(7"]
    assert next(line for line in lines if line.startswith("(7 more)")).split()[2:4] == ["658", "B"]


def test_stacks_are_shown_by_the_programs_own_function():
    groups = [
        PeakGroup("train.py(1): main;/x/torch/nn.py(5): call;<built-in method add>", 10, 1, 0),
        PeakGroup("train.py(1): main;torch/optim.py(5): step", 5, 1, 0),
        PeakGroup("torch/a.py(1): f", 1, 1, 0),
    ]

    lines = peak_table(peak(by_stack=groups)).splitlines()

    assert [line.split("  ")[0] for line in lines[-2:]] == ["train.py(1): main", "torch/a.py(1): f"]
    assert lines[-2].split()[2:4] == ["15", "B"]


def test_long_names_are_cut():
    table = peak_table(peak(by_operator=[PeakGroup("x" * 200, 1, 1, 0)]))

    assert max(map(len, table.splitlines())) < 130 and "xxx..." in table


def test_lines_of_the_program_are_named_relative_to_this_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    line = f"{tmp_path}/train.py:3: kept.append(hidden)"
    table = peak_table(peak(by_line=[PeakGroup(line, 1024, 1, 0)]))
    assert "train.py:3: kept.append(hidden)  " in table
    assert str(tmp_path) not in table
    assert "line of the program" not in peak_table(peak())


def test_names_are_cut_to_the_width_of_the_terminal():
    groups = [PeakGroup("x" * 200, 1, 1, 0)]
    lines = peak_table(peak(by_operator=groups), width=80).splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("xxx") and "..." in line for line in lines)
