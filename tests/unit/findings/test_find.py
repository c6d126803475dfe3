"""Every pattern on a picture of a timeline: where it is found, where not, what it would save."""

from __future__ import annotations

import pytest

from opscope.columns.schema import EventKind, RecordScope
from opscope.findings.find import find_findings
from opscope.findings.status import Status
from support.build_trace import allocation, build_trace, kernel, span, tensor
from support.findings_of_pictures import ANNOTATION, MICROSECOND, found, loads


def test_loading_in_the_training_process():
    finding = found(
        build_trace(loads("_SingleProcessDataLoaderIter", 30)), "synchronous-data-loading"
    )
    assert finding.occurrences == 5
    assert finding.time_ns == 150 * MICROSECOND
    # Of four later batches of 30 µs and steps of 10: two workers deliver one every 15.
    assert finding.saved_ns == 100 * MICROSECOND
    assert finding.severity == "high"


def test_waiting_for_workers_but_for_the_first_batch():
    trace = build_trace(loads("_MultiProcessingDataLoaderIter", 30))
    assert found(trace, "data-loading-stalls").saved_ns == 120 * MICROSECOND
    assert found(trace, "synchronous-data-loading") is None


def test_reading_values_on_the_host():
    spans = [
        one
        for i in range(3)
        for one in (
            span("aten::mm", i * 100, i * 100 + 80),
            span("aten::item", i * 100 + 81, i * 100 + 91),
            span("aten::_local_scalar_dense", i * 100 + 82, i * 100 + 90),
        )
    ]
    finding = found(build_trace(spans), "implicit-synchronisation")
    assert finding.events.tolist() == [1, 4, 7]
    assert finding.saved_ns == 30 * MICROSECOND
    assert "aten::item" in finding.explanation
    assert finding.status is Status.OPERATORS  # there is no device that could be idle
    assert found(build_trace(spans[:3]), "implicit-synchronisation") is None  # once is no loop


def test_waiting_for_a_device_costs_what_the_device_idles_afterwards():
    trace = build_trace(
        [
            span("aten::item", 0, 50),
            span("cudaStreamSynchronize", 10, 40, kind=EventKind.RUNTIME_CALL),
            span("aten::mm", 60, 70),
        ],
        gpu=[kernel("gemm", 5, 38), kernel("gemm", 65, 90)],
    )
    finding = found(trace, "implicit-synchronisation")
    assert finding.events.tolist() == [0]
    assert finding.time_ns == 30 * MICROSECOND
    assert finding.saved_ns == 27 * MICROSECOND  # from 38, when it had nothing left, to 65


def test_garbage_collections():
    def pause(name, start, end):
        return span(name, start, end, kind=EventKind.GC_PAUSE, parent=-1)

    young = [pause("gc: generation 0", 10, 20), pause("gc: generation 0", 30, 40)]
    trace = build_trace([span("aten::mm", 0, 100), *young])
    assert found(trace, "garbage-collections").saved_ns == 20 * MICROSECOND
    once = found(build_trace([span("aten::mm", 0, 100), *young, pause("gc: generation 2", 50, 90)]),
                 "garbage-collections")  # fmt: skip
    assert once.saved_ns == 20 * MICROSECOND and once.time_ns == 60 * MICROSECOND
    assert "ran once" in once.saved_by
    assert found(build_trace([span("aten::mm", 0, 100)]), "garbage-collections") is None


def test_garbage_collections_inside_an_import_are_the_import_s():
    def program(frame):
        calling = span(
            f"{frame[0]}({frame[1]}): {frame[2]}", 10, 80, kind=EventKind.PYTHON_CALL, frame=frame
        )
        pauses = [span("gc: generation 0", at, at + 10, kind=EventKind.GC_PAUSE) for at in (20, 40)]
        return build_trace([span("aten::mm", 0, 5), calling, *pauses, span("aten::mm", 90, 95)])

    importing = ("<frozen importlib._bootstrap>", 1165, "_find_and_load")
    assert found(program(importing), "garbage-collections") is None
    assert found(program(("train.py", 3, "work")), "garbage-collections") is not None


def test_compilations_count_once_however_deep():
    name = "_compile.compile_inner (dynamo_timed)"
    trace = build_trace([
        span(name, 0, 100), span(name, 10, 50), span("Torch-Compiled Region: 0/0", 110, 120),
        span(name, 200, 230), span("Torch-Compiled Region: 0/1", 240, 250),
    ])  # fmt: skip
    finding = found(trace, "compilations")
    assert finding.events.tolist() == [0, 3]
    assert finding.saved_ns == 130 * MICROSECOND
    assert "0/1" in finding.explanation


