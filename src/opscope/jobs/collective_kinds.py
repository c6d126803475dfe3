"""Collectives of a job by kind: number, speed, and the rank that came last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.analysis.collectives.calls import NONE, POINT_TO_POINT
from opscope.analysis.collectives.process_collectives import ProcessGroup
from opscope.base.html_table import ShownTable
from opscope.base.quantity_text import bytes_text, share_text, time_text
from opscope.columns.row_groups import group_rows
from opscope.jobs.collectives import JobCollectives
from opscope.jobs.rank_path import rank_path
from opscope.storage.partition import Partition
from opscope.timeline.arrays import Amounts, Values


@dataclass(frozen=True)
class CollectiveKind:
    """Collectives of one name, group and size of message. Times are nanoseconds.

    Attributes:
        name: such as ``allreduce``.
        group: the process group.
        size_bytes: size of the message.
        count: number of collectives that several ranks recorded.
        transfer_ns: median time from the last rank's arrival to the end; NaN if not recorded.
        wait_ns: mean wait of a rank for the last one.
        skew_ns: median time from the first to the last call; NaN if the clocks are unknown.
        exposed_ns: mean time of a rank that no other work hides.
        algorithm_bandwidth: median bytes of the message per second; NaN if unknown.
        bus_bandwidth: median bytes per second on each link; NaN if unknown.
        last: the process that most often arrived last; None if unknown.
        last_share: share of the collectives in which it did.
    """

    name: str
    group: ProcessGroup
    size_bytes: int
    count: int
    transfer_ns: float
    wait_ns: float
    skew_ns: float
    exposed_ns: float
    algorithm_bandwidth: float
    bus_bandwidth: float
    last: Partition | None
    last_share: float

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; None where unknown."""
        return {
            "name": self.name,
            "group": self.group.name,
            "ranks": list(self.group.ranks),
            "size_bytes": self.size_bytes,
            "count": self.count,
            **{
                name: None if np.isnan(value) else round(value)
                for name, value in (
                    ("transfer_ns", self.transfer_ns),
                    ("wait_ns", self.wait_ns),
                    ("skew_ns", self.skew_ns),
                    ("exposed_ns", self.exposed_ns),
                    ("algorithm_bytes_per_s", self.algorithm_bandwidth),
                    ("bus_bytes_per_s", self.bus_bandwidth),
                )
            },
            "last": None if self.last is None else str(self.last),
            "last_share": round(self.last_share, 4),
        }


@dataclass(frozen=True)
class RankWaits:
    """Total waits of one rank in collectives. Times are nanoseconds.

    Attributes:
        process: the rank's process.
        count: number of its collectives that others recorded, too.
        wait_ns: waits for ranks that had not arrived.
        exposed_ns: waits and transfers that no other work hides.
        awaited: number of collectives in which it arrived last.
        awaited_ns: sum of the other ranks' waits in these.
    """

    process: Partition
    count: int
    wait_ns: int
    exposed_ns: int
    awaited: int
    awaited_ns: int

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            self.process.kind: self.process.number,
            "count": self.count,
            "wait_ns": self.wait_ns,
            "exposed_ns": self.exposed_ns,
            "awaited": self.awaited,
            "awaited_ns": self.awaited_ns,
        }


