"""Links between events: forward to backward, and other arrows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.columns.codes import LinkKind
from opscope.columns.schema import EventKind, RecordScope
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Flags, Values
from opscope.timeline.tree.event_tree import numbers_of_threads


@dataclass(frozen=True)
class Links:
    """Arrows between events, for each kind in order of their targets."""

    source: Values  # begins, such as forward operators, shape (links,)
    target: Values  # ends, such as the backward operator of each source, shape (links,)

    def __len__(self) -> int:
        return len(self.source)


def forward_backward_links(trace: TraceData) -> Links:
    """Forward→backward arrows, from the ``links`` table if it has any, else by sequence number.

    torch gives a forward operator and the backward node it creates the same sequence number. Nested
    operators share a number: the innermost, which started last, made the node. A node that runs
    twice (``retain_graph``) is linked the first time only. Metadata (``left_out``) may exclude all.
    """
    if "forward_backward" in trace.metadata.get("left_out", ()):
        return Links(np.zeros(0, np.int64), np.zeros(0, np.int64))
    return _given(trace, LinkKind.FORWARD_BACKWARD) or _by_sequence_number(trace)


def rank_links(trace: TraceData) -> Links:
    """Links of collectives in a trace of several ranks: from waiting to awaited rank."""
    return _given(trace, LinkKind.COLLECTIVE)


def _given(trace: TraceData, kind: LinkKind) -> Links:
    table = trace.table("links")
    rows = np.flatnonzero(table["kind"] == kind)
    rows = rows[np.argsort(table["target"][rows], kind="stable")]
    return Links(_rows(table["source"][rows]), _rows(table["target"][rows]))


def arrows(trace: TraceData) -> Links:
    """All arrows, forward to backward first."""
    both = forward_backward_links(trace), rank_links(trace)
    return Links(
        np.concatenate([one.source for one in both]), np.concatenate([one.target for one in both])
    )


def thread_numbers(trace: TraceData) -> Values:
    """torch's thread id of every event, as in ``forward_thread``. Shape (events,)."""
    numbers: Values = numbers_of_threads(trace)[trace.events["thread"]]
    return numbers


def _by_sequence_number(trace: TraceData) -> Links:
    rows, is_backward = _numbered(trace)
    thread = thread_numbers(trace)[rows]
    thread = np.where(is_backward, trace.events["forward_thread"][rows], thread)
    number = trace.events["sequence_number"][rows]
    order = np.lexsort((rows, number, thread))
    same = (np.diff(thread[order]) == 0) & (np.diff(number[order]) == 0)
    # Consecutive events with one number: a forward operator and its backward node.
    hit = np.flatnonzero(same & is_backward[order][1:] & ~is_backward[order][:-1])
    source, target = rows[order[hit]], rows[order[hit + 1]]
    by_target = np.argsort(target)
    return Links(_rows(source[by_target]), _rows(target[by_target]))


def _numbered(trace: TraceData) -> tuple[Values, Flags]:
    """Backward operators and forward ones with the same numbers; whether each is backward.

    Most programs number far more operators than backward passes reach, and sorting them all would
    take longer than all other work on links.
    """
    events = trace.events
    is_backward = events["scope"] == RecordScope.BACKWARD_FUNCTION
    is_backward &= events["forward_thread"] > 0
    backward = np.flatnonzero(is_backward & (events["sequence_number"] >= 0))
    if not backward.size:
        return np.zeros(0, np.int64), np.zeros(0, np.bool_)
    wanted = np.isin(events["sequence_number"], events["sequence_number"][backward])
    wanted &= (events["scope"] == RecordScope.FUNCTION) & (events["forward_thread"] == 0)
    wanted &= events["kind"] == EventKind.OPERATOR
    wanted[backward] = True
    rows = np.flatnonzero(wanted)
    return rows, is_backward[rows]


def _rows(values: npt.NDArray[np.integer[Any]]) -> Values:
    return values.astype(np.int64)
