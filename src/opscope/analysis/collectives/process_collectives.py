"""Collectives that one process called, each with its transfer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.analysis.account.device_rows import causes_of_device_work
from opscope.analysis.account.process_waits import waits_for_ranks
from opscope.analysis.collectives.backend_spans import CalledFor, fill_in_spans
from opscope.analysis.collectives.calls import (
    MOST_RANKS,
    NONE,
    POINT_TO_POINT,
    Collective,
    find_collectives,
)
from opscope.columns.causes import Cause
from opscope.columns.codes import GpuKind
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Amounts, Flags, Values
from opscope.timeline.stretches import union_of
from opscope.timeline.tree.event_tree import nearest_ancestor

_LARGEST = 1 << 62

_BYTES = {
    "Double": 8, "Long": 8, "ComplexFloat": 8, "ComplexDouble": 16, "Float": 4, "Int": 4,
    "Half": 2, "BFloat16": 2, "Short": 2,
}  # fmt: skip


@dataclass(frozen=True, order=True)
class ProcessGroup:
    """Ranks that communicate with each other."""

    name: str  # torch's name, as in "0"; empty if unknown
    ranks: tuple[int, ...]  # global ranks, in the order of the group; empty if unknown

    def __str__(self) -> str:
        if not self.ranks:
            return "an unknown group"
        few = ", ".join(map(str, self.ranks[:4])) + (", …" if len(self.ranks) > 4 else "")
        return f"group {self.name or '?'} of {len(self.ranks)} ranks ({few})"


@dataclass(frozen=True, eq=False)
class ProcessCollectives:
    """Collective calls of a process, in order. Shapes (collectives,); times: Unix nanoseconds."""

    event: Values  # row of the call in ``events``
    group: Values  # row in ``groups``
    name: tuple[str, ...]  # names, as in ``allreduce``
    number: Values  # backend's number of the call in its group; ``NONE`` if unknown
    peer: Values  # rank sent to or received from; ``NONE`` for all
    root: Values  # rank that sends to all others or receives from them; ``NONE`` for none
    tag: Values  # tag of a message
    begin_ns: Values  # begin of the call
    returned_ns: Values  # end of the call
    start_ns: Values  # begin of its transfer; ``NONE`` if not recorded
    end_ns: Values  # end of its transfer
    sent_bytes: Values  # bytes that this process sends
    received_bytes: Values  # bytes that it receives
    exposed_ns: Values  # part of the transfer in which the program, or the device, did nothing else
    step: Values  # as in ``events``
    groups: tuple[ProcessGroup, ...]
    strays: int  # number of transfers without a recorded call

    @property
    def silent(self) -> int:
        """Number of calls without a recorded transfer."""
        return int((self.start_ns == NONE).sum())

    def __len__(self) -> int:
        return len(self.event)


def process_collectives(trace: TraceData, with_exposed: bool = True) -> ProcessCollectives:
    """Collective calls of a process, with the transfers that backends recorded.

    Sizes and groups need recorded arguments. ``exposed_ns`` is 0 without ``with_exposed`` (slow).
    """
    calls = find_collectives(trace)
    events = trace.events
    event = np.array([call.event for call in calls], dtype=np.int64)
    begin = events["start_ns"][event].astype(np.int64)
    returned = begin + events["duration_ns"][event]
    kind, kinds = _kinds(calls)
    only = _only_group(trace.metadata)
    of_kind = [_group_of(call, only) for call in kinds]
    groups = tuple(sorted(set(of_kind)))
    place = {one: row for row, one in enumerate(groups)}
    group = np.array([place[one] for one in of_kind], dtype=np.int64)[kind]
    titles = [str(call.attributes.get("collective_name", "")) for call in kinds]
    names = tuple(titles[row] for row in kind.tolist())
    number = _numbers(calls, begin, trace)
    launched = _calls_of_kernels(trace, event)
    start, end = (np.full(len(event), NONE, dtype=np.int64) for _ in range(2))
    strays = _from_kernels(trace, *launched, start, end)
    strays += fill_in_spans(
        trace, CalledFor(begin, group, names, _elements(kinds)[kind]), start, end
    )
    exposed = np.zeros(len(event), dtype=np.int64)
    if with_exposed:
        exposed = _exposed(trace, *launched, start, end)
    return ProcessCollectives(
        event=event,
        group=group,
        name=names,
        number=number,
        peer=_column(call.peer for call in calls),
        root=_column(call.root for call in calls),
        tag=_column(call.tag for call in calls),
        begin_ns=begin,
        returned_ns=returned,
        start_ns=start,
        end_ns=end,
        sent_bytes=_column(_bytes(call, "in") for call in kinds)[kind],
        received_bytes=_column(_bytes(call, "out") for call in kinds)[kind],
        exposed_ns=exposed,
        step=events["step"][event].astype(np.int64),
        groups=groups,
        strays=strays,
    )


def _kinds(calls: Sequence[Collective]) -> tuple[Values, list[Collective]]:
    """Kind of each call, and one call of each kind: few kinds, because most arguments are equal."""
    numbers: dict[int, int] = {}
    examples: list[Collective] = []
    kind = np.empty(len(calls), dtype=np.int64)
    for row, call in enumerate(calls):
        number = numbers.setdefault(id(call.attributes), len(examples))
        if number == len(examples):
            examples.append(call)
        kind[row] = number
    return kind, examples


def _elements(calls: Sequence[Collective]) -> Values:
    """Elements sent and received by each call; ``NONE`` if unknown. Shape (calls, 2)."""
    counts = [[call.attributes.get(f"{way}_msg_nelems") for way in ("in", "out")] for call in calls]
    known = (one if isinstance(one, int) else NONE for row in counts for one in row)
    return _column(known).reshape(-1, 2)


def _group_of(call: Collective, only: ProcessGroup | None) -> ProcessGroup:
    """Process group of a call; without arguments, the only group of the job if it has one."""
    name = str(call.attributes.get("pg_name", ""))
    if call.ranks:
        return ProcessGroup(name, tuple(call.ranks))
    if only is not None and not call.address and name in ("", only.name):
        return only
    return ProcessGroup(name or call.address, ())


def _only_group(about: Mapping[str, Any]) -> ProcessGroup | None:
    """Process group of a job that has only one, from opscope's metadata or torch.profiler's."""
    by_address, job = about.get("process_groups"), about.get("distributedInfo")
    job = job if isinstance(job, dict) else {}
    groups = list(by_address.values()) if isinstance(by_address, dict) else job.get("pg_config")
    if isinstance(groups, list) and len(groups) == 1 and isinstance(groups[0], dict):
        ranks = groups[0].get("ranks")
        name = str(groups[0].get("pg_name", ""))
        if isinstance(ranks, list) and ranks:
            return ProcessGroup(name, tuple(rank for rank in ranks if isinstance(rank, int)))
    size = job.get("world_size")
    if not by_address and not groups and job.get("pg_count") == 1 and isinstance(size, int):
        return ProcessGroup("0", tuple(range(min(max(size, 0), MOST_RANKS))))
    return None


def _bytes(call: Collective, way: str) -> int:
    count = call.attributes.get(f"{way}_msg_nelems")
    size = _BYTES.get(str(call.attributes.get("dtype", "")), 1)
    return size * count if isinstance(count, int) else 0


def _column(numbers: Iterable[int]) -> Values:
    """Column of numbers from a file, limited to what a column holds."""
    values = list(numbers)
    try:
        found = np.array(values, dtype=np.int64)
    except OverflowError:
        found = np.array([min(max(one, -_LARGEST), _LARGEST) for one in values], dtype=np.int64)
    return np.clip(found, -_LARGEST, _LARGEST)


def _numbers(calls: Sequence[Collective], begin: Values, trace: TraceData) -> Values:
    """Number of each call: its backend's, otherwise from the group's counts at some moments."""
    number = _column(call.sequence for call in calls)
    known = trace.metadata.get("process_groups")
    groups = known if isinstance(known, dict) else {}
    for address, about in groups.items():
        moments = _moments(about)
        rows = [
            row
            for row, call in enumerate(calls)
            if call.address == address or (len(groups) == 1 and _lacks_group(call))
        ]
        if rows and moments:
            is_shared = np.array([_is_shared(calls[row]) for row in rows])
            number[rows] = _count_numbers(begin[rows], is_shared, moments)
    return number


def _lacks_group(call: Collective) -> bool:
    """Whether the call's group is unknown, as without arguments; then it is the only group."""
    return not call.address and call.sequence < 0


