"""Requests of a server: durations, and causes of typical and slowest ones.

A request is a span of :class:`opscope.serve.MarkRequests`. With recorded asyncio tasks it has one
span per run of its task, and the event loop's other runs are known.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from opscope.base.printable import printable
from opscope.base.quantity_text import share_text, time_text
from opscope.base.shown_result import ShownResult
from opscope.columns.names import REQUEST_PREFIX
from opscope.columns.row_groups import group_rows
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Flags, Values
from opscope.timeline.signatures import group_sums
from opscope.timeline.stretches import union_of
from opscope.timeline.tree.event_tree import event_tree, events_named, nearest_ancestor
from opscope.timeline.tree.line_nesting import own_times

_BLOCKED_NS = 10_000_000
"""A longer run of a task blocks its loop, as in the finding event-loop-blocked."""


@dataclass(frozen=True)
class Split:
    """Mean times of some requests, in nanoseconds; the parts sum to ``total_ns``.

    Attributes:
        total_ns: from arrival to the end of the answer.
        operators_ns: in torch's operators, on the event loop's thread.
        python_ns: in other code of the request on that thread.
        blocked_ns: waiting while another task ran for 10 ms or more.
        queued_ns: waiting while other tasks ran, each for less than that.
        waiting_ns: waiting while the loop ran nothing: for input, timers or other threads.
    """

    total_ns: int
    operators_ns: int
    python_ns: int
    blocked_ns: int
    queued_ns: int
    waiting_ns: int

    def __str__(self) -> str:
        names = {
            "operators_ns": "operators",
            "python_ns": "other code",
            "blocked_ns": "event loop blocked",
            "queued_ns": "queued behind other tasks",
            "waiting_ns": "waiting for input, timers or threads",
        }
        shares = sorted(((getattr(self, key), name) for key, name in names.items()), reverse=True)
        whole = max(self.total_ns, 1)
        return ", ".join(f"{name} {share_text(ns / whole)}" for ns, name in shares if ns)


@dataclass(frozen=True)
class Requests(ShownResult):
    """Requests of the whole recording; of requests that cross its begin or end, the part inside.

    Attributes:
        count: number of requests.
        p50_ns: median duration.
        p99_ns: 99th percentile of the duration.
        typical: time of the 10 % around the median, by cause.
        slowest: time of the slowest 1 % (at least one), by cause.
        slowest_name: name of the slowest request.
    """

    count: int
    p50_ns: int
    p99_ns: int
    typical: Split
    slowest: Split
    slowest_name: str

    def lines(self) -> list[str]:
        """Text lines."""
        return [
            f"requests: {self.count:,}, median {time_text(self.p50_ns)}, 99 % within "
            f"{time_text(self.p99_ns)}",
            f"a typical request: {self.typical}",
            f"the slowest, such as {printable(self.slowest_name)}, "
            f"{time_text(self.slowest.total_ns)}: {self.slowest}",
        ]

    def as_dict(self) -> dict[str, object]:
        """Values for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class RequestSpans:
    """One row per request. Arrays have shape (requests,) except ``rows`` and ``group``."""

    rows: Values  # spans of requests, rows of events, shape (spans,)
    group: Values  # request of each span, shape (spans,)
    event: Values  # first span of each
    start_ns: Values
    end_ns: Values
    run: Values  # task run around each event, -1 for none, shape (events,)

    def __len__(self) -> int:
        return len(self.event)


def rows_of_requests(trace: TraceData) -> Values:
    """Spans of requests, rows of events."""
    is_request = events_named(trace, lambda name: name.startswith(REQUEST_PREFIX))
    return np.flatnonzero(is_request & (trace.events["kind"] == EventKind.ANNOTATION))


