"""The account of time: it adds up, and every cause is told by what shows it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.analysis.account.find import find_account
from opscope.columns.causes import Cause
from opscope.columns.codes import EventKind, RecordScope, WaitsFor
from opscope.errors import UsageError
from support.build_trace import build_trace, kernel, span
from support.thread_samples import sampled

MS = 1_000
"""Microseconds, which pictures of a timeline are in."""

MAIN = 1001
"""What ``build_trace`` calls the first thread in the system."""


def milliseconds(account, thread=None):
    return {e.cause: round(e.time_ns / 1e6, 3) for e in account.entries(thread=thread)}


def test_generated_code_is_python_around_its_kernels():
    trace = build_trace(
        [
            span("Compiled graph 0_forward", 0, 10 * MS, kind=EventKind.COMPILED_GRAPH),
            span("cpp_fused_add_0", 2 * MS, 8 * MS),
        ]
    )
    found = milliseconds(find_account(trace, "all"))
    assert (found[Cause.OPERATOR], found[Cause.PYTHON]) == (6, 4)


def test_threads_of_one_name_are_distinguished():
    trace = build_trace(
        [span("aten::mm", 0, 10), span("aten::mm", 0, 4, "a"), span("aten::mm", 0, 3, "b")]
    )
    threads = trace.table("threads")
    same = {"name": np.full(len(threads), threads["name"][0])}
    account = find_account(trace.with_tables({"threads": threads.replaced(same)}), "all")
    main, *others = account.threads
    assert main == "main" and account.main == 0
    assert len(set(others)) == 2 and all(name.startswith("main (thread ") for name in others)


def test_what_spans_say_of_themselves():
    python = {"kind": EventKind.PYTHON_CALL}
    trace = build_trace(
        [
            span("main", 0, 100 * MS, **python, frame=("train.py", 1, "main")),
            span("aten::mm", 0, 10 * MS),
            span("gc", 10 * MS, 20 * MS, kind=EventKind.GC_PAUSE),
            span("<frozen importlib._bootstrap>(1): _find_and_load", 20 * MS, 40 * MS, **python),
            span("work", 25 * MS, 30 * MS, **python),
            span("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 40 * MS, 50 * MS,
                 kind=EventKind.ANNOTATION),
            span("queue.py(154): get", 42 * MS, 48 * MS, **python),
            span("<built-in method acquire of _thread.lock object at 0x1>", 50 * MS, 55 * MS,
                 kind=EventKind.C_CALL),
            span("<built-in function sleep>", 55 * MS, 60 * MS, kind=EventKind.C_CALL),
            span("<built-in method read of _io.BufferedReader object at 0x1>", 60 * MS, 65 * MS,
                 kind=EventKind.C_CALL),
            span("gloo:all_reduce", 65 * MS, 70 * MS, kind=EventKind.ANNOTATION),
            span("_compile.compile_inner", 70 * MS, 80 * MS, kind=EventKind.ANNOTATION),
            span("aten::empty", 72 * MS, 74 * MS),
            span("cudaStreamSynchronize", 80 * MS, 84 * MS, kind=EventKind.RUNTIME_CALL),
            span("cudaMalloc", 84 * MS, 86 * MS, kind=EventKind.RUNTIME_CALL),
            span("AddBackward0", 86 * MS, 90 * MS, scope=RecordScope.BACKWARD_FUNCTION),
            span("aten::add", 87 * MS, 89 * MS),
        ]
    )  # fmt: skip
    assert milliseconds(find_account(trace)) == {
        Cause.OPERATOR: 12, Cause.COLLECTION: 10, Cause.IMPORT: 20, Cause.LOADER: 10,
        Cause.LOCK: 5, Cause.TIMER: 5, Cause.IO: 5, Cause.COLLECTIVE: 5, Cause.COMPILATION: 10,
        Cause.DEVICE: 4, Cause.MEMORY: 2, Cause.DISPATCH: 2, Cause.PYTHON: 10,
    }  # fmt: skip


def test_a_long_gap_that_nothing_explains_is_unknown_and_a_short_one_python():
    account = find_account(
        build_trace("aten::a 0..10000\naten::b 10500..20000\naten::c 60000..61000")
    )
    assert milliseconds(account) == {Cause.UNKNOWN: 40, Cause.OPERATOR: 20.5, Cause.PYTHON: 0.5}
    assert "Record with --own-stack" in " ".join(account.notes)
    assert "Kernel counters of threads were not recorded" in account.notes[0]
    errors = {e.cause: e.error_ns for e in account.entries()}
    assert errors[Cause.PYTHON] == 500_000


CAUSES_OF_WAITS = {
    WaitsFor.GIL: Cause.GIL, WaitsFor.LOCK: Cause.LOCK, WaitsFor.TIMER: Cause.TIMER,
    WaitsFor.READINESS: Cause.IO, WaitsFor.TRANSFER: Cause.IO, WaitsFor.DISK: Cause.IO,
    WaitsFor.PROCESS: Cause.LOCK, WaitsFor.OTHER: Cause.UNKNOWN,
}  # fmt: skip


@pytest.mark.parametrize(("waits_for", "cause"), CAUSES_OF_WAITS.items())
def test_the_kernel_says_what_a_gap_waited_for(waits_for, cause):
    trace = sampled(
        build_trace("aten::a 0..10000\naten::b 90000..100000"),
        (MAIN, 0, 0, 0, 0, WaitsFor.NOTHING),
        (MAIN, 10, 10, 0, 0, WaitsFor.NOTHING),
        (MAIN, 50, 10, 0, 0, waits_for),
        (MAIN, 90, 20, 30, 0, WaitsFor.NOTHING),
        (MAIN, 100, 30, 30, 0, WaitsFor.NOTHING),
    )
    account = find_account(trace)
    expected = {Cause.OPERATOR: 20, cause: 40, Cause.DESCHEDULED: 30, Cause.PYTHON: 10}
    if cause is Cause.GIL:  # it looks for it again and again, for which it needs a processor
        expected = {Cause.OPERATOR: 20, cause: 70, Cause.PYTHON: 10}
    assert milliseconds(account) == expected
    assert "kernel counts" not in " ".join(account.notes)


def test_who_looks_for_the_gil_is_seen_able_to_run():
    trace = sampled(
        build_trace([
            span("aten::a", 0, 10 * MS),
            span("<built-in method acquire of _thread.lock object at 0x1>", 10 * MS, 90 * MS,
                 kind=EventKind.C_CALL),
            span("aten::b", 90 * MS, 100 * MS),
        ]),
        (MAIN, 0, 0, 0, 0, WaitsFor.NOTHING),
        (MAIN, 10, 10, 0, 0, WaitsFor.NOTHING),
        (MAIN, 50, 10, 0, 0, WaitsFor.GIL),
        (MAIN, 55, 15, 0, 0, WaitsFor.NOTHING),
        (MAIN, 90, 15, 20, 0, WaitsFor.NOTHING),
        (MAIN, 100, 25, 20, 0, WaitsFor.NOTHING),
    )  # fmt: skip
    assert milliseconds(find_account(trace)) == {Cause.OPERATOR: 20, Cause.GIL: 75, Cause.LOCK: 5}


def test_waiting_for_a_processor_is_in_all_of_what_ran_then():
    trace = sampled(
        build_trace([
            span("main", 0, 40 * MS, kind=EventKind.PYTHON_CALL, frame=("train.py", 1, "main")),
            span("<frozen importlib._bootstrap>(1): _find_and_load", 10 * MS, 40 * MS,
                 kind=EventKind.PYTHON_CALL),
        ]),
        (MAIN, 0, 0, 0, 0, WaitsFor.NOTHING),
        (MAIN, 40, 20, 20, 0, WaitsFor.NOTHING),
    )  # fmt: skip
    account = find_account(trace)
    assert milliseconds(account) == {Cause.PYTHON: 5, Cause.IMPORT: 15, Cause.DESCHEDULED: 20}
    errors = {e.cause: e.error_ns / 1e6 for e in account.entries()}
    assert errors[Cause.DESCHEDULED] == 5 * 0.75 + 15 * 0.25


def test_waiting_goes_to_gaps_before_operators_and_says_how_unsure_that_is():
    trace = sampled(
        build_trace("aten::a 0..10000\naten::b 18000..20000"),
        (MAIN, 0, 0, 0, 0, WaitsFor.NOTHING),
        (MAIN, 20, 10, 0, 0, WaitsFor.LOCK),
    )
    account = find_account(trace)
    assert milliseconds(account) == {Cause.OPERATOR: 12, Cause.LOCK: 8}
    two = sampled(
        build_trace("aten::a 0..10000\naten::b 14000..15000\naten::c 19000..20000"),
        (MAIN, 0, 0, 0, 0, WaitsFor.NOTHING),
        (MAIN, 20, 15, 0, 0, WaitsFor.LOCK),
    )
    lock = next(e for e in find_account(two).entries() if e.cause is Cause.LOCK)
    assert (lock.time_ns, lock.error_ns > 0) == (5_000_000, True)


def test_other_threads_rest_where_nothing_is_asked_of_them():
    trace = sampled(
        build_trace("aten::a 0..100000\nnode 20000..30000 @autograd"),
        (1002, 0, 0, 0, 0, WaitsFor.LOCK),
        (1002, 100, 10, 0, 0, WaitsFor.LOCK),
    )
    account = find_account(trace)
    assert account.threads == ("main", "autograd")
    assert milliseconds(account, 1) == {Cause.IDLE: 90, Cause.OPERATOR: 10}


def test_a_thread_of_a_pool_that_waits_for_a_task_has_nothing_to_do():
    """The first thread of the process waits for a lock then."""
    picture = "loop 0..100000\naten::a 0..10000 {0}\naten::b 90000..100000 {0}"
    rows = ((0, 0), (10, 10), (50, 10), (90, 10), (100, 20))
    for thread, number, cause in (("@pool", 1002, Cause.IDLE), ("", MAIN, Cause.LOCK)):
        waits = [WaitsFor.LOCK if at == 50 else WaitsFor.NOTHING for at, _ in rows]
        samples = [(number, *row, 0, 0, wait) for row, wait in zip(rows, waits, strict=True)]
        text = picture.format(thread).replace("loop 0..100000\n", "loop 0..100000\n" * bool(thread))
        assert milliseconds(find_account(sampled(build_trace(text), *samples)))[cause] == 80


def test_devices_have_accounts_too():
    trace = build_trace(
        "aten::a 0..100000",
        gpu=[
            kernel("gemm", 0, 40 * MS),
            kernel("ncclDevKernel_AllReduce", 30 * MS, 60 * MS, stream=8),
            kernel("Memcpy HtoD", 55 * MS, 70 * MS, kind=1, stream=9),
        ],
    )
    account = find_account(trace)
    assert account.threads == ("main", "cuda:0")
    assert milliseconds(account, 1) == {
        Cause.OPERATOR: 40, Cause.IDLE: 30, Cause.COLLECTIVE: 20, Cause.COPY: 10,
    }  # fmt: skip


def test_of_nothing_the_account_is_empty_and_of_no_period_there_is_none():
    account = find_account(build_trace(""))
    assert account.entries() == []
    assert account.as_dict()["steps"] == []
    with pytest.raises(UsageError, match="no period"):
        find_account(build_trace("aten::a 0..10"), "middle")


@st.composite
def programs(draw):
    """Steps, spans on some threads, and samples that may contradict them."""
    moments = st.integers(0, 100_000)
    spans = [span(f"ProfilerStep#{i}", i * 20_000, (i + 1) * 20_000) for i in range(5)]
    for thread in draw(st.sets(st.sampled_from(["main", "autograd", "worker"]), min_size=1)):
        edges = sorted(draw(st.lists(moments, max_size=20)))
        names = st.sampled_from(
            ["aten::mm", "<built-in function sleep>", "gc", "enumerate(DataLoader)#x", "f"]
        )
        spans += [
            span(draw(names), low, high, thread=thread)
            for low, high in zip(edges[::2], edges[1::2], strict=False)
        ]
    trace = build_trace(sorted(spans, key=lambda one: one.start))
    amounts = st.integers(0, 30)
    rows, counts = [], np.zeros(3)
    for time in sorted(draw(st.lists(st.integers(0, 100), max_size=12))):
        counts += np.array([draw(amounts), draw(amounts), draw(amounts) * 100])
        rows.append((MAIN, time, *counts.tolist(), draw(st.sampled_from(list(WaitsFor)))))
    return sampled(trace, *[(*row[:4], int(row[4]), row[5]) for row in rows])


@settings(max_examples=30, deadline=None)
@given(programs())
def test_every_step_and_thread_adds_up_whatever_was_recorded(trace):
    account = find_account(trace, "all")
    assert (account.time_ns > 0).all()
    assert (account.error_ns <= account.time_ns).all()
    took = account.steps.end_ns - account.steps.start_ns
    for thread in range(len(account.threads)):
        of_thread = account.thread == thread
        assert account.time_ns[of_thread].sum() == account.wall_ns
        assert account.table(thread).sum(axis=1).tolist() == took.tolist()


def test_what_was_off_beside_the_recording_is_not_in_it():
    trace = build_trace([span("aten::mm", 0, 10 * MS)])
    rows = [(MAIN, -15, 0, 0, 0, WaitsFor.NOTHING), (MAIN, 25, 16, 24, 0, WaitsFor.NOTHING)]
    found = milliseconds(find_account(sampled(trace, *rows)))
    # 24 of the 40 ms between the samples were without a processor: as much of these 10.
    assert found == {Cause.OPERATOR: 4, Cause.DESCHEDULED: 6}