def _moments(about: Any) -> list[list[int]]:
    """Valid pairs of time and count in the metadata of a group."""
    begun = about.get("begun") if isinstance(about, dict) else None
    return [
        pair
        for pair in (begun if isinstance(begun, list) else ())
        if isinstance(pair, list)
        and len(pair) == 2
        and all(type(one) is int and abs(one) <= _LARGEST for one in pair)
    ]


def _is_shared(call: Collective) -> bool:
    return call.attributes.get("collective_name") not in POINT_TO_POINT


def _count_numbers(begin: Values, is_shared: Flags, moments: Sequence[Sequence[int]]) -> Values:
    """Numbers of calls in order, from the group's counts at some moments.

    Messages between two ranks get no number; calls that were not recorded between moments count.
    """
    times = np.array([moment[0] for moment in moments], dtype=np.int64)
    counts = np.array([moment[1] for moment in moments], dtype=np.int64)
    before = np.searchsorted(begin, times, side="left")
    missing = np.maximum((counts - counts[0]) - (before - before[0]), 0)
    latest = np.maximum(np.searchsorted(times, begin, side="right") - 1, 0)
    shared = np.cumsum(is_shared)
    found: Values = counts[0] + shared - np.append(0, shared)[before[0]] + missing[latest]
    return np.where(is_shared, found, NONE)


