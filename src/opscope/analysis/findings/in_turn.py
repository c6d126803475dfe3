"""A recording as if the host waited for everything that it launches, and for nothing later.

On a GPU an operator returns when its work is launched, and whoever asks for the result first waits
for all of it. Here each takes what its work takes, so that what operators cost can be compared, be
it on the host or on the device. What of that holds the program up only a replay tells.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from opscope.analysis.critical_path.graph import WAITED_FOR, WaitGraph
from opscope.analysis.device_time import launched_work
from opscope.analysis.findings.unrecorded import Clock, retimed
from opscope.trace.trace import Trace

Values = npt.NDArray[np.int64]
Spans = tuple[Values, Values]
"""Starts and ends, Unix nanoseconds."""


def in_turn(trace: Trace, graph: WaitGraph, alone: Clock | None) -> Trace:
    """The same trace at such times.

    Args:
        trace: with devices.
        graph: what waited for what in it.
        alone: the time of its program alone, at moments of the recording; None for the recording's.
    """
    rows, launched_ns, took_ns = _work(trace)
    begin, end = _waits_for_devices(graph)
    events = trace.events
    whole = (events["start_ns"], events["start_ns"] + np.maximum(events["duration_ns"], 0))
    bounds = [int(whole[0].min()), int(whole[1].max())]
    edges = np.unique(np.concatenate([bounds, begin, end, launched_ns, launched_ns + 1]))
    moments = edges if alone is None else np.unique(np.concatenate([edges, alone.moments]))
    length = np.diff(moments if alone is None else alone.at(moments)).astype(np.float64)
    length[_inside(moments[:-1], begin, end)] = 0
    np.add.at(length, np.searchsorted(moments, launched_ns), took_ns)
    clock = Clock(moments, length, alone is not None and alone.stands_in_delays)
    timed = retimed(trace, clock)
    start, took = (timed.table("gpu")[name].copy() for name in ("start_ns", "duration_ns"))
    start[rows], took[rows] = clock.at(launched_ns), trace.table("gpu")["duration_ns"][rows]
    gpu = timed.table("gpu").replaced({"start_ns": start, "duration_ns": took})
    return timed.with_tables({"gpu": gpu})


def _work(trace: Trace) -> tuple[Values, Values, Values]:
    """Rows of work in ``gpu``, when it was launched, and what it took beyond the call that did.

    Copies from pageable memory are over when that returns.
    """
    gpu, events = trace.table("gpu"), trace.events
    rows = launched_work(trace)
    call = gpu["launch"][rows]
    begun = events["start_ns"][call]
    launched = begun + np.maximum(events["duration_ns"][call], 0)
    start, took = gpu["start_ns"][rows], gpu["duration_ns"][rows]
    during = np.minimum(launched, start + took) - np.maximum(begun, start)
    return rows, launched, took - np.maximum(during, 0)


def _waits_for_devices(graph: WaitGraph) -> Spans:
    """When the program did nothing but wait for a device, by itself or in a thread it waited for.

    Its backward pass is in a thread of its own where there is a device.
    """
    main = int(np.argmax(np.bincount(graph.thread[graph.is_program & (graph.gpu < 0)])))
    waits: list[Spans] = []
    for_threads: Spans | None = None
    threads = np.unique(graph.thread[graph.gpu < 0]).tolist()
    for thread in sorted(threads, key=lambda one: one != main):
        rows = np.flatnonzero((graph.gpu < 0) & (graph.thread == thread))
        awaited = graph.before[rows, WAITED_FOR]
        ended = (awaited >= 0) & (graph.duration_ns[rows] == 0)
        end = graph.start_ns[rows]
        begin = np.append(end[:1], end[:-1] + graph.duration_ns[rows[:-1]])
        of_device = ended & (np.append(graph.gpu, -1)[awaited] >= 0)
        spans = begin[of_device], end[of_device]
        if thread == main:
            for_threads = begin[ended & ~of_device], end[ended & ~of_device]
            waits.append(spans)
        elif for_threads is not None:
            waits.append(_in_both(spans, for_threads))
    begins, ends = (np.concatenate(parts) for parts in zip(*waits, strict=True))
    return begins, ends


def _in_both(first: Spans, second: Spans) -> Spans:
    """The time that is in one of some spans and in one of others."""
    edges = np.unique(np.concatenate([*first, *second]))
    common = _inside(edges, *first) & _inside(edges, *second)
    rows = np.flatnonzero(common)
    return edges[rows], edges[rows + 1]


def _inside(moments: Values, begin: Values, end: Values) -> npt.NDArray[np.bool_]:
    """Which moments are in one of some spans."""
    begun = np.searchsorted(np.sort(begin), moments, side="right")
    ended = np.searchsorted(np.sort(end), moments, side="right")
    return np.asarray(begun > ended)
