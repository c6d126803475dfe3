"""Backward passes on the engine's own threads, and who waits for them."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.analysis.account.backward import passes_of_engine, threads_of_engine
from opscope.analysis.account.find import find_account
from opscope.columns.causes import Cause
from opscope.columns.codes import EventKind, WaitsFor
from opscope.columns.schema import THREAD_SAMPLES
from opscope.columns.table import Table
from support.build_trace import ORIGIN_NS, build_trace, span

MS = 1_000
NODE = "autograd::engine::evaluate_function: MulBackward0"
MAIN, ENGINE = 1001, 1002


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
        (MAIN, 0, 0, WaitsFor.NOTHING),
        (MAIN, 10, 3, WaitsFor.LOCK),
        (MAIN, 20, 6, WaitsFor.LOCK),
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
