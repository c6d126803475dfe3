"""Collectives of a job, with waiting times and the rank that caused them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from opscope.analysis.collectives.calls import (
    FROM_ALL,
    NONE,
    POINT_TO_POINT,
    TO_ALL,
    UNEVEN,
)
from opscope.analysis.collectives.process_collectives import (
    ProcessCollectives,
    ProcessGroup,
    process_collectives,
)
from opscope.base.quantity_text import share_text
from opscope.base.shown_result import ShownResult
from opscope.columns.trace_data import TraceData
from opscope.jobs.clocks import Arrivals, Clocks, brought_together, machines_of
from opscope.jobs.collective_numbers import align, one_rank
from opscope.storage.job import rank_of
from opscope.storage.partition import RANK, Partition, parts_text
from opscope.timeline.arrays import Amounts, Values

_OF_BUS = {
    "allreduce": 2.0, "allreduce_coalesced": 2.0, "all_gather": 1.0, "_allgather_base": 1.0,
    "allgather_coalesced": 1.0, "allgather_into_tensor_coalesced": 1.0, "reduce_scatter": 1.0,
    "_reduce_scatter_base": 1.0, "reduce_scatter_tensor_coalesced": 1.0, "all_to_all": 1.0,
}  # fmt: skip
"""Factor of ``(ranks - 1) / ranks`` for the data on each link, as in nccl-tests
(doc/PERFORMANCE.md). Other collectives: the message itself."""


@dataclass(frozen=True, eq=False)
class JobCollectives(ShownResult):
    """Collectives of a job that several ranks recorded, in order of begin.

    Arrays of collectives have shape (collectives,). A *share* is one rank's part of a collective;
    arrays of shares have shape (shares,). Times are Unix nanoseconds on the job's clock, which is
    that of the first process's machine.

    Attributes:
        processes: the compared processes.
        known_ranks: global rank of each process; ``NONE`` if it is not a rank.
        groups: the process groups.
        group: row of each collective in ``groups``.
        name: such as ``allreduce``.
        number: sequence number in its group.
        size_bytes: size of the message: the larger of a rank's input and output.
        transfer_ns: from the arrival of the last rank until all ranks have the result; ``NONE`` if
            transfers were not recorded.
        skew_ns: from the call of the first rank to that of the last.
        bound_ns: maximum error of times between machines; infinite if unknown.
        last: row in ``processes`` of the rank that the others waited for.
        collective: row of each share's collective.
        process: row of each share in ``processes``.
        begin_ns: time of the rank's call.
        start_ns: begin of the rank's transfer; ``NONE`` if it was not recorded.
        end_ns: end of the rank's transfer.
        wait_ns: the part of it in which other ranks had not arrived.
        exposed_ns: the part of the transfer that no other work hides.
        event: row of the call in ``events`` of the rank's trace.
        clocks: alignment of the clocks of different machines.
        unmatched: number of calls that were left out, by reason.
    """

    processes: tuple[Partition, ...]
    known_ranks: tuple[int, ...]
    groups: tuple[ProcessGroup, ...]
    group: Values
    name: tuple[str, ...]
    number: Values
    size_bytes: Values
    transfer_ns: Values
    skew_ns: Values
    bound_ns: Amounts
    last: Values
    collective: Values
    process: Values
    begin_ns: Values
    start_ns: Values
    end_ns: Values
    wait_ns: Values
    exposed_ns: Values
    event: Values
    clocks: Clocks
    unmatched: dict[str, int]

    def __len__(self) -> int:
        return len(self.group)

    @property
    def ranks(self) -> Values:
        """Number of ranks in the group of each collective; of participants if unknown."""
        sizes = np.array([len(group.ranks) for group in self.groups], dtype=np.int64)
        taking_part = np.bincount(self.collective, minlength=len(self))
        of_group = sizes[self.group] if len(sizes) else np.zeros(0, dtype=np.int64)
        return np.maximum(of_group, taking_part)

    @property
    def absent_ranks(self) -> list[int]:
        """Ranks of the groups outside ``processes``; waits for these ranks count as transfer."""
        present = set(self.known_ranks)
        return sorted({rank for group in self.groups for rank in group.ranks} - present)

    @property
    def algorithm_bandwidth(self) -> Amounts:
        """Bytes of the message per second of the transfer; NaN if unknown."""
        known = (self.transfer_ns > 0) & (self.size_bytes > 0)
        rate = self.size_bytes / np.where(known, self.transfer_ns, 1) * 1e9
        return np.where(known, rate, np.nan)

    @property
    def bus_bandwidth(self) -> Amounts:
        """Bytes per second on each link, as in nccl-tests; NaN if unknown.

        Comparable between collectives of any kind and group size.
        """
        factor = np.array([_OF_BUS.get(name, 0.0) for name in self.name])
        ranks = np.maximum(self.ranks, 1)
        return self.algorithm_bandwidth * np.where(factor > 0, factor * (ranks - 1) / ranks, 1.0)

    def arrows(self) -> Values:
        """Arrows from each share that waited to the share that it waited for. Shape (2, arrows).

        Rows of shares; never back in time, by the times of the calls.
        """
        own = np.flatnonzero(self.process == self.last[self.collective])
        share = np.full(len(self), NONE, dtype=np.int64)
        share[self.collective[own]] = own
        awaited = share[self.collective]
        waiting = np.flatnonzero((awaited != NONE) & (awaited != np.arange(len(awaited))))
        awaited = awaited[waiting]
        is_later = self.begin_ns[waiting] > self.begin_ns[awaited]
        return np.stack(
            [np.where(is_later, awaited, waiting), np.where(is_later, waiting, awaited)]
        )

    def sentences(self) -> list[str]:
        """Remarks about the figures: clocks, missing ranks, unmatched collectives."""
        lines = []
        if not len(self):
            lines.append(
                "No collective was recorded by several of these processes, so waiting times "
                "are unknown."
            )
        lines.append(str(self.clocks))
        if (blurred := self._blurred()) > 0:
            lines.append(
                f"In {share_text(blurred)} of collectives, ranks waited less than the clock "
                "error: the last rank of these is unknown."
            )
        if len(self) and (absent := self.absent_ranks):
            parts = [Partition(RANK, rank) for rank in absent]
            are = "is" if len(parts) == 1 else "are"
            lines.append(
                f"Groups have {parts_text(parts, 0)} too, which {are} not included: waiting for "
                "them counts as transfer."
            )
        unmatched = self.unmatched.items()
        return [*lines, *(f"Not matched: {count:,} {why}." for why, count in unmatched if count)]

    def _blurred(self) -> float:
        """Share of collectives without a wait that exceeds the error bound."""
        if not len(self) or not np.isfinite(self.bound_ns).any():
            return 0.0
        longest = np.zeros(len(self))
        np.maximum.at(longest, self.collective, self.wait_ns.astype(np.float64))
        return float(((self.bound_ns > 0) & (longest < self.bound_ns)).mean())

    def __repr__(self) -> str:
        lines = [
            f"<JobCollectives: {len(self):,} collectives of {len(self.processes)} processes",
            *(f"  {line}" for line in self.sentences()),
        ]
        return "\n".join(lines) + ">"


def job_collectives(
    traces: Iterable[tuple[Partition, TraceData]], with_exposed: bool = True
) -> JobCollectives:
    """Match the collectives of all ranks, align their clocks, and find which rank waited.

    Each trace is read once and not kept. ``exposed_ns`` is 0 without ``with_exposed`` (slow).
    """
    return collectives_together(
        {part: (process_collectives(trace, with_exposed), trace.metadata) for part, trace in traces}
    )


def collectives_together(
    by_process: Mapping[Partition, tuple[ProcessCollectives, Mapping[str, Any]]],
) -> JobCollectives:
    """Match collectives of several processes, from the collectives and metadata of each."""
    processes, collectives = list(by_process), [one for one, _ in by_process.values()]
    hosts = [about for _, about in by_process.values()]
    clocks = machines_of(hosts, [str(part) for part in processes])
    known = (rank_of(part, about) for part, about in zip(processes, hosts, strict=True))
    ranks = [NONE if rank is None else rank for rank in known]
    shares = _matched(ranks, collectives, clocks)
    arrivals = _arrivals(shares, ranks, collectives)
    clocks = brought_together(clocks, arrivals)
    return _described(tuple(processes), ranks, collectives, shares, arrivals, clocks)


@dataclass(frozen=True, eq=False)
class _Shares:
    """Parts of processes in collectives, process by process. Shape (shares,).

    Rows of a process start at ``begin``, shape (processes + 1,); ``row`` is its collective.
    """

    groups: tuple[ProcessGroup, ...]
    group: Values
    name: tuple[str, ...]
    number: Values
    collective: Values
    process: Values
    row: Values
    begin: Values
    unmatched: dict[str, int]

    def of_each(self) -> Iterator[tuple[int, slice]]:
        """Every process with its shares."""
        for process, (first, last) in enumerate(pairwise(self.begin.tolist())):
            yield process, slice(first, last)


Key = tuple[ProcessGroup, int, int, int]
"""Process group; for messages also sender, receiver and tag."""


def _matched(ranks: list[int], collectives: list[ProcessCollectives], clocks: Clocks) -> _Shares:
    by_key: dict[Key, dict[int, Values]] = {}
    unmatched = {
        "calls of unknown groups: record arguments (--shapes)": 0,
        "messages with an unknown peer: record arguments (--shapes)": 0,
        "calls of groups with a single recorded rank": 0,
        "calls that other ranks did not record, or that cannot be matched": 0,
        "calls without a transfer": sum(one.silent for one in collectives),
        "transfers without a call": sum(one.strays for one in collectives),
    }
    unknown, without_peer, alone, not_shared = list(unmatched)[:4]
    for process, one in enumerate(collectives):
        for key, rows in _keys(ranks[process], one):
            if not key[0].ranks:
                unmatched[unknown] += len(rows)
            elif key[1] != key[2] and NONE in key[1:3]:
                unmatched[without_peer] += len(rows)
            else:
                by_key.setdefault(key, {})[process] = rows
    groups: list[ProcessGroup] = sorted({key[0] for key in by_key})
    row_of = {one: row for row, one in enumerate(groups)}
    group: list[int] = []
    name: list[str] = []
    number: list[int] = []
    parts: list[tuple[Values, Values, Values]] = []
    for key, rows_of in by_key.items():
        if len(rows_of) < 2:
            unmatched[alone] += sum(map(len, rows_of.values()))
            continue
        order = list(rows_of)
        signatures: dict[tuple[str, int], int] = {}
        numbers = align(
            [
                one_rank(
                    collectives[process], rows_of[process], signatures,
                    int(clocks.shift_ns[process]), int(clocks.machine[process]),
                )
                for process in order
            ]
        )  # fmt: skip
        every = np.concatenate(numbers)
        distinct, counts = np.unique(every[every != NONE], return_counts=True)
        shared = distinct[counts > 1]
        first = len(group)
        name_of: dict[int, str] = {}
        for process, own in zip(order, numbers, strict=True):
            is_shared = np.flatnonzero(np.isin(own, shared) & (own != NONE))
            unmatched[not_shared] += len(own) - len(is_shared)
            positions = first + np.searchsorted(shared, own[is_shared])
            rows = rows_of[process][is_shared]
            parts.append((positions, np.full(len(rows), process, dtype=np.int64), rows))
            if len(name_of) < len(shared):
                for place, row in zip(positions.tolist(), rows.tolist(), strict=True):
                    name_of.setdefault(place, collectives[process].name[row])
        group += [row_of[key[0]]] * len(shared)
        name += [name_of[first + place] for place in range(len(shared))]
        number += shared.tolist()
    parts.append((np.zeros(0, dtype=np.int64),) * 3)
    collective, of_process, row = (np.concatenate([part[i] for part in parts]) for i in range(3))
    by_process = np.argsort(of_process, kind="stable")
    return _Shares(
        groups=tuple(groups),
        group=np.array(group, dtype=np.int64),
        name=tuple(name),
        number=np.array(number, dtype=np.int64),
        collective=collective[by_process],
        process=of_process[by_process],
        row=row[by_process],
        begin=np.searchsorted(of_process[by_process], np.arange(len(collectives) + 1)),
        unmatched=unmatched,
    )


def _keys(rank: int, collectives: ProcessCollectives) -> Iterable[tuple[Key, Values]]:
    """Rows of a process's collectives by group, and of messages also by peer, in order."""
    sender = np.full(len(collectives), NONE, dtype=np.int64)
    receiver = np.full(len(collectives), NONE, dtype=np.int64)
    for row, name in enumerate(collectives.name):
        if name in POINT_TO_POINT:
            own, peer = rank, int(collectives.peer[row])
            sender[row], receiver[row] = (own, peer) if name == "send" else (peer, own)
    tag = np.where(sender == NONE, 0, collectives.tag)
    keys = np.stack([collectives.group, sender, receiver, tag], axis=1)
    distinct, group_of_row = np.unique(keys, axis=0, return_inverse=True)
    for place, (group, *rest) in enumerate(distinct.tolist()):
        yield (collectives.groups[group], *rest), np.flatnonzero(group_of_row.reshape(-1) == place)


