"""Waiting while a collective is under way on a thread of its own is waiting for other ranks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opscope.analysis.account.find import find_account
from opscope.analysis.account.helper_threads import (
    is_within,
    passes_of_engine,
    threads_of_engine,
    transfers,
)
from opscope.columns.causes import Cause
from opscope.columns.codes import EventKind, WaitsFor
from opscope.columns.schema import THREAD_SAMPLES
from opscope.columns.table import Table
from support.build_trace import ORIGIN_NS, build_trace, span

MS = 1_000
NODE = "autograd::engine::evaluate_function: MulBackward0"
MAIN_THREAD, ENGINE = 1001, 1002


def step(at, engine="pt_autograd_0"):
    """A forward pass of 2 ms and a backward pass of 6, of which the engine computes for 4."""
    return [
        span("aten::mul", at, at + 2 * MS),
        span("backward", at + 2 * MS, at + 9 * MS, kind=EventKind.C_CALL),
        span(NODE, at + 2.5 * MS, at + 4.5 * MS, engine),
        span("aten::mul", at + 3 * MS, at + 4 * MS, engine),
        span(NODE, at + 4.6 * MS, at + 8.5 * MS, engine),
    ]


def made(engine="pt_autograd_0"):
    return build_trace([*step(0, engine), *step(10 * MS, engine)])


def sampled(trace):
    """Main computes 3 ms of 10, and waits for a lock else; the engine rests between passes."""
    rows = [
        (MAIN_THREAD, 0, 0, WaitsFor.NOTHING),
        (MAIN_THREAD, 10, 3, WaitsFor.LOCK),
        (MAIN_THREAD, 20, 6, WaitsFor.LOCK),
        (ENGINE, 0, 0, WaitsFor.LOCK),
        (ENGINE, 2.5, 0, WaitsFor.LOCK),
        (ENGINE, 8.5, 6, WaitsFor.NOTHING),
        (ENGINE, 12.5, 6, WaitsFor.LOCK),
        (ENGINE, 18.5, 12, WaitsFor.NOTHING),
        (ENGINE, 20, 12, WaitsFor.LOCK),
    ]
    columns = {
        "system_thread_id": [row[0] for row in rows],
        "time_ns": [ORIGIN_NS + int(row[1] * 1e6) for row in rows],
        "computed_ns": [int(row[2] * 1e6) for row in rows],
        "delayed_ns": [0] * len(rows),
        "system_ns": [0] * len(rows),
        "faults": [0] * len(rows),
        "waits_for": [int(row[3]) for row in rows],
    }
    return trace.with_tables({"thread_samples": Table(THREAD_SAMPLES, columns)})


def test_passes_are_where_the_engine_has_a_thread_of_its_own():
    passes = (passes_of_engine(made()) - ORIGIN_NS) / 1e6
    assert passes.tolist() == [[2.5, 8.5], [12.5, 18.5]]
    assert threads_of_engine(made()).tolist() == [False, True]


def test_on_the_cpu_the_engine_runs_where_it_was_asked_to():
    trace = made(engine="main")
    assert not threads_of_engine(trace).any() and passes_of_engine(trace).shape == (0, 2)
    found = find_account(sampled(trace), "all")
    assert Cause.BACKWARD not in {one.cause for one in found.entries()}


def test_who_waits_for_a_pass_waits_for_no_lock():
    account = find_account(sampled(made()), "all")
    of_main = {one.cause: one.time_ns / 1e6 for one in account.entries()}
    assert of_main[Cause.BACKWARD] == pytest.approx(12, abs=1.1)
    assert of_main.get(Cause.LOCK, 0) < 2.1
    divided = np.bincount(account.thread, weights=account.time_ns)
    assert (divided == account.wall_ns).all()


def test_between_passes_the_engine_has_nothing_to_do_and_in_them_is_torch():
    account = find_account(sampled(made()), "all")
    of_engine = {one.cause: one.time_ns / 1e6 for one in account.entries(thread=1)}
    assert of_engine[Cause.IDLE] == pytest.approx(19 - 12, abs=0.3)
    assert Cause.PYTHON not in of_engine and Cause.LOCK not in of_engine


def test_an_empty_trace_has_no_pass():
    assert passes_of_engine(build_trace([])).shape == (0, 2)


def test_the_program_runs_where_it_computes_and_not_where_that_is_waited_for():
    trace = build_trace(
        [
            span("main", 0, 50 * MS, kind=EventKind.PYTHON_CALL, frame=("a.py", 1, "main")),
            span("<built-in method acquire of _thread.lock object at 0x1>", MS, 49 * MS,
                 kind=EventKind.C_CALL),
            span("train", 2 * MS, 48 * MS, "trainer", kind=EventKind.PYTHON_CALL,
                 frame=("a.py", 9, "train")),
            *(span("aten::mm", at * MS, at * MS + MS, "trainer") for at in range(3, 40, 2)),
        ]
    )  # fmt: skip
    account = find_account(trace, "all")
    assert account.threads[account.main] == "trainer"


MAIN = 1001


def backward(waits_for=WaitsFor.LOCK, gloo=(20, 80)):
    """A thread that computes for 10 ms, waits for 90, and gloo's thread meanwhile."""
    spans = [
        span("aten::mm", 0, 10 * MS),
        *([span("gloo:all_reduce", gloo[0] * MS, gloo[1] * MS, "gloo")] if gloo else []),
        span("aten::add", 100 * MS, 101 * MS),
    ]
    rows = [(0, 0, WaitsFor.NOTHING), (10, 10, WaitsFor.NOTHING), (50, 10, waits_for)]
    rows += [(100, 10, waits_for), (101, 11, WaitsFor.NOTHING)]
    columns = {
        "system_thread_id": [MAIN] * len(rows),
        "time_ns": [ORIGIN_NS + at * 1_000_000 for at, _, _ in rows],
        "computed_ns": [computed * 1_000_000 for _, computed, _ in rows],
        "delayed_ns": [0] * len(rows),
        "system_ns": [0] * len(rows),
        "faults": [0] * len(rows),
        "waits_for": [int(waits) for _, _, waits in rows],
    }
    return build_trace(spans).with_tables({"thread_samples": Table(THREAD_SAMPLES, columns)})


