"""Tables of a recording: rows, order, widths, units, groups, and operations counted by hand."""

import re

import pytest
import torch

import opscope
from support.recorded import without_collections

PRODUCT, BATCHED, FILTER = (3, 4), (2, 3, 4), (3, 2, 3, 3)


@pytest.fixture(scope="module")
def prof():
    left, right = torch.ones(*PRODUCT), torch.ones(4, 5)
    batch, other = torch.ones(*BATCHED), torch.ones(2, 4, 5)
    image, weight = torch.ones(1, 2, 8, 8), torch.ones(*FILTER)
    options = {"record_shapes": True, "profile_memory": True, "with_flops": True}
    with without_collections(), opscope.profile(**options) as prof:
        with opscope.record_function("everything"):
            torch.mm(left, right)
            torch.mm(left[:2], right)
            torch.bmm(batch, other)
            torch.addmm(torch.ones(5), left, right)
            torch.nn.functional.conv2d(image, weight)
            left + left
            left * 2
        torch.sin(left)
    return prof


def rows_of(averages, key):
    return [row for row in averages if row.key == key]


@pytest.mark.parametrize(
    ("key", "flops"),
    [
        ("aten::mm", 2 * 3 * 4 * 5 + 2 * 2 * 4 * 5),
        ("aten::bmm", 2 * 2 * 3 * 4 * 5),
        ("aten::addmm", 2 * 3 * 4 * 5),
        ("aten::conv2d", 2 * (6 * 6) * 3 * 2 * 9),
        ("aten::add", 12),
        ("aten::mul", 12),
        ("aten::sin", 0),
    ],
)
def test_operations_are_those_counted_by_hand(prof, key, flops):
    assert sum(row.flops for row in rows_of(prof.key_averages(), key)) == flops


def test_the_table_says_what_share_of_the_time_formulas_cover(prof):
    found = re.search(r"FLOPs: formulas cover (\d+\.\d)% of operator time", prof.events().table())
    assert found is not None and 0 < float(found[1]) <= 100


def test_an_unknown_column_is_answered_with_the_known_ones(prof):
    with pytest.raises(opscope.UsageError, match=r"'speed'.*self_cpu_time_total"):
        prof.key_averages().table(sort_by="speed")


@pytest.mark.parametrize("width", [10, 25])
def test_names_are_cut_to_the_width_asked_for(width):
    with opscope.profile() as prof, opscope.record_function("n" * 60):
        torch.ones(1)
    table = prof.key_averages().table(max_name_column_width=width)
    assert "n" * (width - 3) + "..." in table
    assert "n" * (width - 2) not in table
    assert "n" * 60 in prof.key_averages().table(max_name_column_width=None)


def test_unknown_units_are_refused(prof):
    with pytest.raises(opscope.UsageError, match=r"'min'.*s, ms, us"):
        prof.key_averages().table(time_unit="min")


def test_overloads_are_rows_of_their_own_if_asked():
    # Not torch's object: torch 2.6 does not have this switch.
    with opscope.profile(experimental_config={"capture_overload_names": True}) as prof:
        torch.pow(torch.ones(2), 2)
        torch.pow(torch.ones(2), 3)
        torch.pow(torch.ones(2), torch.ones(2))
    rows = rows_of(prof.key_averages(group_by_overload_name=True), "aten::pow")
    counts = {row.overload_name: row.count for row in rows}
    assert counts == {"Tensor_Scalar": 2, "Tensor_Tensor": 1}
    (row,) = rows_of(prof.key_averages(), "aten::pow")
    assert row.count == 3