@pytest.mark.parametrize("threads", [1, 3])
def test_operators_of_threads_beside_each_other_save_what_one_of_them_does(threads):
    small = [
        span("aten::add", i * 4, i * 4 + 2, f"worker {thread}")
        for i in range(600)
        for thread in range(threads)
    ]
    large = span("aten::mm", 2_400, 9_600, "worker 0")
    finding = found(build_trace([*small, large]), "many-small-operators")
    assert finding.occurrences == threads * 600
    assert finding.saved_ns == pytest.approx(600 * 2 * MICROSECOND, rel=0.01)
    assert f"{finding.saved_share:.0%}" == "12%" and "25% of the time" in finding.explanation


def test_many_small_operators():
    small = [span("aten::add", i * 4, i * 4 + 2) for i in range(600)]
    other = span("aten::mm", 2_400, 3_000)
    finding = found(build_trace([*small, other]), "many-small-operators")
    assert finding.occurrences == 600
    # Half of 4 µs from one to the next, and nothing is known to pass before the first.
    assert finding.saved_ns == 599 * 2 * MICROSECOND + MICROSECOND
    large = [span("aten::mm", i * 400, i * 400 + 390) for i in range(600)]
    one_small = [span("aten::add", 240_000 + i, 240_000 + i + 0.5) for i in range(400)]
    assert found(build_trace(large + one_small), "many-small-operators") is None


def step(start, operators, name="AdamW"):
    inner = [span(op, start + 1 + i * 10, start + 5 + i * 10) for i, op in enumerate(operators)]
    return [span(f"Optimizer.step#{name}.step", start, start + 100, **ANNOTATION), *inner]


def test_an_optimizer_that_goes_one_by_one():
    single = build_trace(step(0, ["aten::mul_", "aten::lerp_", "aten::addcdiv_"] * 3))
    finding = found(single, "single-tensor-optimizer")
    assert finding.saved_ns == 80 * MICROSECOND  # a fifth stays, to collect the parameters
    assert finding.status is Status.SMALL_OPERATORS
    long = [span("aten::mul_", at, at + 190) for at in range(1, 1_800, 200)]
    around = span("Optimizer.step#AdamW.step", 0, 2_000, **ANNOTATION)
    finding = found(build_trace([around, *long]), "single-tensor-optimizer")
    assert finding.status is Status.OPERATORS
    for together in ("aten::_foreach_mul_", "aten::_fused_adamw_"):
        trace = build_trace(step(0, [together, *["aten::mul_"] * 8]))
        assert found(trace, "single-tensor-optimizer") is None
    assert found(build_trace(step(0, ["aten::mul_"] * 2)), "single-tensor-optimizer") is None


def test_of_a_step_that_runs_a_closure_what_follows_it_is_the_optimizers():
    operators = ["aten::mul_", "aten::lerp_", "aten::addcdiv_"] * 3
    passes = [span("aten::mm", 0 + i, 0.5 + i) for i in range(1, 40)]
    backward = span("MmBackward0", 80, 100, scope=RecordScope.BACKWARD_FUNCTION)

    def closing(name):
        around, *inner = step(100, operators, name)
        return build_trace([span(around.name, 0, 200, **ANNOTATION), *passes, backward, *inner])

    finding = found(closing("AdamW"), "single-tensor-optimizer")
    assert finding.saved_ns == pytest.approx(80 * MICROSECOND, rel=0.1)
    assert finding.time_ns == 100 * MICROSECOND
    assert "9 operator calls from Python in each of 1 steps" in finding.explanation
    assert found(closing("LBFGS"), "single-tensor-optimizer") is None  # neither foreach nor fused


def test_an_optimizer_without_a_fused_form_gets_other_advice():
    operators = ["aten::mul_", "aten::lerp_", "aten::addcdiv_"] * 3
    fused, lists, own = (
        found(build_trace(step(0, operators, name)), "single-tensor-optimizer")
        for name in ("SGD", "RMSprop", "Lion")
    )
    assert "Pass fused=True to SGD" in fused.advice
    assert "Pass foreach=True to RMSprop" in lists.advice and "fused=True" not in lists.advice
    assert "torch._foreach_" in own.advice
    assert fused.saved_ns == 80 * MICROSECOND
    assert lists.saved_ns == own.saved_ns == 26 * MICROSECOND


