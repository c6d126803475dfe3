"""Operators of a trace, run again."""

from types import SimpleNamespace

import pytest
import torch

from opscope import UsageError
from opscope.columns.schema import EventKind
from opscope.replay import replay as module
from opscope.replay.replay import replay
from support.build_trace import build_trace, span, tensor

EXACT = {"options": {"overloads": True}}


def result(*spans, metadata=EXACT, **options):
    return replay(build_trace(spans, metadata=metadata), repeat=3, **options)


def test_every_distinct_call_is_made_once():
    small = {"inputs": [tensor(2, 3), tensor(3, 4)]}
    large = {"inputs": [tensor(20, 30), tensor(30, 40)]}
    found = result(
        span("aten::mm", 0, 10, **small),
        span("aten::mm", 20, 40, **large),
        span("aten::mm", 50, 56, **small),
    )

    rows = {str(row.input_shapes): row for row in found.replayed}
    assert set(rows) == {"[[2, 3], [3, 4]]", "[[20, 30], [30, 40]]"}
    small_row = rows["[[2, 3], [3, 4]]"]
    assert (small_row.name, small_row.calls, small_row.recorded_ns) == ("aten::mm", 2, 8000)
    assert small_row.replayed_ns > 0
    assert found.refused == []


def test_calls_with_other_types_strides_or_scalars_are_distinct():
    found = result(
        span("aten::add", 0, 1, overload="Tensor", inputs=[tensor(2, 3), tensor(2, 3), 1]),
        span("aten::add", 2, 3, overload="Tensor", inputs=[tensor(2, 3), tensor(2, 3), 2]),
        span(
            "aten::add", 4, 5, overload="Tensor",
            inputs=[tensor(2, 3, strides=[1, 2]), tensor(2, 3), 1],
        ),
        span(
            "aten::add", 6, 7, overload="Tensor",
            inputs=[tensor(2, 3, dtype="float64"), tensor(2, 3), 1],
        ),
    )  # fmt: skip

    assert len(found.replayed) == 4
    assert {row.name for row in found.replayed} == {"aten::add.Tensor"}


def test_arguments_are_what_was_recorded(monkeypatch):
    calls = []
    library = torch.library.Library("opscope_test", "FRAGMENT")
    library.define("seen(Tensor a, Tensor[] b, int c, float d, bool? e, int[] f, str g) -> Tensor")

    def seen(a, b, c, d, e, f, g):
        calls.append((a, b, c, d, e, f, g))
        return a.clone()

    library.impl("seen", seen, "CompositeExplicitAutograd")
    inputs = [
        tensor(2, 3, dtype="float64", strides=[1, 2]),
        [tensor(4, dtype="int64"), tensor(dtype="bool")],
        3, 2.5, None, [1, 2], "text",
    ]  # fmt: skip

    result(span("opscope_test::seen", 0, 1, inputs=inputs))

    a, b, *rest = calls[0]
    assert (a.shape, a.stride(), a.dtype) == ((2, 3), (1, 2), torch.float64)
    assert [(t.shape, t.dtype) for t in b] == [((4,), torch.int64), ((), torch.bool)]
    assert b[0].tolist() == [0, 0, 0, 0]
    assert rest == [3, 2.5, None, [1, 2], "text"]