def _arrivals(shares: _Shares, ranks: list[int], collectives: list[ProcessCollectives]) -> Arrivals:
    """Shares that bound clocks: with known transfer, in collectives that wait."""
    start, end, root = (
        _gathered(shares, [getattr(one, column) for one in collectives])
        for column in ("start_ns", "end_ns", "root")
    )
    is_root = np.array(ranks, dtype=np.int64)[shares.process] == root
    kind = np.array([*shares.name, ""], dtype=object)[shares.collective]
    is_timed = (start != NONE) & ~np.isin(kind, UNEVEN)
    to_all, from_all = np.isin(kind, TO_ALL), np.isin(kind, FROM_ALL)
    message = np.isin(kind, POINT_TO_POINT)
    names = [np.array(one.name, dtype=object) for one in collectives]
    sends = _gathered(shares, [(name == "send").astype(np.int64) for name in names]) > 0
    gives = is_timed & np.where(message, sends, np.where(to_all, is_root, ~from_all | ~is_root))
    takes = is_timed & np.where(message, ~sends, np.where(from_all, is_root, ~to_all | ~is_root))
    rooted = (to_all | from_all) & (root == NONE)
    return Arrivals(shares.collective, shares.process, start, end, gives & ~rooted, takes & ~rooted)


def _gathered(shares: _Shares, columns: list[Values]) -> Values:
    """Value of each share, taken from the column of its process."""
    values = np.zeros(len(shares.row), dtype=np.int64)
    for process, own in shares.of_each():
        values[own] = columns[process][shares.row[own]]
    return values


