"""The account of a trace: what its threads and devices spent their time on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.account import Account, MainTime
from opscope.analysis.account.device_rows import device_rows
from opscope.analysis.account.divided import divide
from opscope.analysis.recording_cost import cost_of_an_event_ns
from opscope.base.reused_memory import reusing_memory
from opscope.columns.causes import Cause
from opscope.columns.trace_data import TraceData, derive
from opscope.timeline.period import Period, Which, period_of
from opscope.timeline.steps import Steps
from opscope.timeline.tree.frame_text import python_events
from opscope.timeline.tree.line_nesting import Line

Values = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]
Columns = dict[str, Values]


@reusing_memory
def find_account(trace: TraceData, which: Which | str = Which.STEADY) -> Account:
    """Where the time went: the wall time of every thread and device by cause, without rest.

    Args:
        trace: any.
        which: the part to look at: the steady state, the start-up or all.

    Raises:
        UsageError: there is no such part.
    """
    period = period_of(trace, which)
    return derive(period.trace, Account, lambda: _account(trace, period))


def main_time(
    trace: TraceData, which: Which | str = Which.ALL, causes: Iterable[Cause] = tuple(Cause)
) -> MainTime:
    """The time of the main thread piece by piece, for questions about where it went.

    Args:
        trace: any.
        which: the part to look at.
        causes: what is asked for; time of other causes is left out.

    Raises:
        UsageError: there is no such part.
    """
    period = period_of(trace, which)
    divided = divide(trace, period)
    step, event, cause, time_ns, start_ns, end_ns = divided.pieces_of_main(causes)
    return MainTime(
        trace=period.trace,
        steps=divided.steps,
        step=step,
        event=event,
        cause=cause,
        time_ns=time_ns,
        start_ns=start_ns,
        end_ns=end_ns,
    )


def time_of_groups(trace: TraceData, group: npt.NDArray[np.int32], groups: int) -> Values:
    """The time of the main thread in its steps, by a number that each event has and by cause.

    Args:
        trace: any.
        group: of every event, from 0. Shape (events,).
        groups: how many numbers there are.

    Returns:
        Nanoseconds, shape (groups + 1, causes); the last row is of time in which no span ran.
    """
    return divide(trace, period_of(trace, Which.ALL)).time_of_main(group, groups)


def _account(whole: TraceData, period: Period) -> Account:
    divided, trace = divide(whole, period), period.trace
    names = _thread_names(divided.threads, divided.main)
    sums: list[tuple[Amounts, Amounts]] = [
        (time.astype(np.float64), error.astype(np.float64)) for time, error in divided.sums
    ]
    for name, time in _sums_of_devices(trace, divided.steps, divided.bounds):
        sums.append((time, np.zeros_like(time)))
        names.append(name)
    return Account(
        **_as_rows(sums),
        threads=tuple(names),
        main=divided.main,
        steps=divided.steps,
        steps_are=divided.steps_are,
        start_ns=period.start_ns,
        wall_ns=divided.bounds[1] - divided.bounds[0],
        about=str(period),
        notes=_notes(trace, divided.is_sampled),
    )


def _thread_names(threads: tuple[Line, ...], main: int) -> list[str]:
    """Different ones: threads that give themselves none are all called as their process."""
    count = Counter(line.name for line in threads)
    names = []
    for row, line in enumerate(threads):
        is_known = line.name and (count[line.name] == 1 or row == main)
        number = f"thread {line.number}"
        names.append(line.name if is_known else f"{line.name} ({number})" if line.name else number)
    return names


def _sums_of_devices(
    trace: TraceData, steps: Steps, bounds: tuple[int, int]
) -> Iterator[tuple[str, Amounts]]:
    """Of each device its name, and the time by step and cause; outside all steps comes first."""
    for rows in device_rows(trace, steps, bounds):
        time = np.zeros((len(steps) + 1) * len(Cause), dtype=np.float64)
        np.add.at(time, (rows.step + 1) * len(Cause) + rows.cause, rows.time_ns)
        yield rows.name, time


def _as_rows(sums: list[tuple[Amounts, Amounts]]) -> Columns:
    """One row for each step, thread and cause that has time."""
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
            "What the kernel counts of threads was not recorded, so waiting for a processor, for "
            "the GIL and for pages of memory shows as what the thread was in, or as unknown."
        )
    if not python_events(trace).any():
        notes.append(
            "Python functions were not recorded, so what no operator ran in is told by the kernel "
            "alone. Record with --own-stack (with_own_functions=True) to see which function it was."
        )
    if not trace.metadata.get("options", {}).get("gc_pauses", True):
        notes.append("Garbage collections were not recorded.")
    if len(trace.events) and cost_of_an_event_ns(trace) is None:
        notes.append("What recording itself cost is not known, and is in the other causes.")
    return tuple(notes)
