"""The account of a trace: pieces of time, what the kernel says of them, and their sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.account import Account, MainTime
from opscope.analysis.account.causes import Cause, is_any
from opscope.analysis.account.collectives import is_within, transfers
from opscope.analysis.account.device_rows import device_rows
from opscope.analysis.account.event_causes import waits
from opscope.analysis.account.pieces import ALL_THREADS, Pieces, pieces_of
from opscope.analysis.account.processor import (
    Intervals,
    OffProcessor,
    intervals_by_thread,
    lay_over,
)
from opscope.analysis.period import Period, Which, period_of
from opscope.analysis.program_steps import program_steps
from opscope.reused_memory import reusing_memory
from opscope.trace.codes import WaitsFor
from opscope.trace.ledger_rows import SPAN_COST
from opscope.trace.trace import Trace
from opscope.tree.frame_text import python_events
from opscope.tree.steps import Steps

Values = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Amounts = npt.NDArray[np.float64]
Columns = dict[str, Values]

_ACCOUNTS: WeakKeyDictionary[Trace, Account] = WeakKeyDictionary()

_BLOCKED_IN = {
    WaitsFor.NOTHING: Cause.UNKNOWN,
    WaitsFor.GIL: Cause.GIL,
    WaitsFor.LOCK: Cause.LOCK,
    WaitsFor.TIMER: Cause.TIMER,
    WaitsFor.READINESS: Cause.IO,
    WaitsFor.TRANSFER: Cause.IO,
    WaitsFor.PROCESS: Cause.LOCK,
    WaitsFor.OTHER: Cause.UNKNOWN,
    WaitsFor.DISK: Cause.IO,
}
_OF_CALL = np.array([_BLOCKED_IN[WaitsFor(code)] for code in range(len(WaitsFor))], dtype=np.int64)

_FOR_ANOTHER = (Cause.LOCK, Cause.UNKNOWN)

_LASTING = (Cause.COLLECTION, Cause.IMPORT, Cause.COMPILATION, Cause.DEVICE)


@reusing_memory
def find_account(trace: Trace, which: Which | str = Which.STEADY) -> Account:
    """Where the time went: the wall time of every thread and device by cause, without rest.

    Args:
        trace: any.
        which: the part to look at: the steady state, the start-up or all.

    Raises:
        UsageError: there is no such part.
    """
    period = period_of(trace, which)
    found = _ACCOUNTS.get(period.trace)
    if found is None:
        found = _ACCOUNTS[period.trace] = _account(trace, period)
    return found


def main_time(trace: Trace, which: Which | str = Which.ALL) -> MainTime:
    """The time of the main thread piece by piece, for questions about where it went.

    Args:
        trace: any.
        which: the part to look at.

    Raises:
        UsageError: there is no such part.
    """
    divided = _divide(trace, period_of(trace, which))
    pieces = divided.pieces
    is_own = pieces.segments.thread == _main(pieces)
    parts = []
    for cause, time_ns, _ in _parts(divided):
        rows = np.flatnonzero(is_own & (time_ns > 0))
        parts.append((rows, cause[rows], time_ns[rows]))
    rows, cause, time_ns = (np.concatenate([part[i] for part in parts]) for i in range(3))
    return MainTime(
        trace=divided.trace,
        steps=divided.steps,
        step=pieces.step[rows],
        event=pieces.segments.event[rows],
        cause=cause,
        time_ns=time_ns,
        start_ns=pieces.segments.start_ns[rows],
        end_ns=(pieces.segments.start_ns + pieces.segments.length_ns)[rows],
    )


@dataclass(frozen=True, eq=False)
class _Divided:
    """Pieces of time, with what is known of each. ``in_transfer`` has shape (pieces,)."""

    trace: Trace
    steps: Steps
    steps_are: str
    bounds: tuple[int, int]
    pieces: Pieces
    off: OffProcessor
    in_transfer: Flags
    is_sampled: bool


def _divide(whole: Trace, period: Period) -> _Divided:
    trace = period.trace
    steps, steps_are = program_steps(trace)
    wall_ns = period.wall_ns if len(trace.events) or len(trace.table("gpu")) else 0
    bounds = (period.start_ns, period.start_ns + wall_ns)
    stretches = transfers(trace)
    samples = dict(intervals_by_thread(whole.table("thread_samples"), stretches))
    cuts = {key: _ends(one) for key, one in samples.items()}
    pieces = pieces_of(trace, steps, bounds, {**cuts, ALL_THREADS: stretches.ravel()})
    in_transfer = is_within(pieces.segments.start_ns, stretches)
    off = _off_processor(pieces, samples, in_transfer)
    return _Divided(trace, steps, steps_are, bounds, pieces, off, in_transfer, bool(samples))


def _account(whole: Trace, period: Period) -> Account:
    divided = _divide(whole, period)
    trace, steps, pieces, bounds = divided.trace, divided.steps, divided.pieces, divided.bounds
    names = [line.name or f"thread {line.number}" for line in pieces.segments.threads]
    sums = list(_sums_of_threads(divided))
    for rows in device_rows(trace, steps, bounds):
        time = np.zeros((len(steps) + 1) * len(Cause), dtype=np.float64)
        np.add.at(time, (rows.step + 1) * len(Cause) + rows.cause, rows.time_ns)
        sums.append((time, np.zeros_like(time)))
        names.append(rows.name)
    return Account(
        **_as_rows(sums),
        threads=tuple(names),
        main=_main(pieces),
        steps=steps,
        steps_are=divided.steps_are,
        start_ns=period.start_ns,
        wall_ns=bounds[1] - bounds[0],
        about=str(period),
        notes=_notes(trace, divided.is_sampled),
    )


def _ends(intervals: Intervals) -> Values:
    return np.append(intervals.start_ns, intervals.end_ns)


def _off_processor(
    pieces: Pieces, samples: dict[int, Intervals], in_transfer: Flags
) -> OffProcessor:
    """What the kernel says of each piece."""
    segments = pieces.segments
    result = OffProcessor.of_nothing(len(segments))
    begin = np.searchsorted(segments.thread, np.arange(len(segments.threads) + 1))
    expected = waits(pieces.cause)
    computes = pieces.cause == Cause.OPERATOR
    for number, line in enumerate(segments.threads):
        if line.number in samples:
            own = slice(int(begin[number]), int(begin[number + 1]))
            spans = (segments.start_ns[own], segments.length_ns[own])
            flags = (expected[own], computes[own], in_transfer[own])
            part = lay_over(samples[line.number], *spans, *flags)
            for name in vars(part):
                getattr(result, name)[own] = getattr(part, name)
    return result


def _sums_of_threads(divided: _Divided) -> Iterator[tuple[Amounts, Amounts]]:
    """Of each thread the time by step and cause, and its error; outside all steps comes first."""
    parts, pieces, steps = _parts(divided), divided.pieces, len(divided.steps)
    threads = len(pieces.segments.threads)
    begin = np.searchsorted(pieces.segments.thread, np.arange(threads + 1))
    for first, last in pairwise(begin.tolist()):
        own = slice(first, last)
        time, error = np.zeros((2, (steps + 1) * len(Cause)))
        for cause, amount, unsure in parts:
            key = (pieces.step[own] + 1) * len(Cause) + cause[own]
            time += np.bincount(key, weights=amount[own], minlength=len(time))
            error += np.bincount(key, weights=unsure[own], minlength=len(error))
        yield time, error


def _parts(divided: _Divided) -> list[tuple[Values, Values, Values]]:
    """Each piece in up to six parts: a cause, how long, and how unsure that is."""
    pieces, off = divided.pieces, divided.off
    cost = divided.trace.ledger.get("recorder", {}).get(SPAN_COST, 0.0)
    rest = pieces.length_ns - off.blocked_ns - off.delayed_ns - off.faults_ns
    own = np.minimum(np.where(pieces.segments.is_first, int(cost / 2), 0), rest)
    dispatch = np.minimum(pieces.dispatch_ns, rest - own)
    rest = rest - own - dispatch
    unsure = np.where(pieces.is_gap & ~off.is_sampled & pieces.is_main, rest, 0)
    gaps = _known_gaps(pieces, off, divided.in_transfer)

    def only(cause: Cause) -> Values:
        return np.broadcast_to(np.int64(cause), len(rest))

    return [
        (gaps, rest, unsure),
        (_blocked_in(pieces, off, divided.in_transfer), off.blocked_ns, off.error_ns),
        (only(Cause.DESCHEDULED), off.delayed_ns, off.delayed_error_ns),
        (only(Cause.MEMORY), off.faults_ns, off.faults_ns // 2),
        (only(Cause.PROFILER), own, own // 2),
        (only(Cause.DISPATCH), dispatch, dispatch // 2),
    ]


def _blocked_in(pieces: Pieces, off: OffProcessor, in_transfer: Flags) -> Values:
    """The cause of what each piece waited in a call, where its span does not say it waits.

    An operator may wait for threads of its own, which is its work; a thread that nothing is asked
    of rests; what imports, compiles or collects goes on doing that. Whoever waits for another
    thread, nobody knows which, while a collective is under way on one waits for that, as the end
    of a backward pass does.
    """
    call = _OF_CALL[off.waits_for]
    call = np.where(in_transfer & is_any(call, _FOR_ANOTHER), Cause.COLLECTIVE, call)
    operator = (pieces.cause == Cause.OPERATOR) & (call != Cause.IO)
    goes_on = is_any(pieces.cause, _LASTING) | operator
    rests = ~pieces.is_main & pieces.is_gap
    known = np.select([call == Cause.GIL, goes_on, rests], [call, pieces.cause, Cause.IDLE], call)
    return np.asarray(known, dtype=np.int64)


def _known_gaps(pieces: Pieces, off: OffProcessor, in_transfer: Flags) -> Values:
    """What ran where nothing was recorded: where the kernel says that the thread computed, Python.

    That is Python code, or a library that it calls: torch's own work would have been recorded.
    Where the kernel was not asked, a long gap while a collective is under way is taken for waiting
    for it, and all of that may be wrong.
    """
    cause = np.where(pieces.is_gap & off.is_sampled, Cause.PYTHON, pieces.cause)
    guessed = pieces.is_gap & ~off.is_sampled & in_transfer & (cause == Cause.UNKNOWN)
    return np.where(guessed, Cause.COLLECTIVE, cause)


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


def _main(pieces: Pieces) -> int:
    """The thread that most was seen to run on."""
    busy = np.where(pieces.is_gap | ~pieces.is_main, 0, pieces.length_ns)
    count = max(len(pieces.segments.threads), 1)
    return int(np.argmax(np.bincount(pieces.segments.thread, weights=busy, minlength=count)))


def _notes(trace: Trace, sampled: bool) -> tuple[str, ...]:
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
    return tuple(notes)