def _described(
    processes: tuple[Partition, ...],
    ranks: list[int],
    collectives: list[ProcessCollectives],
    shares: _Shares,
    arrivals: Arrivals,
    clocks: Clocks,
) -> JobCollectives:
    moved: Mapping[str, Values] = {
        column: _on_job_clock(shares, clocks, [getattr(one, column) for one in collectives])
        for column in ("begin_ns", "start_ns", "end_ns")
    }
    start, end = moved["start_ns"], moved["end_ns"]
    count = len(shares.group)
    last_ns, last, first_begin, last_begin, end_ns = _edges(count, shares, moved, arrivals)
    bound = _bounds(count, shares, clocks, start)
    collective = shares.collective
    comparable = np.isfinite(bound)[collective] if len(collective) else np.zeros(0, dtype=np.bool_)
    waits = (start != NONE) & arrivals.takes & (last_ns[collective] != NONE) & comparable
    wait = np.where(waits, np.clip(np.minimum(last_ns[collective], end) - start, 0, None), 0)
    sizes = [np.maximum(one.sent_bytes, one.received_bytes) for one in collectives]
    size = np.zeros(count, dtype=np.int64)
    np.maximum.at(size, collective, _gathered(shares, sizes))
    is_timed = (last_ns != NONE) & (end_ns != NONE) & np.isfinite(bound)
    order = np.argsort(first_begin, kind="stable")
    place = np.empty(count, dtype=np.int64)
    place[order] = np.arange(count)
    return JobCollectives(
        processes=processes,
        known_ranks=tuple(ranks),
        groups=shares.groups,
        group=shares.group[order],
        name=tuple(shares.name[row] for row in order.tolist()),
        number=shares.number[order],
        size_bytes=size[order],
        transfer_ns=np.where(is_timed, np.maximum(end_ns - last_ns, 0), NONE)[order],
        skew_ns=np.where(np.isfinite(bound), last_begin - first_begin, NONE)[order],
        bound_ns=bound[order],
        last=last[order],
        collective=place[collective],
        process=shares.process,
        begin_ns=moved["begin_ns"],
        start_ns=start,
        end_ns=end,
        wait_ns=wait,
        exposed_ns=_gathered(shares, [one.exposed_ns for one in collectives]),
        event=_gathered(shares, [one.event for one in collectives]),
        clocks=clocks,
        unmatched=shares.unmatched,
    )