def collective_kinds(job: JobCollectives) -> list[CollectiveKind]:
    """Statistics by name, group and size; longest total exposed time first."""
    if not len(job):
        return []
    names = sorted(set(job.name))
    name = np.array([names.index(one) for one in job.name], dtype=np.int64)
    groups = group_rows(name, job.group, job.size_bytes)
    of_share = groups.group[job.collective]
    shares = np.maximum(np.bincount(of_share, minlength=len(groups)), 1)
    wait = np.bincount(of_share, weights=job.wait_ns, minlength=len(groups))
    exposed = np.bincount(of_share, weights=job.exposed_ns, minlength=len(groups))
    algorithm, bus = job.algorithm_bandwidth, job.bus_bandwidth
    kinds = []
    for row, (what, group, size) in enumerate(groups.rows()):
        rows = np.flatnonzero(groups.group == row)
        last, share = _mostly(job.last[rows])
        kinds.append(
            CollectiveKind(
                name=names[what],
                group=job.groups[group],
                size_bytes=size,
                count=len(rows),
                transfer_ns=_median(_known(job.transfer_ns[rows])),
                wait_ns=float(wait[row] / shares[row]),
                skew_ns=_median(_known(job.skew_ns[rows])),
                exposed_ns=float(exposed[row] / shares[row]),
                algorithm_bandwidth=_median(algorithm[rows]),
                bus_bandwidth=_median(bus[rows]),
                last=None if last == NONE else job.processes[last],
                last_share=share,
            )
        )
    return sorted(kinds, key=lambda kind: -kind.count * kind.exposed_ns)


def rank_waits(job: JobCollectives) -> list[RankWaits]:
    """Waits in collectives by process, in the order of the processes."""
    size = len(job.processes)

    def sums(weights: Values) -> list[int]:
        total = np.bincount(job.process, weights=weights, minlength=size)
        return [round(value) for value in total.tolist()]

    count = np.bincount(job.process, minlength=size).tolist()
    wait, exposed = sums(job.wait_ns), sums(job.exposed_ns)
    is_known = job.last != NONE
    awaited = np.bincount(job.last[is_known], minlength=size).tolist()
    waited = np.bincount(job.collective, weights=job.wait_ns, minlength=len(job))
    others = np.bincount(job.last[is_known], weights=waited[is_known], minlength=size).tolist()
    return [
        RankWaits(process, count[row], wait[row], exposed[row], awaited[row], round(others[row]))
        for row, process in enumerate(job.processes)
    ]


def _known(times: Values) -> Amounts:
    return np.where(times == NONE, np.nan, times)


def _median(values: Amounts) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan")


def _mostly(rows: Values) -> tuple[int, float]:
    known = rows[rows != NONE]
    if not len(known):
        return NONE, 0.0
    counts = np.bincount(known)
    return int(counts.argmax()), float(counts.max() / len(rows))


def kind_table(kinds: Sequence[CollectiveKind]) -> ShownTable:
    """Kinds of collectives: how many, how long, how fast, and who came last."""
    columns = ("Collective", "Count", "Transfer", "Wait", "Exposed", "Bus/s", "Mostly last")
    rows = [
        [
            _title(kind),
            f"{kind.count:,}",
            _time(kind.transfer_ns),
            _time(kind.wait_ns),
            _time(kind.exposed_ns),
            _rate(kind.bus_bandwidth),
            _last(kind),
        ]
        for kind in kinds
    ]
    return ShownTable("", columns, rows)


def rank_table(waits: Sequence[RankWaits]) -> ShownTable:
    """Processes: how long each waited, and others for it."""
    columns = ("Process", "Collectives", "Waited", "Exposed", "Came last", "Others waited")
    rows = [
        [
            str(one.process),
            f"{one.count:,}",
            time_text(one.wait_ns),
            time_text(one.exposed_ns),
            f"{one.awaited:,}",
            time_text(one.awaited_ns),
        ]
        for one in waits
    ]
    return ShownTable("", columns, rows)


def sentences(job: JobCollectives) -> list[str]:
    """The longest chain of waits, if any, and notes on the figures."""
    path = str(rank_path(job))
    return [*([path] if path else []), *job.sentences()]


def _title(kind: CollectiveKind) -> str:
    size = f" {bytes_text(kind.size_bytes)}" if kind.size_bytes else ""
    between = "of two" if kind.name in POINT_TO_POINT else f"{len(kind.group.ranks)} ranks"
    return f"{kind.name}{size}, {between}"


def _time(value: float) -> str:
    return "-" if np.isnan(value) else time_text(round(value))


def _rate(value: float) -> str:
    return "-" if np.isnan(value) else bytes_text(round(value))


def _last(kind: CollectiveKind) -> str:
    return "-" if kind.last is None else f"{kind.last} ({share_text(kind.last_share)})"