def test_what_communicates_is_refused_and_what_it_called_is_replayed():
    found = result(
        span("c10d::allreduce_", 0, 10, inputs=[[tensor(4)]]),
        span("aten::add", 1, 5, overload="Tensor", inputs=[tensor(2), tensor(2), 1]),
        span("c10d::barrier", 20, 30, inputs=[tensor(1)]),
    )

    assert [row.name for row in found.replayed] == ["aten::add.Tensor"]
    assert [(call.name, call.reason, call.has_inner) for call in found.refused] == [
        ("c10d::allreduce_", "it communicates with other processes", True),
        ("c10d::barrier", "it communicates with other processes", False),
    ]


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ([tensor(2, layout=1), tensor(2), 1], "layout sparse_coo"),
        ([tensor(unsized_dtype=6) | {"dtype": -1}, tensor(2), 1], "without plain sizes"),
        ([tensor(2), tensor(3), 1], "it fails: The size of tensor a"),
        ([tensor(2, device="cuda:3"), tensor(2), 1], "it ran on cuda:3, which this machine lacks"),
        ([tensor(2), tensor(2), 1, 1, 1], "takes fewer arguments"),
        ([tensor(1 << 45), tensor(1 << 45), 1], "do not fit into free memory"),
        ([tensor(1 << 62, 1 << 62), tensor(2), 1], "do not fit into free memory"),
        ([tensor(2, strides=[1 << 45]), tensor(2), 1], "do not fit into free memory"),
        ([tensor(-3), tensor(2), 1], "cannot be created: Trying to create tensor with negative"),
        (
            [tensor(2, strides=[-1]), tensor(2), 1],
            "cannot be created: as_strided: Negative strides",
        ),
    ],
)
def test_what_cannot_be_made_again_says_why(inputs, reason):
    if "cuda" in reason and torch.cuda.device_count() > 3:
        pytest.skip("this machine has that device")
    found = result(
        span("aten::add", 0, 1, overload="Tensor", inputs=inputs),
        span("aten::relu", 2, 3, inputs=[tensor(2)]),
    )

    [refused] = found.refused
    assert refused.name == "aten::add"
    assert reason in refused.reason


def test_a_trace_names_no_file(tmp_path):
    file = str(tmp_path / "made")
    inputs = [file, True, 100, None, None, None, None]
    found = result(
        span("aten::from_file", 0, 1, inputs=inputs), span("aten::relu", 2, 3, inputs=[tensor(2)])
    )

    assert [call.reason for call in found.refused] == ["it reads or writes files"]
    assert list(tmp_path.iterdir()) == []


def test_a_call_that_works_but_once_is_refused():
    library = torch.library.Library("opscope_once", "FRAGMENT")
    library.define("once(Tensor a) -> Tensor")
    calls = []

    def once(a):
        calls.append(a)
        if len(calls) > 1:
            raise RuntimeError("not again")
        return a.clone()

    library.impl("once", once, "CompositeExplicitAutograd")
    found = result(
        span("opscope_once::once", 0, 1, inputs=[tensor(2)]),
        span("aten::relu", 2, 3, inputs=[tensor(2)]),
    )

    assert [call.reason for call in found.refused] == ["it fails: not again"]


def test_a_slow_call_is_made_less_often(monkeypatch):
    library = torch.library.Library("opscope_slow", "FRAGMENT")
    library.define("slow(Tensor a) -> Tensor")
    calls = []

    def slow(a):
        calls.append(a)
        clock.now += 60
        return a.clone()

    clock = SimpleNamespace(now=0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(module, "time", clock)
    library.impl("slow", slow, "CompositeExplicitAutograd")
    result(span("opscope_slow::slow", 0, 1, inputs=[tensor(2)]))
    assert len(calls) == 3  # to see whether it can be made, to warm up, and to time


def test_without_overload_names_the_one_that_fits_is_found():
    found = result(span("aten::add", 0, 1, inputs=[tensor(2), tensor(2), 1]), metadata={})

    assert [row.name for row in found.replayed] == ["aten::add.Tensor"]


def test_nothing_to_replay_is_refused():
    with pytest.raises(UsageError, match="There is no operator to replay"):
        result(span("step", 0, 1, kind=EventKind.ANNOTATION))
    with pytest.raises(UsageError, match="arguments of operators were not recorded"):
        replay(build_trace("aten::mm 0..1"))
    with pytest.raises(UsageError, match=r"None of the 1 distinct.*no::such: this torch has no"):
        result(span("no::such", 0, 1, inputs=[1]))