def _on_job_clock(shares: _Shares, clocks: Clocks, columns: list[Values]) -> Values:
    """Time of each share on the job's clock; ``NONE`` stays."""
    times = np.full(len(shares.row), NONE, dtype=np.int64)
    for process, own in shares.of_each():
        time = columns[process][shares.row[own]]
        times[own] = np.where(time == NONE, NONE, clocks.on_one(process, time))
    return times


def _edges(
    count: int, shares: _Shares, moved: Mapping[str, Values], arrivals: Arrivals
) -> tuple[Values, Values, Values, Values, Values]:
    """Times and ranks of each collective.

    Begin of the last giver, and its rank; first and last call; time at which the last rank had the
    result.
    """
    row, start, end, begin = (
        shares.collective,
        moved["start_ns"],
        moved["end_ns"],
        moved["begin_ns"],
    )
    last_ns, end_ns = (np.full(count, NONE, dtype=np.int64) for _ in range(2))
    gives = np.flatnonzero(arrivals.gives)
    np.maximum.at(last_ns, row[gives], start[gives])
    np.maximum.at(end_ns, row, end)
    last = np.full(count, NONE, dtype=np.int64)
    is_last = gives[start[gives] == last_ns[row[gives]]]
    last[row[is_last]] = shares.process[is_last]
    first_begin = np.full(count, np.iinfo(np.int64).max)
    last_begin = np.full(count, NONE, dtype=np.int64)
    np.minimum.at(first_begin, row, begin)
    np.maximum.at(last_begin, row, begin)
    return last_ns, last, first_begin, last_begin, end_ns


def _bounds(count: int, shares: _Shares, clocks: Clocks, start: Values) -> Amounts:
    """Largest error of times in each collective: 0 between ranks of one machine."""
    bound = np.zeros(count)
    if len(clocks.machines) == 1:
        return bound
    machine = clocks.machine[shares.process]
    least = np.full(count, len(clocks.machines))
    most = np.full(count, -1)
    np.minimum.at(least, shares.collective, machine)
    np.maximum.at(most, shares.collective, machine)
    several = least != most
    for process, own in shares.of_each():
        np.maximum.at(bound, shares.collective[own], clocks.bound_ns(process, start[own]))
    return np.where(several, 2 * bound, 0.0)
