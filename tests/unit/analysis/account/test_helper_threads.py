"""Waiting while a collective is under way on a thread of its own is waiting for other ranks."""

from __future__ import annotations

import numpy as np
import pytest

from opscope.analysis.account.find import find_account
from opscope.columns.causes import Cause
from opscope.columns.codes import EventKind, WaitsFor
from support.build_trace import build_trace, span
from support.thread_samples import sampled

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


def with_samples(trace):
    """Main computes 3 ms of 10, and waits for a lock else; the engine rests between passes."""
    return sampled(
        trace,
        (MAIN, 0, 0, 0, 0, WaitsFor.NOTHING),
        (MAIN, 10, 3, 0, 0, WaitsFor.LOCK),
        (MAIN, 20, 6, 0, 0, WaitsFor.LOCK),
        (ENGINE, 0, 0, 0, 0, WaitsFor.LOCK),
        (ENGINE, 2.5, 0, 0, 0, WaitsFor.LOCK),
        (ENGINE, 8.5, 6, 0, 0, WaitsFor.NOTHING),
        (ENGINE, 12.5, 6, 0, 0, WaitsFor.LOCK),
        (ENGINE, 18.5, 12, 0, 0, WaitsFor.NOTHING),
        (ENGINE, 20, 12, 0, 0, WaitsFor.LOCK),
    )


def test_main_waits_for_the_pass_and_the_engine_rests_between_passes():
    account = find_account(with_samples(made()), "all")
    of_main = {one.cause: one.time_ns / 1e6 for one in account.entries()}
    assert of_main[Cause.BACKWARD] == pytest.approx(12, abs=1.1)
    assert of_main.get(Cause.LOCK, 0) < 2.1
    divided = np.bincount(account.thread, weights=account.time_ns)
    assert (divided == account.wall_ns).all()
    of_engine = {one.cause: one.time_ns / 1e6 for one in account.entries(thread=1)}
    assert of_engine[Cause.IDLE] == pytest.approx(19 - 12, abs=0.3)
    assert Cause.PYTHON not in of_engine and Cause.LOCK not in of_engine


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


def backward(waits_for=WaitsFor.LOCK, gloo=(20, 80)):
    """A thread that computes for 10 ms, waits for 90, and gloo's thread meanwhile."""
    spans = [
        span("aten::mm", 0, 10 * MS),
        *([span("gloo:all_reduce", gloo[0] * MS, gloo[1] * MS, "gloo")] if gloo else []),
        span("aten::add", 100 * MS, 101 * MS),
    ]
    return sampled(
        build_trace(spans),
        (MAIN, 0, 0, 0, 0, WaitsFor.NOTHING),
        (MAIN, 10, 10, 0, 0, WaitsFor.NOTHING),
        (MAIN, 50, 10, 0, 0, waits_for),
        (MAIN, 100, 10, 0, 0, waits_for),
        (MAIN, 101, 11, 0, 0, WaitsFor.NOTHING),
    )


def milliseconds(trace):
    account = find_account(trace, "all")
    return {e.cause: round(e.time_ns / 1e6, 1) for e in account.entries(thread=0)}


def test_waiting_for_another_thread_meanwhile_is_waiting_for_ranks_and_sleeping_is_not():
    for waits_for, cause in ((WaitsFor.LOCK, Cause.LOCK), (WaitsFor.OTHER, Cause.UNKNOWN)):
        found = milliseconds(backward(waits_for))
        assert (found[Cause.COLLECTIVE], found[Cause.OPERATOR], found[cause]) == (60, 11, 30)
    assert milliseconds(backward(gloo=None)) == {Cause.OPERATOR: 11, Cause.LOCK: 90}
    asleep = milliseconds(backward(WaitsFor.TIMER))
    assert asleep[Cause.TIMER] == 90 and Cause.COLLECTIVE not in asleep


def test_who_sleeps_and_is_seen_to_wait_for_ranks_later_has_slept():
    """A sample within a transfer says nothing of what was before it."""
    spans, rows = [], []
    for at in range(0, 600, 100):  # sleeps 70 ms, waits for others 20 ms, computes
        spans += [span("gloo:all_reduce", (at + 70) * MS, (at + 90) * MS, "gloo")]
        spans += [span("aten::mm", (at + 92) * MS, (at + 99) * MS)]
        slept = at == 300  # once a sample falls into the sleep, else into the transfer
        kind = WaitsFor.TIMER if slept else WaitsFor.LOCK
        rows += [(MAIN, at + (50 if slept else 80), at // 10, 0, 0, kind)]
    found = milliseconds(sampled(build_trace(spans), *rows))
    assert found[Cause.TIMER] > found.get(Cause.LOCK, 0)
    assert 60 < found[Cause.COLLECTIVE] <= 120


def test_without_samples_a_gap_meanwhile_is_guessed_to_wait_and_said_to_be_unsure():
    spans = [
        span("aten::mm", 0, 10 * MS),
        span("gloo:all_reduce", 20 * MS, 80 * MS, "gloo"),
        span("aten::add", 100 * MS, 101 * MS),
    ]
    account = find_account(build_trace(spans), "all")
    (waited,) = [e for e in account.entries(thread=0) if e.cause is Cause.COLLECTIVE]
    assert waited.time_ns == waited.error_ns == 60_000_000