def milliseconds(trace):
    account = find_account(trace, "all")
    return {e.cause: round(e.time_ns / 1e6, 1) for e in account.entries(thread=0)}


@pytest.mark.parametrize("waits_for", [WaitsFor.LOCK, WaitsFor.OTHER])
def test_waiting_for_another_thread_meanwhile_is_waiting_for_ranks(waits_for):
    found = milliseconds(backward(waits_for))
    assert found[Cause.COLLECTIVE] == 60
    assert found[Cause.OPERATOR] == 11
    assert found[{WaitsFor.LOCK: Cause.LOCK, WaitsFor.OTHER: Cause.UNKNOWN}[waits_for]] == 30


def test_who_sleeps_meanwhile_does_not_wait_for_ranks():
    found = milliseconds(backward(WaitsFor.TIMER))
    assert found[Cause.TIMER] == 90 and Cause.COLLECTIVE not in found


@pytest.mark.parametrize(
    "name",
    [
        "_c10d_functional::wait_tensor",
        "_c10d_functional_autograd::all_to_all_single",
        "c10d_functional::all_reduce",
        "_dtensor::shard_dim_alltoall",
        "c10d::allreduce_",
    ],
)
def test_collectives_of_every_interface_are_collectives(name):
    found = milliseconds(build_trace([span("aten::mm", 0, 10 * MS), span(name, 10 * MS, 30 * MS)]))
    assert found == {Cause.OPERATOR: 10, Cause.COLLECTIVE: 20}


def test_who_sleeps_and_is_seen_to_wait_for_ranks_later_has_slept():
    """A sample within a transfer says nothing of what was before it."""
    spans, rows = [], []
    for at in range(0, 600, 100):  # sleeps 70 ms, waits for others 20 ms, computes
        spans += [span("gloo:all_reduce", (at + 70) * MS, (at + 90) * MS, "gloo")]
        spans += [span("aten::mm", (at + 92) * MS, (at + 99) * MS)]
        slept = at == 300  # once a sample falls into the sleep, else into the transfer
        kind = WaitsFor.TIMER if slept else WaitsFor.LOCK
        rows += [(at + (50 if slept else 80), at // 10, kind)]
    columns = {
        "system_thread_id": [MAIN] * len(rows),
        "time_ns": [ORIGIN_NS + at * 1_000_000 for at, _, _ in rows],
        "computed_ns": [computed * 1_000_000 for _, computed, _ in rows],
        "delayed_ns": [0] * len(rows),
        "system_ns": [0] * len(rows),
        "faults": [0] * len(rows),
        "waits_for": [int(waits) for _, _, waits in rows],
    }
    trace = build_trace(spans).with_tables({"thread_samples": Table(THREAD_SAMPLES, columns)})
    found = milliseconds(trace)
    assert found[Cause.TIMER] > found.get(Cause.LOCK, 0)
    assert 60 < found[Cause.COLLECTIVE] <= 120


def test_without_a_transfer_it_is_a_lock():
    found = milliseconds(backward(gloo=None))
    assert found[Cause.LOCK] == 90 and Cause.COLLECTIVE not in found


def test_the_thread_of_the_transfer_itself_communicates():
    account = find_account(backward(), "all")
    gloo = {e.cause: e.time_ns for e in account.entries(thread=account.threads.index("gloo"))}
    assert gloo[Cause.COLLECTIVE] == 60_000_000


spans_of_gloo = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


@given(spans_of_gloo, st.lists(st.integers(-5, 90), max_size=20))
def test_stretches_are_when_any_was(spans, moments):
    trace = build_trace(
        [span("gloo:broadcast", a, a + b, f"runs {n}") for n, (a, b) in enumerate(sorted(spans))]
    )
    stretches = transfers(trace)
    assert (np.diff(stretches.ravel()) >= 0).all()
    asked = np.array(moments, dtype=np.int64) * 1000 + ORIGIN_NS
    expected = [any(a <= moment < a + b for a, b in spans) for moment in moments]
    assert is_within(asked, stretches).tolist() == expected


def test_without_samples_a_gap_meanwhile_is_guessed_to_wait_and_said_to_be_unsure():
    spans = [
        span("aten::mm", 0, 10 * MS),
        span("gloo:all_reduce", 20 * MS, 80 * MS, "gloo"),
        span("aten::add", 100 * MS, 101 * MS),
    ]
    account = find_account(build_trace(spans), "all")
    (waited,) = [e for e in account.entries(thread=0) if e.cause is Cause.COLLECTIVE]
    assert waited.time_ns == waited.error_ns == 60_000_000