def test_gradients_filled_with_zeros():
    trace = build_trace([
        span("Optimizer.zero_grad#SGD.zero_grad", 0, 20, **ANNOTATION),
        span("aten::zero_", 1, 5),
        span("aten::fill_", 2, 4),
        span("aten::zero_", 6, 9),
        span("torch::autograd::AccumulateGrad", 30, 40, "autograd"),
        span("aten::add_", 31, 38, "autograd"),
        span("aten::add_", 50, 59),
    ])  # fmt: skip
    finding = found(trace, "gradients-set-to-zero")
    assert finding.occurrences == 1
    # 7 µs of zeros, 10 of what adds where it would keep.
    assert finding.saved_ns == 17 * MICROSECOND
    without = build_trace([span("Optimizer.zero_grad#SGD.zero_grad", 0, 20, **ANNOTATION)])
    assert found(without, "gradients-set-to-zero") is None


def convolution(bias, *between, training=True, backward=True):
    """A convolution, an operator on its result or not, and the normalisation of the last result."""
    made = [tensor(2, 4, 8, 8, storage=i + 50, impl=i + 50, allocation_id=i) for i in range(2)]
    arguments = [tensor(2, 3, 8, 8, impl=1), tensor(4, 3, 3, 3, impl=2)]
    given = [made[len(between)], *4 * [None], training]
    return build_trace([
        span("aten::conv2d", 0, 10, inputs=[*arguments, tensor(4, impl=3) if bias else None]),
        *(span(name, 11, 12, inputs=made[:1]) for name in between),
        span("aten::batch_norm", 13, 20, sequence_number=5, inputs=given),
        *[span("NativeBatchNormBackward0", 30, 40, "autograd", sequence_number=5, forward_thread=1,
               scope=RecordScope.BACKWARD_FUNCTION)] * backward,
    ], allocations=[
        allocation(at, 64, allocation_id=i, address=50 + i)
        for i, at in enumerate((1, 11.5)[:1 + len(between)])
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("trace", "found_at", "saved_ns"),
    [
        (convolution(True), [0], 2 * MICROSECOND),  # a fifth of the 10 µs of the backward
        (convolution(True, backward=False), [0], None),
        (convolution(True, training=False), [], None),  # a running mean is subtracted
        (convolution(False), [], None),
        (convolution(True, "aten::relu"), [], None),
    ],
)
def test_a_bias_before_batch_normalisation(trace, found_at, saved_ns):
    finding = found(trace, "convolution-bias-before-batch-norm")
    assert (finding.events.tolist() if finding else []) == found_at
    assert finding is None or finding.saved_ns == saved_ns


@pytest.mark.parametrize(
    ("sizes", "dtype", "expected"),
    [
        (((16, 30), (30, 8)), "float16", True),
        (((16, 32), (32, 8)), "bfloat16", False),
        (((16, 30), (30, 8)), "float32", False),
    ],
)
def test_odd_sizes_in_half_precision(sizes, dtype, expected):
    arguments = [tensor(*size, dtype=dtype) for size in sizes]
    trace = build_trace([span("aten::mm", 0, 10, inputs=arguments)])
    finding = found(trace, "unaligned-matmul")
    assert (finding is not None) is expected
    if finding:
        assert finding.saved_ns is None
        assert "--benchmark" in finding.saved_by


@pytest.mark.parametrize(
    ("name", "expected"),
    [("ampere_sgemm_128x64_nn", True), ("cutlass_tensorop_s1688gemm_tf32", False)],
)
def test_full_precision_on_a_gpu(name, expected):
    on_gpu = [tensor(64, 64, device="cuda:0"), tensor(64, 64, device="cuda:0")]
    trace = build_trace(
        [
            span("aten::mm", 0, 10, inputs=on_gpu),
            span("cudaLaunchKernel", 2, 4, kind=EventKind.RUNTIME_CALL),
        ],
        gpu=[kernel(name, 5, 25, launch=1)],
    )
    finding = found(trace, "full-precision-matmul")
    assert (finding is not None) is expected
    if finding:
        assert finding.events.tolist() == [0]
        assert finding.saved_ns == pytest.approx(10 * MICROSECOND, abs=2)


def test_filling_on_the_host_what_goes_to_the_device():
    here, there = tensor(64, storage=0x10), tensor(64, device="cuda:0", storage=0x20)
    copy = [
        span("aten::to", 10, 30, inputs=[here]),
        span("aten::_to_copy", 11, 29, inputs=[here]),
        span("aten::copy_", 12, 28, inputs=[there, here]),
    ]
    filled = build_trace([span("aten::fill_", 0, 5, inputs=[here, 1.0]), *copy])
    finding = found(filled, "extra-device-copy")
    assert finding.events.tolist() == [3]
    assert finding.saved_ns == (5 + 16 - 10) * MICROSECOND  # a kernel is called in their place
    loaded = build_trace([span("aten::fill_", 0, 5, inputs=[tensor(64, storage=0x30), 1.0]), *copy])
    assert found(loaded, "extra-device-copy") is None


def conversions(*versions, source="float32", sizes=(64,), **columns):
    code = {"float32": 15, "bfloat16": 6}[source]
    spans = [
        span("aten::_to_copy", i * 20, i * 20 + 10 + i,
             inputs=[tensor(*sizes, dtype=source, version=v, tensor_id=3, **columns), code])
        for i, v in enumerate(versions)
    ]  # fmt: skip
    return build_trace(spans, allocations=[allocation(1, 64, event=0)])


def test_converting_what_has_not_changed():
    same = {"storage": 0x40, "impl": 7}
    finding = found(conversions(1, 1, 1, **same), "repeated-copies")
    assert finding.saved_ns == (11 + 12) * MICROSECOND  # all but the first
    assert found(conversions(1, 2, 3, **same), "repeated-copies") is None


def test_casting_weights_again_and_again():
    weights = conversions(1, 2, 3, storage=0x40, requires_grad=True)
    assert found(weights, "precision-casts").saved_ns == 33 * MICROSECOND
    others = found(conversions(1, 2, 3, storage=0x40), "precision-casts")
    assert others.saved_ns is None
    assert others.time_ns == 33 * MICROSECOND


@pytest.mark.parametrize("keep_up", [True, False])
def test_workers_that_keep_up_but_for_a_few_batches_are_not_too_slow(keep_up):
    """As where they begin anew for every pass over the data, of ten batches here."""
    waits = [100 if i % 10 == 0 else 1 if keep_up else 50 for i in range(40)]
    spans = [
        span("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
             200 * i, 200 * i + took, kind=EventKind.ANNOTATION)
        for i, took in enumerate(waits)
    ]  # fmt: skip
    finding = found(build_trace(spans), "data-loading-stalls")
    assert ("do not keep up" in finding.explanation) != keep_up
    assert ("3 of 40 batches" in finding.explanation) == keep_up
    assert ("Raise num_workers" in finding.advice) != keep_up


def loop(rounds, *names, start=0):
    return [
        span(name, start + i * 10 + j, start + i * 10 + j + 0.5)
        for i in range(rounds)
        for j, name in enumerate(names)
    ]


def test_indexing_in_a_loop():
    finding = found(build_trace(loop(12, "aten::select", "aten::fill_")), "for-loop-indexing")
    # Eleven times from one round to the next, 10 µs each.
    assert finding.saved_ns == pytest.approx(110 * MICROSECOND, rel=0.1)
    taken_apart = [span("aten::unbind", 0, 1), *loop(12, "aten::mean", "aten::sub", start=2)]
    finding = found(build_trace(taken_apart), "for-loop-indexing")
    assert finding.saved_ns == pytest.approx(110 * MICROSECOND, rel=0.1)


@pytest.mark.parametrize(
    "spans",
    [
        loop(8, "aten::select", "aten::fill_"),
        loop(20, "aten::slice", "aten::fill_"),
    ],
    ids=["few rounds", "no index"],
)
def test_what_is_no_loop(spans):
    findings = find_findings(build_trace(spans))
    assert "for-loop-indexing" not in [one.id for one in findings]
    (said,) = [one.needs for one in findings.unchecked if one.id == "for-loop-indexing"]
    assert "record_shapes" in said and "with_stack" in said, "loops over other parts are not seen"


def test_a_device_pool_that_grows():
    on_gpu = {"device_type": 1, "device_index": 0}
    trace = build_trace(
        [span("aten::empty", i * 50, i * 50 + 20) for i in range(3)],
        allocations=[
            allocation(i * 50 + 1, 1 << 20, event=i, total_reserved_bytes=r, **on_gpu)
            for i, r in enumerate([100, 200, 300])
        ],
        gpu=[kernel("k", 0, 5)],
    )
    assert found(trace, "device-memory-growth").events.tolist() == [1, 2]
