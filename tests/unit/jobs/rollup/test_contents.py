"""What is added up of a trace: operators, lines, causes, memory, as the trace has them."""

import pytest

from opscope.columns.schema import EventKind
from opscope.jobs.rollup.contents import contents_of
from opscope.jobs.rollup.schema import ROLLUP_TABLES
from opscope.storage.partition import Partition
from support.build_trace import allocation, build_trace, kernel, span

RANK = Partition("rank", 3)
MAIN = ("train.py", 10, "train")
LINEAR = ("torch/nn/modules/linear.py", 5, "forward")


def rows(trace, table, part=RANK):
    """The rows of one table as dictionaries."""
    found = contents_of(trace, part).tables[table]
    columns = {column.name: found[column.name].tolist() for column in ROLLUP_TABLES[table].columns}
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def two_steps():
    return build_trace(
        [
            span("ProfilerStep#7", 0, 100),
            span("train.py(10): train", 1, 99, kind=EventKind.PYTHON_CALL, frame=MAIN),
            span("nn.Module: Linear_0", 2, 40, kind=EventKind.MODULE_CALL, module="Linear_0",
                 caller=MAIN, line=12, frame=LINEAR),
            span("aten::linear", 3, 30, caller=LINEAR, line=7),
            span("aten::mm", 5, 25),
            span("aten::mm", 50, 60, caller=MAIN, line=20),
            span("c10d::allreduce_", 70, 90, caller=MAIN, line=21),
            span("ProfilerStep#8", 100, 200),
            span("aten::mm", 150, 155),
        ],
        allocations=[allocation(6, 640), allocation(7, -640), allocation(55, 64)],
        ledger={"events": {"recorded": 9, "dropped: no room": 2}},
    )  # fmt: skip


def test_operators_are_by_part_of_a_step_and_module():
    found = {(r["name"], r["module"]): r for r in rows(two_steps(), "rollup_operators")}
    inside = found["aten::mm", "Linear_0"]
    assert (inside["count"], inside["total_ns"], inside["self_ns"]) == (1, 20_000, 20_000)
    assert (inside["phase"], inside["device"]) == ("forward", "cpu")
    outside = found["aten::mm", ""]
    assert (outside["count"], outside["self_ns"]) == (2, 15_000)
    assert found["aten::linear", "Linear_0"]["self_ns"] == 7_000
    assert {r["rank"] for r in found.values()} == {3} and {
        r["process"] for r in found.values()
    } == {-1}


def test_without_allocations_there_is_no_memory():
    assert rows(build_trace([span("aten::mm", 0, 5)]), "rollup_memory") == []


def test_kernels_are_of_what_launched_them():
    trace = build_trace(
        [span("ProfilerStep#0", 0, 90), span("nn.Module: Net_0", 1, 9, kind=EventKind.MODULE_CALL,
         module="Net_0"), span("aten::mm", 2, 5)],
        gpu=[kernel("gemm", 20, 50, launch=2), kernel("gemm", 60, 61, device_index=1)],
    )  # fmt: skip
    found = {(r["name"], r["device"]): r for r in rows(trace, "rollup_operators")}
    first, other = found["gemm", "cuda:0"], found["gemm", "cuda:1"]
    assert (first["module"], first["phase"], first["self_ns"]) == ("Net_0", "forward", 30_000)
    assert (other["module"], other["phase"], other["self_ns"]) == ("", "", 1_000)


def test_lines_are_the_innermost_of_the_program():
    found = {(r["file"], r["line"]): r for r in rows(two_steps(), "rollup_lines")}
    assert {file for file, _ in found} == {"train.py"}
    # The module's call with the library's line in it, and the operators below.
    assert found["train.py", 12]["self_ns"] == 38_000
    assert (found["train.py", 20]["count"], found["train.py", 20]["self_ns"]) == (1, 10_000)
    assert found["train.py", 12]["function"] == "train"
    assert rows(build_trace([span("aten::mm", 0, 5)]), "rollup_lines") == []


@pytest.mark.parametrize("spans", ["", "aten::mm 0..1"])
def test_nothing_and_one_of_it_are_added_up(spans):
    found = contents_of(build_trace(spans), RANK)
    assert found.events == (1 if spans else 0)
    assert set(found.step_ns.values()) == {-1}
    assert len(found.tables["rollup_operators"]) == found.events
    assert len(found.tables["rollup_steps"]) == 0