def _from_kernels(
    trace: TraceData, kernels: Values, row: Values, start: Values, end: Values
) -> int:
    """Fill in times of kernels; returns the number of a backend's kernels without a call."""
    if not len(kernels):
        return 0
    gpu = trace.table("gpu")
    begins = gpu["start_ns"][kernels].astype(np.int64)
    has_call = row != NONE
    first = np.full(len(start), np.iinfo(np.int64).max)
    np.minimum.at(first, row[has_call], begins[has_call])
    np.maximum.at(end, row[has_call], (begins + gpu["duration_ns"][kernels])[has_call])
    found = first < np.iinfo(np.int64).max
    start[found] = first[found]
    return int(((causes_of_device_work(trace, kernels) == Cause.COLLECTIVE) & ~has_call).sum())


def _calls_of_kernels(trace: TraceData, event: Values) -> tuple[Values, Values]:
    """Rows of kernels in ``gpu``, and the call that launched each, whatever the kernel's name."""
    gpu = trace.table("gpu")
    if not len(gpu):
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    kernels = np.flatnonzero(gpu["kind"] == GpuKind.KERNEL)
    is_call = np.zeros(len(trace.events), dtype=np.bool_)
    is_call[event] = True
    above = nearest_ancestor(trace.events["parent"], is_call).astype(np.int64)
    launcher = np.append(np.where(is_call, np.arange(len(is_call)), above), NONE)
    row_of = np.full(len(trace.events) + 1, NONE, dtype=np.int64)
    row_of[event] = np.arange(len(event))
    return kernels, row_of[launcher[gpu["launch"][kernels].astype(np.int64)]]


def _exposed(trace: TraceData, kernels: Values, row: Values, start: Values, end: Values) -> Values:
    """Time of each transfer in which nothing else was done; shape as ``start``."""
    exposed = np.zeros(len(start), dtype=np.int64)
    recorded = np.flatnonzero(start != NONE)
    if not len(recorded):
        return exposed
    start, end = start[recorded], end[recorded]
    if len(trace.table("gpu")):
        kernels = kernels[
            (row == NONE) & (causes_of_device_work(trace, kernels) != Cause.COLLECTIVE)
        ]
        begins = trace.table("gpu")["start_ns"][kernels].astype(np.int64)
        computing = union_of(begins, begins + trace.table("gpu")["duration_ns"][kernels])
        exposed[recorded] = end - start - computing.covered(start, end)
    else:
        exposed[recorded] = _sum_within(*waits_for_ranks(trace), start, end)
    return exposed


def _sum_within(begins: Values, ends: Values, amount: Values, start: Values, end: Values) -> Values:
    """Sum between two moments of amounts, each spread evenly over a stretch."""
    if not len(begins):
        return np.zeros(len(start), dtype=np.int64)
    sums = np.append(0, np.cumsum(amount))
    length = np.maximum(ends - begins, 1)

    def until(moment: Values) -> Amounts:
        place = np.maximum(np.searchsorted(begins, moment, side="right") - 1, 0)
        share = np.clip((moment - begins[place]) / length[place], 0.0, 1.0)
        whole: Amounts = sums[place] + share * amount[place]
        return whole

    return np.round(until(end) - until(start)).astype(np.int64)
