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
"""What backends that run on the processor call the spans in which data goes from rank to rank."""

_SPAN_OF = {
    "allreduce": "all_reduce", "allreduce_coalesced": "all_reduce", "broadcast": "broadcast",
    "reduce": "reduce", "all_gather": "all_gather", "_allgather_base": "all_gather",
    "allgather_coalesced": "all_gather", "allgather_into_tensor_coalesced": "all_gather",
    "reduce_scatter": "reduce_scatter", "_reduce_scatter_base": "reduce_scatter",
    "reduce_scatter_tensor_coalesced": "reduce_scatter", "gather": "gather", "scatter": "scatter",
    "all_to_all": "all_to_all", "barrier": "barrier", "send": "send", "recv": "recv",
}  # fmt: skip
"""The span's name by the call's."""

_CALLER = -2
"""In place of a group, where spans are on the thread that called."""

_SAME_SPAN = {"recvAnySource": "recv", "sparse_all_reduce": "all_reduce"}
_INSTEAD = {"reduce_scatter": "all_reduce"}
"""What a backend may do instead, as gloo does: the span has that name then."""


@dataclass(frozen=True, eq=False)
class CalledFor:
    """What a process called for, in order. Arrays have shape (calls,)."""

    begin_ns: Values  # when
    group: Values  # a number for the process group
    names: Sequence[str]  # as in ``allreduce``
    # how many it gives and how many it gets, ``NONE`` where that is not known. Shape (calls, 2)
    elements: Values


def fill_in_spans(trace: TraceData, called: CalledFor, start: Values, end: Values) -> int:
    """Write when the transfer of each call began and ended into ``start`` and ``end``.

    Calls that have a time keep it. Returns how many spans no call began.
    """
    spans = _spans(trace)
    if spans is None:
        return 0
    titles = set(spans.title.tolist())
    wanted = np.array([_span_of(name, titles) for name in called.names], np.str_)
    # Messages go on the thread that calls, collectives on one of their group.
    side = np.where(np.isin(wanted, POINT_TO_POINT), _CALLER, called.group)
    of_thread = _groups_of_threads(spans, called, wanted)
    of = np.where(np.isin(spans.title, POINT_TO_POINT), _CALLER, of_thread)
    is_taken = np.zeros(len(of), dtype=np.bool_)
    for what, number in sorted(set(zip(wanted.tolist(), side.tolist(), strict=True))):
        calls = np.flatnonzero((wanted == what) & (side == number) & (start == NONE))
        rows = np.flatnonzero((spans.title == what) & (of == number))
        call, row = _in_turn(called.begin_ns[calls], spans.begin_ns[rows])
        start[calls[call]], end[calls[call]] = spans.begin_ns[rows[row]], spans.end_ns[rows[row]]
        is_taken[rows[row]] = True
    return int((~is_taken).sum())


@dataclass(frozen=True, eq=False)
class _Spans:
    """Arrays have shape (spans,). ``elements`` is how many their tensors have, ``NONE`` where that
    was not recorded."""

    title: Texts
    begin_ns: Values
    end_ns: Values
    thread: Values
    elements: Values


def _spans(trace: TraceData) -> _Spans | None:
    """Those that there are; None for none."""
    titles = {row: _SPANS.match(name) for row, name in enumerate(trace.names)}
    known = {row: _SAME_SPAN.get(one[1], one[1]) for row, one in titles.items() if one}
    events = trace.events
    rows = np.flatnonzero(np.isin(events["name"], list(known)))
    if not len(rows):
        return None
    begin = events["start_ns"][rows].astype(np.int64)
    return _Spans(
        np.array([known[name] for name in events["name"][rows].tolist()]),
        begin,
        begin + events["duration_ns"][rows],
        events["thread"][rows].astype(np.int64),
        _elements(trace, rows),
    )


def _elements(trace: TraceData, events: Values) -> Values:
    """How many elements the tensors of each have together; ``NONE`` where none was recorded."""
    tensors = trace.table("tensors")
    found = np.full(len(events), NONE, dtype=np.int64)
    place = np.searchsorted(events, tensors["event"]).clip(0, len(events) - 1)
    is_input = np.isin(tensors["role"], (Role.INPUT, Role.INPUT_PART))
    own = np.flatnonzero((events[place] == tensors["event"]) & is_input)
    sizes = tensors.lists("sizes")
    for row, span in zip(own.tolist(), place[own].tolist(), strict=True):
        count = int(np.prod(sizes[row], dtype=np.int64))
        found[span] = count + max(int(found[span]), 0)
    return found


def _span_of(name: str, titles: Collection[str]) -> str:
    """What the span of a call is called, in a trace that has spans of such titles."""
    title = _SPAN_OF.get(name, name)
    return title if title in titles else _INSTEAD.get(title, title)


def _groups_of_threads(spans: _Spans, called: CalledFor, wanted: Texts) -> Values:
    """Whose thread each span ran on: the group that mostly was the last to call for what the thread
    then did.

    A group whose calls mostly come just before like ones of as many elements of another group is
    never the last: its calls are counted as without a transfer.
    """
    threads, thread = np.unique(spans.thread, return_inverse=True)
    groups = int(called.group.max(initial=0)) + 1
    votes = np.zeros((len(threads), groups), dtype=np.int64)
    for rows, calls in _alike(spans, called, wanted):
        place = np.searchsorted(called.begin_ns[calls], spans.begin_ns[rows], side="right") - 1
        np.add.at(votes, (thread[rows[place >= 0]], called.group[calls[place[place >= 0]]]), 1)
    of = np.where(votes.any(axis=1), votes.argmax(axis=1), NONE)
    return np.asarray(of[thread], dtype=np.int64)


def _alike(spans: _Spans, called: CalledFor, wanted: Texts) -> Iterator[tuple[Values, Values]]:
    """Spans with the calls that they may come of: for the same, of as many elements where that is
    known and any call is for so many."""
    for what, elements in set(zip(spans.title.tolist(), spans.elements.tolist(), strict=True)):
        rows = np.flatnonzero((spans.title == what) & (spans.elements == elements))
        calls = np.flatnonzero(wanted == what)
        alike = calls[(called.elements[calls] == elements).any(axis=1)]
        yield rows, alike if elements != NONE and len(alike) else calls


def _in_turn(calls: Values, spans: Values) -> tuple[Values, Values]:
    """Positions of calls and of the spans that came of them, both in order of beginning: each span
    is of the first call before it that has none."""
    taken: list[tuple[int, int]] = []
    next_call = 0
    for place, moment in enumerate(spans.tolist()):
        if next_call < len(calls) and calls[next_call] <= moment:
            taken.append((next_call, place))
            next_call += 1
    pairs = np.array(taken, dtype=np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]
