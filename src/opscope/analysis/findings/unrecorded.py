"""A recording as its program would have run had nobody recorded it, and nothing else run.

What a fix saves is a share of that time: what recording costs goes to where many small events are,
and hides how much of the rest a fix leaves. One clock is made slower or faster for all threads and
tables, from one moment of the main thread to the next, so that what was before is before.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope import _native
from opscope.analysis.account.causes import Cause
from opscope.analysis.account.find import main_time
from opscope.analysis.account.processor import sampled_threads
from opscope.analysis.findings.delays import delays_ns, main_thread
from opscope.analysis.period import wall_bounds
from opscope.analysis.recording_cost import costs_ns, recording_costs
from opscope.trace import processor_rows
from opscope.trace.codes import WaitsFor
from opscope.trace.table import Table
from opscope.trace.trace import Trace
from opscope.tree.frame_text import python_events
from opscope.tree.innermost import Segments, innermost_segments

Values = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]

_TIMED = ("events", "allocations", "gpu")
_SPANS = ("events", "gpu")
"""Tables whose times are changed: those that are asked for times below."""

_OPENING_NS = _CLOSING_NS = 10_000_000
"""At most, opening or closing a window takes while the function that does it is being recorded."""


class Clock:
    """Another time, such as that of the program alone, for every moment of a recording.

    Attributes:
        moments: at which it begins to go faster or slower, Unix nanoseconds. Shape (moments,).
        stands_in_delays: it does not go on while the program waits for a processor.
        stood_ns: how long it stood while the program waited for the GIL.
    """

    def __init__(
        self,
        moments: Values,
        lengths: Amounts,
        stands_in_delays: bool = False,
        stood_ns: float = 0.0,
    ) -> None:
        """The clock shows so much more at each moment than at the one before."""
        self.moments, self._first = moments, int(moments[0])
        self.stands_in_delays, self.stood_ns = stands_in_delays, stood_ns
        self._lengths = lengths
        self._shown = np.concatenate([[0.0], np.cumsum(lengths)])

    def at(self, time_ns: Values) -> Values:
        """What it shows at moments of the recording, Unix nanoseconds."""
        times = np.ascontiguousarray(time_ns, dtype=np.int64)
        return _native.shown_at(self.moments, self._shown, times) + self._first

    def standing(self, waited_ns: Amounts) -> Clock:
        """One that does not go on for so long after each moment but the last. Shape (moments -
        1,)."""
        stood = np.minimum(np.maximum(waited_ns, 0), self._lengths)
        lengths = self._lengths - stood
        return Clock(self.moments, lengths, self.stands_in_delays, float(stood.sum()))


def unrecorded(trace: Trace) -> Trace:
    """The same trace, with the times of the program alone; itself where nothing is known of those.

    What devices do keeps its times, as it takes no longer for being recorded.
    """
    clock = clock_alone(trace)
    return trace if clock is None else retimed(trace, clock)


def clock_alone(trace: Trace) -> Clock | None:
    """The time of the program alone; None where nothing is known of it."""
    samples = sampled_threads(trace)
    costs = recording_costs(trace)
    if not len(trace.events) or not (samples or costs.of_one_ns):
        return None
    cuts = {number: np.append(one.start_ns, one.end_ns) for number, one in samples.items()}
    segments = innermost_segments(trace, *wall_bounds(trace), cuts)
    main = _main(trace, segments)
    # Thread by thread: its own are one after the other.
    own = slice(*np.searchsorted(segments.thread, [main, main + 1]).tolist())
    if own.start == own.stop:
        return None
    start, event = segments.start_ns[own], segments.event[own]
    edges = np.append(start, start[-1] + segments.length_ns[own][-1])
    took = np.diff(edges).astype(np.float64)
    waiting = samples.get(segments.threads[main].number)
    if waiting is not None:
        took -= delays_ns(trace, waiting, edges, event)
    if costs.of_one_ns:
        took = np.maximum(took - costs_ns(trace, edges, costs), 0)
    took /= costs.of_stretches(trace, event, took)
    if _is_opening(trace, int(event[0])):
        _take_from(took, event, _OPENING_NS)
    if _opened_it(trace, int(event[-1])):
        _take_from(took[::-1], event[::-1], _CLOSING_NS)
    return Clock(edges, took, waiting is not None)


def clock_at_work(trace: Trace, alone: Clock | None) -> Clock | None:
    """The time of the program alone but for what its main thread waits for the GIL.

    That is a finding of its own: what others find in the same calls would be found twice.
    """
    if alone is None or not (trace.table("thread_samples")["waits_for"] == WaitsFor.GIL).any():
        return alone
    waits = main_time(trace, causes=(Cause.GIL,))
    order = np.argsort(waits.start_ns, kind="stable")
    edges = np.stack([waits.start_ns[order], waits.end_ns[order]], axis=1).ravel()
    waited = np.cumsum(waits.time_ns[order])
    before = np.stack([waited - waits.time_ns[order], waited], axis=1).ravel()
    if not len(edges):
        return alone
    return alone.standing(np.diff(np.interp(alone.moments, edges, before)))


def retimed(trace: Trace, clock: Clock) -> Trace:
    """A trace at the times that a clock shows."""
    tables = {name: _by(clock, trace.table(name)) for name in _TIMED}
    if clock.stands_in_delays:
        tables["ledger"] = _without_delays(trace.table("ledger"))
    return trace.with_tables(tables)


def lacks_costs(trace: Trace) -> bool:
    """Whether it is a recording that does not say what it cost."""
    return bool(trace.ledger) and not recording_costs(trace).of_one_ns


def _take_from(took: Amounts, event: Values, most_ns: int) -> None:
    """So much from the first stretches, as many as are of one event, where samples divide them."""
    others = np.flatnonzero(event != event[0])
    own = took[: others[0] if len(others) else len(took)]
    before = np.cumsum(own) - own
    own -= np.minimum(own, np.maximum(most_ns - before, 0))


def in_proportion(alone: Trace, trace: Trace, stood_ns: float = 0.0) -> tuple[Trace, float]:
    """``trace`` at other times, drawn out to what it took: what other views show shares of.

    Also by how much.

    Args:
        alone: the same events at other times.
        trace: as it was recorded.
        stood_ns: so much more it would have taken at those times, in none of its events.
    """
    (first, last), recorded = wall_bounds(alone), wall_bounds(trace)
    took = max(last - first, 1)
    stretch = (recorded[1] - recorded[0]) / (took + stood_ns)
    clock = Clock(np.array([first, first + took]), np.array([stretch * took]))
    tables = {name: _by(clock, alone.table(name)) for name in _TIMED}
    return alone.with_tables(tables), stretch


def _main(trace: Trace, segments: Segments) -> int:
    """The row of the main thread."""
    number = main_thread(trace)
    return int(segments.rows_of(np.array([number]))[0]) if number >= 0 else 0


def _is_opening(trace: Trace, event: int) -> bool:
    """Whether it is a function that ran when the window opened: it began by waiting for that."""
    first = int(trace.events["start_ns"].min())
    if event < 0 or not python_events(trace)[event] or trace.metadata.get("start_ns") != first:
        return False
    return bool(trace.events["start_ns"][event] == first)


def _opened_it(trace: Trace, event: int) -> bool:
    """Whether it is a function that ran from first to last: the last that it did was to stop."""
    events = trace.events
    if event < 0 or not python_events(trace)[event]:
        return False
    is_first = events["start_ns"][event] == events["start_ns"].min()
    return bool(is_first and events["unfinished"][event])


def _without_delays(ledger: Table) -> Table:
    """Without what the thread waited for a processor: its times hold that no more."""
    return ledger.take(np.flatnonzero(ledger["source"] != processor_rows.SOURCE))


def _by(clock: Clock, table: Table) -> Table:
    if table.schema.name not in _SPANS:
        return table.replaced({"time_ns": clock.at(table["time_ns"])}) if len(table) else table
    start = clock.at(table["start_ns"])
    ends = clock.at(table["start_ns"] + np.maximum(table["duration_ns"], 0))
    took = np.where(table["duration_ns"] < 0, table["duration_ns"], ends - start)
    return table.replaced({"start_ns": start, "duration_ns": took})