def request_spans(trace: TraceData) -> RequestSpans:
    """Requests of a recording, each from its first span to its last."""
    events, tree, rows = trace.events, event_tree(trace), rows_of_requests(trace)
    run = nearest_ancestor(tree.parent, _is_run(trace)).astype(np.int64)
    # A request has a task of its own; outside tasks each span is one request.
    key = np.where(run[rows] >= 0, _tasks(trace)[run[rows]], -1 - rows)
    group = group_rows(key, events["name"][rows].astype(np.int64))
    first = np.full(len(group), np.iinfo(np.int64).max)
    last = np.zeros(len(group), dtype=np.int64)
    np.minimum.at(first, group.group, tree.start_ns[rows])
    np.maximum.at(last, group.group, tree.start_ns[rows] + tree.duration_ns[rows])
    return RequestSpans(rows, group.group, rows[group.first], first, last, run)


def find_requests(trace: TraceData) -> Requests | None:
    """Requests of a recording; None if none was marked."""
    spans = request_spans(trace)
    count, total = len(spans), spans.end_ns - spans.start_ns
    if not count:
        return None
    parts = _parts(trace, spans, total)
    order = np.argsort(total, kind="stable")
    lowest = int(0.45 * count)
    middle = order[lowest : max(int(0.55 * count), lowest + 1)]
    slow = order[min(int(0.99 * count), count - 1) :]
    return Requests(
        count=count,
        p50_ns=int(total[order[count // 2]]),
        p99_ns=int(total[slow[0]]),
        typical=_split(parts, middle),
        slowest=_split(parts, slow),
        slowest_name=trace.event_name(int(spans.event[order[-1]])).removeprefix(REQUEST_PREFIX),
    )


def _parts(trace: TraceData, spans: RequestSpans, total: Values) -> Values:
    """Time of each request by part, in the order of :class:`Split`. Shape (6, requests)."""
    duration, rows, count = event_tree(trace).duration_ns, spans.rows, len(spans)
    running = group_sums(duration[rows], spans.group, count)
    operators = _operators(trace, rows, spans.group, count)
    outermost = _is_run(trace) & (spans.run < 0)
    is_long = duration >= _BLOCKED_NS
    in_long = (spans.run[rows] >= 0) & is_long[spans.run[rows]]
    own_blocking = group_sums(np.where(in_long, duration[rows], 0), spans.group, count)
    in_runs = _time_in(trace, outermost, spans)
    in_long_runs = _time_in(trace, outermost & is_long, spans)
    busy = np.clip(in_runs - running, 0, total - running)
    blocked = np.clip(in_long_runs - own_blocking, 0, busy)
    return np.stack(
        [total, operators, running - operators, blocked, busy - blocked, total - running - busy]
    )


def _is_run(trace: TraceData) -> Flags:
    return np.asarray(trace.events["kind"] == EventKind.TASK_RUN)


def _tasks(trace: TraceData) -> Values:
    """Task of each event that is a run, -1 for others. Shape (events,)."""
    runs = trace.table("task_runs")
    task = np.full(len(trace.events), -1, dtype=np.int64)
    task[runs["event"]] = runs["task"]
    return task


def _operators(trace: TraceData, rows: Values, group: Values, count: int) -> Values:
    """Time in operators inside each request. Shape (count,)."""
    tree, kind = event_tree(trace), trace.events["kind"]
    is_request: Flags = np.zeros(len(kind), dtype=np.bool_)
    is_request[rows] = True
    around = nearest_ancestor(tree.parent, is_request).astype(np.int64)
    inside = np.flatnonzero((kind == EventKind.OPERATOR) & (around >= 0))
    group_of = np.zeros(len(kind), dtype=np.int64)
    group_of[rows] = group
    return group_sums(own_times(trace)[inside], group_of[around[inside]], count)


def _time_in(trace: TraceData, runs: Flags, spans: RequestSpans) -> Values:
    """Time of these runs of its event loop during each request. Shape (requests,)."""
    tree, thread = event_tree(trace), trace.events["thread"]
    own_thread = thread[spans.event]
    found = np.zeros(len(spans), dtype=np.int64)
    for number in np.unique(own_thread):
        mine, rows = own_thread == number, np.flatnonzero(runs & (thread == number))
        start = tree.start_ns[rows]
        loop = union_of(start, start + tree.duration_ns[rows])
        found[mine] = loop.covered(spans.start_ns[mine], spans.end_ns[mine])
    return found


def _split(parts: Values, chosen: Values) -> Split:
    return Split(*(int(part[chosen].mean()) for part in parts))
