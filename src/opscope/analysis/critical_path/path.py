"""The longest chain of dependent work, and the slack of everything else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import opscope._native as _native
from opscope.analysis.critical_path.graph import WaitGraph, wait_graph
from opscope.base.quantity_text import share_text, time_text
from opscope.base.reused_memory import reusing_memory
from opscope.base.shown_result import ShownResult
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Flags, Rows, Values
from opscope.timeline.period import Period, Which, period_of
from opscope.timeline.signatures import group_sums
from opscope.timeline.tree.frame_text import own_texts

NOT_IN_GRAPH = -1
_MOST_NAMES = 12
_NOTHING = "(nothing recorded)"


@dataclass(frozen=True, eq=False)
class CriticalPath(ShownResult):
    """Critical path of a period: only changes on it make the period shorter.

    Arrays have shape (stretches,) unless noted. Stretches are in order; their sum is ``length_ns``.

    Attributes:
        event: span, row in ``events``; for device work the launching call; -1 none.
        gpu: row in ``gpu``, -1 if it is no device work.
        thread: row in ``threads``.
        start_ns: Unix nanoseconds.
        time_ns: duration, with the delay before it.
        slack_ns: how much longer every event could take without delaying the end; -1 for events
            outside the graph. Shape (events,).
        threads: names of threads, then of streams of devices.
        names: displayed names of events, by row in ``events``.
        device_names: displayed names of device work, by row in ``gpu``.
        wall_ns: length of the period.
    """

    event: Values
    gpu: Values
    thread: Values
    start_ns: Values
    time_ns: Values
    slack_ns: Values
    threads: tuple[str, ...]
    names: tuple[Rows, tuple[str, ...]]
    device_names: tuple[Rows, tuple[str, ...]]
    length_ns: int
    wall_ns: int

    def by_name(self) -> list[tuple[str, int]]:
        """Time on the path by name, largest first."""
        (labels, texts), (works, kernels) = self.names, self.device_names
        of_span = np.where(self.event >= 0, np.append(labels, 0)[self.event], len(texts))
        of_work = len(texts) + 1 + np.append(works, 0)[self.gpu].astype(np.int64)
        named = (*texts, _NOTHING, *kernels)
        row = np.where(self.gpu >= 0, of_work, of_span)
        time = group_sums(self.time_ns, row, len(named))
        order = np.argsort(-time, kind="stable")
        return [(named[one], int(time[one])) for one in order.tolist() if time[one] > 0]

    def by_thread(self) -> list[tuple[str, int]]:
        """Time on the path by thread and stream, largest first."""
        time = np.bincount(self.thread, weights=self.time_ns, minlength=len(self.threads))
        order = np.argsort(-time, kind="stable").tolist()
        return [(self.threads[one], int(time[one])) for one in order if time[one] > 0]

    def as_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        return {
            "length_ns": self.length_ns,
            "wall_ns": self.wall_ns,
            "threads": [{"name": name, "time_ns": time} for name, time in self.by_thread()],
            "names": [{"name": name, "time_ns": time} for name, time in self.by_name()],
        }

    def __repr__(self) -> str:
        rows = "".join(
            f"\n  {share_text(time / max(self.length_ns, 1)):>6}  {time_text(time):>8}  {name}"
            for name, time in self.by_name()[:_MOST_NAMES]
        )
        return f"<CriticalPath of {time_text(self.length_ns)}{rows}>"


@reusing_memory
def find_critical_path(trace: TraceData, which: Which | str = Which.STEADY) -> CriticalPath:
    """The critical path of a period."""
    period = period_of(trace, which)
    graph = wait_graph(period)
    end, binding = graph.ends_with(graph.duration_ns)
    rows = _chain(end, binding, graph.is_program)
    times = np.diff(end[rows], prepend=graph.start_of_time_ns)
    label, texts = own_texts(trace)
    return CriticalPath(
        event=period.in_recording(graph.event[rows]),
        gpu=graph.gpu[rows],
        thread=graph.thread[rows],
        start_ns=end[rows] - times,
        time_ns=times,
        slack_ns=_slack(graph, end, period, len(trace.events)),
        threads=graph.threads,
        names=(label, tuple(texts)),
        device_names=_names_of_work(period.trace),
        length_ns=int(times.sum()),
        wall_ns=graph.wall_ns,
    )


def _names_of_work(trace: TraceData) -> tuple[Rows, tuple[str, ...]]:
    used, label = np.unique(trace.table("gpu")["name"], return_inverse=True)
    return label.astype(np.int32).reshape(-1), tuple(trace.names[one] for one in used.tolist())


def _chain(end: Values, binding: Values, is_program: Flags) -> Values:
    """Chain from the last end back along binding predecessors; rows in order of time."""
    rows, before = [], binding.tolist()
    row = int(np.argmax(2 * (end - end.min()) + is_program)) if len(end) else -1
    while row >= 0:
        rows.append(row)
        row = before[row]
    return np.array(rows[::-1], dtype=np.int64)


def _slack(graph: WaitGraph, end: Values, period: Period, events: int) -> Values:
    """Least slack of each event's nodes on threads. Shape (events,)."""
    last = int(end.max(initial=graph.start_of_time_ns))
    latest = _native.latest_ends(graph.before, graph.delay_ns, graph.duration_ns, last)
    rows = np.flatnonzero((graph.event >= 0) & (graph.gpu < 0))
    largest = np.iinfo(np.int64).max
    slack = np.full(events, largest, dtype=np.int64)
    np.minimum.at(slack, period.in_recording(graph.event[rows]), (latest - end)[rows])
    return np.where(slack == largest, NOT_IN_GRAPH, slack)
