"""Transfers that backends record on their threads, matched to collective calls."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.analysis.collectives.calls import NONE, POINT_TO_POINT
from opscope.columns.schema import Role
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Values

Texts = npt.NDArray[Any]

_SPANS = re.compile(r"(?:gloo|mpi|ucc):(\w+)")
"""Names of spans in which backends on the CPU send data between ranks."""

_SPAN_OF = {
    "allreduce": "all_reduce", "allreduce_coalesced": "all_reduce", "broadcast": "broadcast",
    "reduce": "reduce", "all_gather": "all_gather", "_allgather_base": "all_gather",
    "allgather_coalesced": "all_gather", "allgather_into_tensor_coalesced": "all_gather",
    "reduce_scatter": "reduce_scatter", "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter", "gather": "gather", "scatter": "scatter",
    "all_to_all": "all_to_all", "barrier": "barrier", "send": "send", "recv": "recv",
}  # fmt: skip
"""Name of the span by name of the call."""

_CALLER = -2  # group number of spans on the calling thread
_SAME_SPAN = {"recvAnySource": "recv", "sparse_all_reduce": "all_reduce"}
_INSTEAD = {"reduce_scatter": "all_reduce"}
"""Operation that a backend, such as gloo, does instead; the span has its name."""


@dataclass(frozen=True, eq=False)
class CalledFor:
    """Collective calls of a process, in order. Arrays have shape (calls,)."""

    begin_ns: Values  # begin, Unix nanoseconds
    group: Values  # number of the process group
    names: Sequence[str]  # names, as in ``allreduce``
    elements: Values  # elements sent and received, ``NONE`` if unknown. Shape (calls, 2)


def fill_in_spans(trace: TraceData, called: CalledFor, start: Values, end: Values) -> int:
    """Write begin and end of each call's transfer into ``start`` and ``end``.

    Calls that have a time keep it. Returns the number of spans without a call.
    """
    spans = _spans(trace)
    if spans is None:
        return 0
    titles = set(spans.title.tolist())
    span_names = np.array([_span_of(name, titles) for name in called.names], np.str_)
    # Messages run on the calling thread, collectives on a thread of their group.
    side = np.where(np.isin(span_names, POINT_TO_POINT), _CALLER, called.group)
    of_thread = _groups_of_threads(spans, called, span_names)
    group_of_span = np.where(np.isin(spans.title, POINT_TO_POINT), _CALLER, of_thread)
    has_call = np.zeros(len(group_of_span), dtype=np.bool_)
    for what, number in sorted(set(zip(span_names.tolist(), side.tolist(), strict=True))):
        calls = np.flatnonzero((span_names == what) & (side == number) & (start == NONE))
        rows = np.flatnonzero((spans.title == what) & (group_of_span == number))
        call, row = _pair_in_order(called.begin_ns[calls], spans.begin_ns[rows])
        start[calls[call]], end[calls[call]] = spans.begin_ns[rows[row]], spans.end_ns[rows[row]]
        has_call[rows[row]] = True
    return int((~has_call).sum())


@dataclass(frozen=True, eq=False)
class _Spans:
    """Spans of backends. Arrays have shape (spans,). ``elements`` is the number of elements of
    their tensors, ``NONE`` if unknown."""

    title: Texts
    begin_ns: Values
    end_ns: Values
    thread: Values
    elements: Values


def _spans(trace: TraceData) -> _Spans | None:
    """Spans of backends in a trace; None without any."""
    titles = {row: _SPANS.match(name) for row, name in enumerate(trace.names)}
    span_names = {row: _SAME_SPAN.get(one[1], one[1]) for row, one in titles.items() if one}
    events = trace.events
    rows = np.flatnonzero(np.isin(events["name"], list(span_names)))
    if not len(rows):
        return None
    begin = events["start_ns"][rows].astype(np.int64)
    return _Spans(
        np.array([span_names[name] for name in events["name"][rows].tolist()]),
        begin,
        begin + events["duration_ns"][rows],
        events["thread"][rows].astype(np.int64),
        _elements(trace, rows),
    )


def _elements(trace: TraceData, events: Values) -> Values:
    """Number of elements of each event's input tensors; ``NONE`` if none was recorded."""
    tensors = trace.table("tensors")
    elements = np.full(len(events), NONE, dtype=np.int64)
    place = np.searchsorted(events, tensors["event"]).clip(0, len(events) - 1)
    is_input = np.isin(tensors["role"], (Role.INPUT, Role.INPUT_PART))
    own = np.flatnonzero((events[place] == tensors["event"]) & is_input)
    sizes = tensors.lists("sizes")
    for row, span in zip(own.tolist(), place[own].tolist(), strict=True):
        count = int(np.prod(sizes[row], dtype=np.int64))
        elements[span] = count + max(int(elements[span]), 0)
    return elements


def _span_of(name: str, titles: Collection[str]) -> str:
    """Name of the span of a call, in a trace with spans of these titles."""
    title = _SPAN_OF.get(name, name)
    return title if title in titles else _INSTEAD.get(title, title)


def _groups_of_threads(spans: _Spans, called: CalledFor, span_names: Texts) -> Values:
    """Group of each span's thread: the one that most often made the last matching call before.

    A group that always calls just before another one with equal calls is never the last: its calls
    count as without a transfer.
    """
    threads, thread = np.unique(spans.thread, return_inverse=True)
    groups = int(called.group.max(initial=0)) + 1
    votes = np.zeros((len(threads), groups), dtype=np.int64)
    for rows, calls in _alike(spans, called, span_names):
        place = np.searchsorted(called.begin_ns[calls], spans.begin_ns[rows], side="right") - 1
        np.add.at(votes, (thread[rows[place >= 0]], called.group[calls[place[place >= 0]]]), 1)
    group_of_thread = np.where(votes.any(axis=1), votes.argmax(axis=1), NONE)
    return np.asarray(group_of_thread[thread], dtype=np.int64)


def _alike(spans: _Spans, called: CalledFor, span_names: Texts) -> Iterator[tuple[Values, Values]]:
    """Spans with the calls that may have caused them: same name, and same elements if known."""
    for what, elements in set(zip(spans.title.tolist(), spans.elements.tolist(), strict=True)):
        rows = np.flatnonzero((spans.title == what) & (spans.elements == elements))
        calls = np.flatnonzero(span_names == what)
        alike = calls[(called.elements[calls] == elements).any(axis=1)]
        yield rows, alike if elements != NONE and len(alike) else calls


def _pair_in_order(calls: Values, spans: Values) -> tuple[Values, Values]:
    """Positions of calls and their spans, both in order; a span belongs to the first free call."""
    matches: list[tuple[int, int]] = []
    next_call = 0
    for place, moment in enumerate(spans.tolist()):
        if next_call < len(calls) and calls[next_call] <= moment:
            matches.append((next_call, place))
            next_call += 1
    pairs = np.array(matches, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
