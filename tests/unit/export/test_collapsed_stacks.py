"""Collapsed stacks as flame graph tools read them."""

from opscope.columns.schema import EventKind
from opscope.export.collapsed_stacks import write_collapsed, write_own_stacks, write_stacks
from support.build_trace import build_trace, kernel, span

CALLS = [
    span("train.py(3): step one", 0, 1000, kind=EventKind.PYTHON_CALL),
    span("Linear_0", 100, 800, kind=EventKind.MODULE_CALL),
    span("aten::linear", 200, 700),
    span("aten::addmm", 300, 600),
    span("aten::empty", 600, 600.5),
]


def test_one_line_per_event_with_a_stack_and_a_microsecond(tmp_path):
    path = tmp_path / "stacks.txt"

    write_stacks(build_trace(CALLS), path)

    step = "train.py(3):_step_one"
    linear = f"{step};nn.Module:_Linear_0"
    assert path.read_text().splitlines() == [f"{step} 200", f"{linear} 199", f"{linear} 300"]


def test_device_time(tmp_path):
    trace = build_trace(CALLS, gpu=[kernel("gemm", 900, 950, launch=3)])

    write_stacks(trace, tmp_path / "stacks.txt", "self_cuda_time_total")

    assert (tmp_path / "stacks.txt").read_text() == (
        "train.py(3):_step_one;nn.Module:_Linear_0 50\n"
    )


def test_our_own_have_a_line_per_stack_and_every_instant_once(tmp_path):
    twice = [
        span("train.py(3): step", 0, 1000, kind=EventKind.PYTHON_CALL),
        span("aten::mm", 100, 300),
        span("aten::mm", 400, 700.4),
        span("train.py(9): main", 1000, 1500, kind=EventKind.PYTHON_CALL),
        span("train.py(3): step", 1100, 1500, kind=EventKind.PYTHON_CALL),
    ]
    write_own_stacks(build_trace(twice), tmp_path / "stacks.txt")
    # What a function does itself has its stack, with the operators in it.
    assert (tmp_path / "stacks.txt").read_text().splitlines() == [
        "train.py(3):_step 1000",
        "train.py(9):_main 100",
        "train.py(9):_main;train.py(3):_step 400",
    ]


def test_separators_in_names_are_replaced(tmp_path):
    write_collapsed([(["in;ner\n", "out er\t"], 5)], tmp_path / "stacks.txt")

    assert (tmp_path / "stacks.txt").read_text() == "out_er_;in_ner_ 5\n"
