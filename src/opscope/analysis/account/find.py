"""The account of a trace: time of its threads and devices by cause."""

from __future__ import annotations

from collections import Counter

import numpy as np

from opscope.analysis.account.account import Account
from opscope.analysis.account.device_rows import times_of_devices
from opscope.analysis.account.divided import Divided, divide
from opscope.analysis.account.process_waits import process_waits
from opscope.analysis.recording_cost import cost_of_an_event_ns
from opscope.base.reused_memory import reusing_memory
from opscope.columns.causes import Cause
from opscope.columns.trace_data import TraceData, derive
from opscope.timeline.arrays import Amounts, Values
from opscope.timeline.period import Period, Which, detailed_period_of
from opscope.timeline.steps import Steps
from opscope.timeline.tree.frame_text import python_events
from opscope.timeline.tree.line_nesting import Line
from opscope.timeline.window import process_id_of


@reusing_memory
def find_account(trace: TraceData, which: Which | str = Which.STEADY) -> Account:
    """Wall time of every thread and device of a period by cause; causes sum to the total."""
    period = detailed_period_of(trace, which)
    return derive(period.trace, Account, lambda: _account(trace, period))


def _account(recording: TraceData, period: Period) -> Account:
    divided, trace = divide(recording, period), period.trace
    names = _thread_names(divided.threads, divided.main)
    sums: list[tuple[Amounts, Amounts]] = [
        (time.astype(np.float64), error.astype(np.float64)) for time, error in divided.sums
    ]
    if sums:
        _move_delays_of_workers(trace, divided.steps, sums[divided.main][0])
        _move_waits_for_tasks(trace, divided, sums[divided.main][0])
    for name, time in times_of_devices(trace, divided.steps, divided.bounds):
        sums.append((time, np.zeros_like(time)))
        names.append(name)
    return Account(
        **_as_rows(sums),
        threads=tuple(names),
        main=divided.main,
        devices=range(len(divided.threads), len(names)),
        steps=divided.steps,
        steps_are=divided.steps_are,
        start_ns=period.start_ns,
        wall_ns=divided.bounds[1] - divided.bounds[0],
        about=str(period),
        notes=_notes(trace, divided.is_sampled),
    )


def _move_delays_of_workers(trace: TraceData, steps: Steps, time: Amounts) -> None:
    """Count waits for workers as waits for a CPU as far as the thread or the worker had none.

    Waits for other ranks stay collectives, as a job's analyses compare what its ranks recorded.
    ``time``: as of ``Divided.sums``.
    """
    waits, by_step = process_waits(trace), time.reshape(len(steps) + 1, len(Cause))
    step = steps.row_at(waits.start_ns) + 1
    moved = np.where(waits.is_loader, waits.waited_ns - waits.counted_ns, 0)
    moved = np.bincount(step, moved, len(by_step))
    moved = np.minimum(moved, by_step[:, Cause.LOADER])
    by_step[:, Cause.LOADER] -= moved
    by_step[:, Cause.DESCHEDULED] += moved


def _move_waits_for_tasks(trace: TraceData, divided: Divided, time: Amounts) -> None:
    """Count waits for a lock outside all spans as idle, unless of the first thread of the process.

    A thread of a pool waits so for its next task. ``time``: as of ``Divided.sums``.
    """
    if divided.threads[divided.main].number == process_id_of(trace, trace.metadata):
        return
    by_step = time.reshape(len(divided.steps) + 1, len(Cause))
    step, event, _, took, *_ = divided.pieces_of_main((Cause.LOCK,))
    moved = np.bincount(step[event < 0] + 1, took[event < 0], len(by_step))
    moved = np.minimum(moved, by_step[:, Cause.LOCK])
    by_step[:, Cause.LOCK] -= moved
    by_step[:, Cause.IDLE] += moved


def _thread_names(threads: tuple[Line, ...], main: int) -> list[str]:
    """Unique names: threads without a name of their own have that of their process."""
    count = Counter(line.name for line in threads)
    names = []
    for row, line in enumerate(threads):
        is_known = line.name and (count[line.name] == 1 or row == main)
        number = f"thread {line.number}"
        names.append(line.name if is_known else f"{line.name} ({number})" if line.name else number)
    return names


def _as_rows(sums: list[tuple[Amounts, Amounts]]) -> dict[str, Values]:
    time, error = (
        np.array([one[which] for one in sums]).reshape(len(sums), -1) for which in range(2)
    )
    thread, key = np.nonzero(time > 0)
    return {
        "step": key // len(Cause) - 1,
        "thread": thread,
        "cause": key % len(Cause),
        "time_ns": time[thread, key].astype(np.int64),
        "error_ns": np.minimum(error, time)[thread, key].astype(np.int64),
    }


def _notes(trace: TraceData, sampled: bool) -> tuple[str, ...]:
    notes = []
    if not sampled:
        notes.append(
            "Kernel counters of threads were not recorded, so waits for a CPU, the GIL or "
            "memory pages count as the innermost call, or as unknown."
        )
    if not python_events(trace).any():
        notes.append(
            "Python functions were not recorded, so time without an operator is classified by "
            "kernel counters only. Record with --own-stack (with_own_functions=True) to see "
            "the functions."
        )
    if not trace.metadata.get("options", {}).get("gc_pauses", True):
        notes.append("Garbage collections were not recorded.")
    if len(trace.events) and cost_of_an_event_ns(trace) is None:
        notes.append("The overhead of recording is unknown, and part of the other causes.")
    return tuple(notes)
